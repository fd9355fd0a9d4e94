"""Runtimes that stand in for a device: one records what a step is given, one is a model small enough to predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from serve.engine import Engine
from serve.manifest import FileRef, Graph, GraphName, Manifest, Model, Point, Signature, Tokens
from serve.runtime import Inputs, Runtime
from serve.tables import PER_LAYER, TOKENS, HostTables
from serve.tensorfile import NUMPY

VOCABULARY, LAYERS, PLE = 50, 2, 3
FLOOR, CHOSEN = 0.0, 4.0  # logits of the others, where these are all alike, and of the chosen id

Array = npt.NDArray[np.generic]


def manifest(
    kv_max: int, bucket: int, window: int, ring: int, dtype: str = "float32", batch: int = 1, **tokens: Any
) -> Manifest:
    """A manifest whose graphs have the inputs of the real ones, one number wide."""

    def signature(graph: GraphName, width: int, sequences: int) -> Signature:
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
        shapes = {name: (sequences, *shape) for name, shape in shapes.items()}
        if batch > sequences:
            shapes["slot"] = (batch,)
        parameters = [
            {"name": name, "role": "input", "shape": shape, "dtype": "int32" if name == "position_ids" else dtype}
            for name, shape in shapes.items()
        ]
        return Signature.model_validate(
            {"graph": graph, "batch": sequences, "tokens": width, "parameters": parameters}
            | {"outputs": (), "aliases": {}}
        )

    file = FileRef(path="none", sha256="", bytes=0)
    sizes: dict[GraphName, tuple[int, int]] = {"prefill": (bucket, 1), "decode": (1, batch)}
    return Manifest(
        checkpoint="fake",
        revision="",
        licence="",
        variant=Point.model_validate(
            {"name": "fake", "kv_max": kv_max, "kv_bucket": bucket, "tp": 1, "batch": batch}
            | {"slim": False, "dtype": dtype, "kv": "device", "target": "cpu"}
        ),
        model=Model(hidden_size=1, layers=LAYERS, ple_width=PLE, vocab_size=VOCABULARY, sliding_window=window),
        tokens=Tokens(**({"bos": 2, "stop": (1,), "suppress": ()} | tokens)),
        ring=ring,
        graphs={name: Graph(signature=signature(name, *size), modules=(file,)) for name, size in sizes.items()},
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


class Recorder(FakeRuntime):
    """Keeps a copy of the inputs of every step and answers from a script: in all slots one id above all others."""

    def __init__(self, made_for: Manifest, script: Iterator[int]) -> None:
        super().__init__(made_for)
        self.steps: list[tuple[GraphName, dict[str, Array]]] = []
        self._script = script

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        self.steps.append((graph, {name: array.copy() for name, array in self.inputs(graph).items()}))
        logits = np.full((len(self.inputs(graph)["position_ids"]), VOCABULARY), FLOOR, np.float32)
        logits[:, next(self._script)] = CHOSEN
        return logits

    def positions(self) -> list[list[int]]:
        """Position ids of each step, of all slots."""
        return [inputs["position_ids"].ravel().tolist() for _, inputs in self.steps]


def model_answer(whole: Sequence[int], window: int) -> int:
    """The likeliest token after `whole` in `Context`'s model."""
    rows = [(token + 1) * (position + 2) for position, token in enumerate(whole)]
    return (3 * sum(rows) + 5 * sum(rows[-window:]) + 7 * whole[-1] + len(whole)) % VOCABULARY


class Context(FakeRuntime):
    """A model whose KV rows are tokens times positions: what it answers depends on exactly which rows it is shown.

    Every step does what a step graph does: rows are written where a selector says, in the slot that was chosen or in
    all, then read through the masks. Buffers start full of numbers, as stale rows of an earlier request would be.
    """

    def __init__(self, made_for: Manifest) -> None:
        super().__init__(made_for)
        slots = made_for.variant.batch
        self.calls: list[GraphName] = []
        self._buffers = {"full": np.full((slots, made_for.variant.kv_max), 17.0)}
        self._buffers["sliding"] = np.full((slots, made_for.ring), 23.0)

    def step(self, graph: GraphName) -> npt.NDArray[np.float32]:
        self.calls.append(graph)
        inputs = {name: array.astype(np.float64) for name, array in self.inputs(graph).items()}
        ids, positions = inputs["inputs_embeds"][:, :, 0], inputs["position_ids"]
        each = np.arange(len(ids))
        query = inputs["last"].argmax(-1) if "last" in inputs else 0 * each
        slots = np.flatnonzero(inputs["slot"]) if "slot" in inputs else each
        assert len(slots) == len(ids)
        sums = []
        for kind, buffer in self._buffers.items():
            selector = inputs[f"{kind}_select"][:, 0]
            new = np.einsum("brt,bt->br", selector, (ids + 1) * (positions + 2))
            buffer[slots] = np.where(selector.sum(-1) > 0.5, new, buffer[slots])
            sums.append((buffer[slots] * (inputs[f"{kind}_mask"][each, 0, query] == 0)).sum(-1))
        likeliest = 3 * sums[0] + 5 * sums[1] + 7 * ids[each, query] + positions[each, query] + 1
        # Every id after the likeliest, in a circle, is a little less likely.
        behind = (np.arange(VOCABULARY) - likeliest[:, None]) % VOCABULARY
        logits: npt.NDArray[np.float32] = (CHOSEN - behind / 10).astype(np.float32)
        return logits


def engine(folder: Path, made_for: Manifest, runtime: Runtime) -> Engine:
    """An engine over `runtime` and tables in which the embedding of a token is its id."""
    import torch
    from safetensors.torch import save_file

    ids = torch.arange(VOCABULARY, dtype=torch.bfloat16)
    tables = {TOKENS: ids[:, None].clone(), PER_LAYER: ids[:, None].repeat(1, LAYERS * PLE)}
    path = folder / "tables.safetensors"
    if not path.exists():
        save_file(tables, path)
    return Engine(made_for, runtime, HostTables(path, made_for.model, slim=True))
