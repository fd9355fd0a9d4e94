"""Stage weights: a checkpoint's tensors as device weights of one dtype, one file per rank.

Streams tensor by tensor. Coverage is exact both ways: every checkpoint key is a weight, a host table or named by
an ignore rule, and every weight of the graph is filled once; anything else is an error that names the key. Layer
scalars are read back from the written file and compared bit for bit, because a loader that leaves them at 1.0
makes a model that is fluent, wrong and silent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import partial
from typing import IO, Any, Literal, cast

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ledger.errors import BadInput, FoundryError, run_cli
from ledger.stage import Job, Outcome, run_stage
from recipes.checkpoint import TEXT_PREFIX, Checkpoint, opened
from recipes.sharding import shard
from recipes.tensorwriter import write_tensors
from serve.manifest import Parameter
from serve.tables import PER_LAYER, TOKENS
from serve.tensorfile import NUMPY, TensorFile

Array = npt.NDArray[np.generic]

TOWERS = ("model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio.")
TABLES = (TOKENS, PER_LAYER)
# Layers that share K and V store these all the same, untrained; a model that loads them runs and is wrong.
DECOY = re.compile(r"layers\.(\d+)\.self_attn\.(k_proj|v_proj|k_norm)\.weight")
SCALAR = ".layer_scalar"
PIECE = re.compile(r"(.+)\.pieces\.(\d+)")


class WeightsRecipe(BaseModel):
    """What device weights depend on, apart from the checkpoint."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["float32", "bfloat16"]
    tp: int
    target: Literal["cpu", "inf2"]


class Source:
    """Where each graph weight comes from: a checkpoint key, or a rule for the few that have none."""

    def __init__(self, checkpoint: Checkpoint, text_config: dict[str, Any], tp: int) -> None:
        self._checkpoint = checkpoint
        self._config = text_config
        self._tp = tp
        self._frequencies = rope_frequencies(text_config)

    def derived(self) -> frozenset[str]:
        """Graph weights that no checkpoint key holds."""
        return frozenset({"lm_head.weight", "rank.onehot", *self._frequencies})

    def read(self, weight: Parameter, rank: int) -> Array:
        """The values of `weight` on `rank`, in its shape and dtype."""
        name = stored_name(weight.name)
        whole: Array
        if name in self._frequencies:
            whole = self._frequencies[name]
        elif name == "rank.onehot":
            whole = np.eye(self._tp, dtype=np.float32)[rank]
        else:
            whole = self._checkpoint.tensor(TEXT_PREFIX + (TOKENS if name == "lm_head.weight" else name))
        part = shard(name, whole, rank, self._tp, self._head_dim(name))
        if piece := PIECE.fullmatch(weight.name):
            width = weight.shape[1]
            part = part[:, int(piece[2]) * width : (int(piece[2]) + 1) * width]
        part = part.astype(NUMPY[weight.dtype])
        if part.shape != weight.shape:
            raise BadInput(f"checkpoint key for {weight.name}: shape is {part.shape}; accepted: {weight.shape}")
        return part

    def _head_dim(self, name: str) -> int:
        layer = re.match(r"layers\.(\d+)\.", name)
        full = layer is not None and self._config["layer_types"][int(layer[1])] == "full_attention"
        return int(self._config["global_head_dim" if full else "head_dim"])


def stored_name(weight: str) -> str:
    """The name of the whole weight that a graph weight is, or is a piece of."""
    piece = PIECE.fullmatch(weight)
    return f"{piece[1]}.weight" if piece else weight


def check_coverage(keys: Iterable[str], needed: Iterable[str], first_shared: int) -> None:
    """BadInput naming the first checkpoint key without a use or the first needed weight without a key."""
    wanted = set(needed)
    found = set()
    for key in keys:
        name = key.removeprefix(TEXT_PREFIX)
        decoy = DECOY.fullmatch(name)
        if key.startswith(TOWERS) or (decoy and int(decoy[1]) >= first_shared):
            continue
        if not key.startswith(TEXT_PREFIX) or name not in wanted.union(TABLES):
            raise BadInput(
                f"checkpoint key {key} has no use in the graph and no rule to ignore it; accepted: the text "
                f"model's own keys under {TEXT_PREFIX} and, left out on purpose, {', '.join(t + '*' for t in TOWERS)}"
            )
        found.add(name)
    if missing := sorted(wanted - found):
        raise BadInput(f"checkpoint key {TEXT_PREFIX}{missing[0]} is missing; accepted: a value for every graph weight")


def graph_weights(text_config: dict[str, Any], recipe: WeightsRecipe) -> tuple[Parameter, ...]:
    """The weights that a rank's step graph takes, in its own order."""
    from recipes.forms import FORMS
    from recipes.stepgraph import StepGraph

    return tuple(StepGraph(text_config, recipe.tp, recipe.dtype, FORMS[recipe.target]).weights())


def rope_frequencies(text_config: dict[str, Any]) -> Mapping[str, Array]:
    """Inverse frequencies per attention kind, from the library's own rule, under their graph names."""
    from transformers import Gemma4TextConfig
    from transformers.models.gemma4.modeling_gemma4 import Gemma4TextRotaryEmbedding

    rotary = Gemma4TextRotaryEmbedding(Gemma4TextConfig(**text_config))
    buffers = {f"rotary_emb.{name}": buffer.numpy() for name, buffer in rotary.named_buffers()}
    return {name: values for name, values in buffers.items() if not name.endswith("_original_inv_freq")}


def check_scalars(written: TensorFile, checkpoint: Checkpoint) -> int:
    """Compare every layer scalar in the written file with the checkpoint's, exactly; returns their number."""
    scalars = [name for name in written.names() if name.endswith(SCALAR)]
    for name in scalars:
        stored, ours = checkpoint.tensor(TEXT_PREFIX + name), written[name]
        if stored.astype(np.float64).tobytes() != ours.astype(np.float64).tobytes():
            raise FoundryError(f"{name} is {ours} in the weight file; accepted: the checkpoint's {stored}")
    return len(scalars)


def work(job: Job[WeightsRecipe]) -> Outcome:
    """Write one weight file per rank."""
    recipe = job.recipe
    with opened(job.inputs["fetch"], job.store) as checkpoint:
        text_config = checkpoint.config["text_config"]
        weights = graph_weights(text_config, recipe)
        source = Source(checkpoint, text_config, recipe.tp)
        first_shared = text_config["num_hidden_layers"] - text_config["num_kv_shared_layers"]
        from_keys = {stored_name(weight.name) for weight in weights} - source.derived()
        check_coverage(checkpoint.names(), from_keys, first_shared)
        outputs = {}
        for rank in range(recipe.tp):
            with job.store.writer() as file:
                write_tensors(cast("IO[bytes]", file), weights, partial(source.read, rank=rank))
            outputs[f"rank{rank}.safetensors"] = file.ref
            scalars = check_scalars(TensorFile(job.store.path(file.ref)), checkpoint)
    return Outcome(outputs=outputs, facts={"tensors": len(weights), "layer_scalars_bit_equal": scalars})


def main() -> int:
    """The stage."""
    return run_stage(
        "weights",
        WeightsRecipe,
        work,
        modules=("recipes.weights", "recipes.stepgraph"),
        packages=("torch", "transformers", "numpy", "ml_dtypes"),
    )


if __name__ == "__main__":
    run_cli(main)
