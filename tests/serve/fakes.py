"""Runtimes that stand in for a device: one records what a step is given, one is a model small enough to predict."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file

from serve.engine import Engine
from serve.manifest import FileRef, Graph, GraphName, Manifest, Model, Point, Signature, Tokens
from serve.runtime import Inputs, Runtime
from serve.tables import PER_LAYER, TOKENS, HostTables
from serve.tensorfile import NUMPY

VOCABULARY, LAYERS, PLE = 50, 2, 3
FLOOR = 0.0  # logit of every id that a fake did not choose
CHOSEN = 4.0

Array = npt.NDArray[np.generic]


def manifest(kv_max: int, bucket: int, window: int, ring: int, dtype: str = "float32", **tokens: Any) -> Manifest:
    """A manifest whose graphs have the inputs of the real ones, one number wide."""

    def signature(graph: GraphName, width: int) -> Signature:
        shapes: dict[str, tuple[int, ...]] = {
            "inputs_embeds": (width, 1),
            "per_layer_inputs": (width, LAYERS, PLE),
            "position_ids": (width,),
            "full_mask": (1, width, kv_max),
            "full_select": (1, kv_max, width),
            "sliding_mask": (1, width, ring),
            "sliding_select": (1, ring, width),
        }
        if width > 1:
            shapes["last"] = (width,)
        parameters = [
            {
                "name": name,
                "role": "input",
                "shape": (1, *shape),
                "dtype": "int32" if name == "position_ids" else dtype,
            }
            for name, shape in shapes.items()
        ]
        return Signature.model_validate(
            {"graph": graph, "batch": 1, "tokens": width, "parameters": parameters, "outputs": (), "aliases": {}}
        )

    file = FileRef(path="none", sha256="", bytes=0)
    widths: dict[GraphName, int] = {"prefill": bucket, "decode": 1}
    return Manifest(
        checkpoint="fake",
        revision="",
        licence="",
        variant=Point.model_validate(
            {"name": "fake", "kv_max": kv_max, "kv_bucket": bucket, "tp": 1, "batch": 1}
            | {"slim": False, "dtype": dtype, "kv": "device", "target": "cpu"}
        ),
        model=Model(hidden_size=1, layers=LAYERS, ple_width=PLE, vocab_size=VOCABULARY, sliding_window=window),
        tokens=Tokens(**({"bos": 2, "stop": (1,), "suppress": ()} | tokens)),
        ring=ring,
        graphs={name: Graph(signature=signature(name, width), module=file) for name, width in widths.items()},
        weights=(file,),
        tables=file,
        tokenizer={},
        toolchain={},
    )


class FakeRuntime:
    """Input arrays as a manifest asks for, and no device."""

    def __init__(self, made_for: Manifest) -> None:
        self.closed = False
        self._inputs = {
            name: {
                parameter.name: np.full(parameter.shape, 33, NUMPY[parameter.dtype])
                for parameter in graph.signature.parameters
            }
            for name, graph in made_for.graphs.items()
        }

    def inputs(self, graph: GraphName) -> Inputs:
        return self._inputs[graph]

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        raise NotImplementedError

    def close(self) -> None:
        self.closed = True


def logits_for(chosen: int) -> npt.NDArray[np.float32]:
    """[1, V] with one id above all others."""
    logits = np.full((1, VOCABULARY), FLOOR, np.float32)
    logits[0, chosen] = CHOSEN
    return logits


class Recorder(FakeRuntime):
    """Keeps a copy of the inputs of every step and answers from a script."""

    def __init__(self, made_for: Manifest, script: Iterator[int]) -> None:
        super().__init__(made_for)
        self.steps: list[tuple[GraphName, dict[str, Array]]] = []
        self._script = script

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        self.steps.append((graph, {name: array.copy() for name, array in self.inputs(graph).items()}))
        return logits_for(next(self._script))

    def positions(self) -> list[list[int]]:
        """Position ids of each step."""
        return [inputs["position_ids"][0].tolist() for _, inputs in self.steps]


def model_answer(whole: list[int], window: int) -> int:
    """The token after `whole` in `Context`'s model."""
    return (3 * sum(whole) + 5 * sum(whole[-window:]) + 7 * whole[-1] + len(whole)) % VOCABULARY


class Context(FakeRuntime):
    """A model whose KV rows are token ids: what it answers depends on exactly which rows it is shown.

    Every step does what a step graph does: rows are written where a selector says, then read through the masks.
    Buffers start full of ids, as stale ones of an earlier request would be.
    """

    def __init__(self, made_for: Manifest) -> None:
        super().__init__(made_for)
        self._full = np.full(made_for.variant.kv_max, 17.0)
        self._ring = np.full(made_for.ring, 23.0)

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        inputs = {name: array[0].astype(np.float64) for name, array in self.inputs(graph).items()}
        ids = inputs["inputs_embeds"][:, 0]
        query = int(inputs["last"].argmax()) if "last" in inputs else 0
        sums = []
        for buffer, kind in ((self._full, "full"), (self._ring, "sliding")):
            selector = inputs[f"{kind}_select"][0]
            taken = selector.sum(-1) > 0.5
            buffer[taken] = (selector @ ids)[taken]
            sums.append(int(buffer[inputs[f"{kind}_mask"][0, query] == 0].sum()))
        length = int(inputs["position_ids"][query]) + 1
        return logits_for((3 * sums[0] + 5 * sums[1] + 7 * int(ids[query]) + length) % VOCABULARY)


def engine(folder: Path, made_for: Manifest, runtime: Runtime) -> Engine:
    """An engine over `runtime` and tables in which the embedding of a token is its id."""
    ids = torch.arange(VOCABULARY, dtype=torch.bfloat16)
    tables = {TOKENS: ids[:, None].clone(), PER_LAYER: ids[:, None].repeat(1, LAYERS * PLE)}
    path = folder / "tables.safetensors"
    if not path.exists():
        save_file(tables, path)
    return Engine(made_for, runtime, HostTables(path, made_for.model, slim=True))
