"""From a small random checkpoint to the verdict that ships: oracle, stages, engine and judge are the real ones.

Only checkpoint and prompts are made here. The checkpoints of other tests are no whole ones: the oracle wants towers,
and one fault wants keys and values in the layers that share.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from config.geometry import geometry_path
from config.models import Parity
from ledger.receipts import Receipt
from ledger.store import Store
from recipes import assemble
from recipes.assemble import AssembleRecipe
from recipes.tensorwriter import write_tensors
from serve.engine import Engine
from serve.manifest import Parameter
from serve.tensorfile import TensorFile
from tests import build
from tests.validate.faults import BUCKET, Arrays
from validate.findings import Report
from validate.oracle import consult
from validate.prompts import edge_lengths
from validate.records import Heldout, Prompt, PromptSet
from validate.subject import examine

KV_MAX, WINDOW = 128, 16
MAX_NEW = 24
# So many that a random model soon says one of them.
STOPS = (1, *range(100, 150))
SUPPRESSED = tuple(range(300, 340))
TEXT_CONFIG: dict[str, Any] = build.TEXT_CONFIG | {"sliding_window": WINDOW}


def write_checkpoint(folder: Path) -> None:
    """Random text weights in the official layout, with towers, and decoys in the layers that share."""
    import torch
    from safetensors.torch import load_file, save_file
    from transformers import Gemma4Config, Gemma4ForConditionalGeneration, GenerationConfig

    config = json.loads(geometry_path("tiny").read_text())
    # The library treats media ids apart, so none may be generated.
    media = [key for key in config if key.endswith(("_token_id", "_token_index")) and key != "eos_token_id"]
    config |= dict(zip(media, SUPPRESSED, strict=False)) | {"text_config": TEXT_CONFIG}
    model = Gemma4ForConditionalGeneration(Gemma4Config(**config))
    model.model.language_model.load_state_dict(build.random_model(TEXT_CONFIG, seed=0).model.state_dict())
    model.generation_config = GenerationConfig(
        bos_token_id=build.BOS, pad_token_id=0, eos_token_id=list(STOPS), suppress_tokens=list(SUPPRESSED)
    )
    model.to(torch.bfloat16).save_pretrained(folder)
    path = folder / "model.safetensors"
    tensors = load_file(path)
    owners = TEXT_CONFIG["num_hidden_layers"] - TEXT_CONFIG["num_kv_shared_layers"]
    for layer, kind in list(enumerate(TEXT_CONFIG["layer_types"]))[owners:]:
        width = TEXT_CONFIG["global_head_dim" if kind == "full_attention" else "head_dim"]
        shape = (TEXT_CONFIG["num_key_value_heads"] * width, TEXT_CONFIG["hidden_size"])
        prefix = f"{build.PREFIX}layers.{layer}.self_attn."
        tensors |= {f"{prefix}{name}.weight": torch.randn(shape).bfloat16() / 20 for name in ("k_proj", "v_proj")}
        tensors[f"{prefix}k_norm.weight"] = torch.ones(width, dtype=torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        (folder / name).write_text("{}")


def questions() -> PromptSet:
    """Random ids in every length at a seam, shortest first, without stop ids and with them; two held-out windows."""
    random = np.random.default_rng(5)

    def ids(length: int) -> tuple[int, ...]:
        return (build.BOS, *random.integers(0, SUPPRESSED[0], length - 1).tolist())

    prompts = (
        Prompt(
            name=f"{'stop' if stop else 'length'}-{length}",
            kind="length",
            ids=ids(length),
            max_new=min(MAX_NEW, KV_MAX - length),
            stop=stop,
        )
        for length in edge_lengths(KV_MAX, BUCKET, WINDOW)
        for stop in (False, True)
    )
    heldout = (Heldout(name=f"heldout-{number}", ids=ids(KV_MAX - 1)) for number in (1, 2))
    return PromptSet(prompts=tuple(prompts), heldout=tuple(heldout))


class Line:
    """The checkpoint, its right artifact and the oracle's answers; makes wrong artifacts of the same checkpoint."""

    def __init__(self, folder: Path) -> None:
        """Everything without a fault, below `folder`."""
        self._folder, self._store = folder, Store(folder / "store")
        checkpoint = folder / "checkpoint"
        checkpoint.mkdir()
        write_checkpoint(checkpoint)
        self.asked = questions()
        self.oracle, self.doubts = consult(checkpoint, self.asked, threads=1, say=lambda _: None)
        self._point = build.point(KV_MAX, BUCKET)
        fetched = build.fetched(checkpoint, self._store)
        facts = fetched.facts | {"stop_ids": STOPS, "suppress_tokens": SUPPRESSED}
        self._fetched = fetched.model_copy(update={"facts": facts})
        self._receipts = self._made()
        self.artifact = self._assembled("right", self._receipts)

    def lowered(self) -> Path:
        """The artifact that the stages make now."""
        return self._assembled("lowered", self._made())

    def edited(self, edit: Callable[[Arrays], None]) -> Path:
        """The right artifact, but for weights that went through `edit`."""
        right = self._receipts["weights"]
        file = TensorFile(self._store.path(right.outputs["rank0.safetensors"]))
        arrays: Arrays = {name: file[name] for name in file.names()}
        edit(arrays)
        with self._store.writer() as out:
            write_tensors(
                cast("IO[bytes]", out),
                [Parameter(name=name, role="weight", shape=a.shape, dtype="float32") for name, a in arrays.items()],
                lambda parameter: arrays[parameter.name],
            )
        weights = right.model_copy(update={"outputs": {"rank0.safetensors": out.ref}})
        return self._assembled("edited", self._receipts | {"weights": weights})

    def examined(self, folder: Path) -> Report:
        """What parity says of an artifact."""
        tolerance = Parity().float32_logprob_tolerance
        with closing(Engine.load(folder)) as engine:
            return examine(
                engine, self.asked, self.oracle, epsilon=0.0, logprob_tolerance=tolerance, say=lambda _: None
            )

    def _made(self) -> dict[str, Receipt]:
        return build.stages(self._fetched, self._store, self._point)

    def _assembled(self, name: str, receipts: dict[str, Receipt]) -> Path:
        recipe = AssembleRecipe(checkpoint="random", variant=self._point)
        assemble.build(build.job(recipe, self._store, **receipts), self._folder / name)
        return self._folder / name / "variants" / self._point.name
