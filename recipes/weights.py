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
from recipes.kinds import kind_of_text
from recipes.sharding import shard
from recipes.tensorwriter import write_tensors
from serve.manifest import Parameter
from serve.tables import PER_LAYER, TOKENS
from serve.tensorfile import NUMPY, TensorFile

Array = npt.NDArray[np.generic]

TOWERS = (
    "model.vision_tower.",
    "model.vision_embedder.",
    "model.audio_tower.",
    "model.embed_vision.",
    "model.embed_audio.",
)
TABLES = (TOKENS, PER_LAYER)
# Layers that share K and V store these all the same, untrained; a model that loads them runs and is wrong.
DECOY = re.compile(r"layers\.(\d+)\.self_attn\.(k_proj|v_proj|k_norm)\.weight")
SCALAR = ".layer_scalar"
PIECE = re.compile(r"(.+)\.pieces\.(\d+)")
# Stored as [E, out, in] and without `.weight`; the graph holds those of all experts as one matrix.
EXPERTS = re.compile(r"(.+\.experts\.(?:gate_up_proj|down_proj))\.weight")


class WeightsRecipe(BaseModel):
    """What device weights depend on, apart from the checkpoint: those of float32 are the same for any target."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["float32", "bfloat16"]
    tp: int
    target: Literal["cpu", "inf2", "any"]


class Source:
    """Where each graph weight comes from: a checkpoint key, or a rule for the few that have none."""

    def __init__(self, checkpoint: Checkpoint, text_config: dict[str, Any], tp: int) -> None:
        self._checkpoint = checkpoint
        self._config = text_config
        self._tp = tp
        self._frequencies = rope_frequencies(text_config)
        self._experts = expert_shapes(text_config)

    def derived(self) -> frozenset[str]:
        """Graph weights that no checkpoint key holds."""
        return frozenset({"lm_head.weight", "rank.onehot", *self._frequencies})

    def read(self, weight: Parameter, rank: int) -> Array:
        """The values of `weight` on `rank`, in its shape and dtype."""
        name = stored_name(weight.name)
        part = shard(name, self._whole(name, rank), rank, self._tp, self._head_dim(name))
        columns = slice(None)
        if piece := PIECE.fullmatch(weight.name):
            first = int(piece[2]) * weight.shape[1]
            columns = slice(first, first + weight.shape[1])
        if ".experts." in name:
            part = expert_matrix(name, part, columns)
        elif piece:
            part = part[:, columns]
        part = part.astype(NUMPY[weight.dtype])
        if part.shape != weight.shape:
            raise BadInput(f"checkpoint key for {weight.name}: shape is {part.shape}; accepted: {weight.shape}")
        return part

    def _whole(self, name: str, rank: int) -> Array:
        if name in self._frequencies:
            return self._frequencies[name]
        if name == "rank.onehot":
            onehot: Array = np.eye(self._tp, dtype=np.float32)[rank]
            return onehot
        key = TEXT_PREFIX + (TOKENS if name == "lm_head.weight" else name)
        whole: Array = self._checkpoint.tensor(key)
        # Checked before it becomes a matrix, which would not tell 16 experts from 8 of twice the width.
        if whole.shape != (shape := self._experts.get(name.rpartition(".")[2], whole.shape)):
            raise BadInput(f"checkpoint key {key}: shape is {whole.shape}; accepted: {shape}")
        return whole

    def _head_dim(self, name: str) -> int:
        layer = re.match(r"layers\.(\d+)\.", name)
        full = layer is not None and self._config["layer_types"][int(layer[1])] == "full_attention"
        return int(self._config["global_head_dim" if full else "head_dim"])


def stored_name(weight: str) -> str:
    """The checkpoint's name, less its prefix, of the whole weight that a graph weight is, or is a piece of."""
    piece = PIECE.fullmatch(weight)
    whole = f"{piece[1]}.weight" if piece else weight
    experts = EXPERTS.fullmatch(whole)
    return experts[1] if experts else whole


def expert_shapes(text_config: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    """Shapes of the experts' tensors as stored, by the end of their names; none in a model without experts."""
    if not text_config.get("enable_moe_block"):
        return {}
    count, hidden, width = (text_config[key] for key in ("num_experts", "hidden_size", "moe_intermediate_size"))
    return {"gate_up_proj": (count, 2 * width, hidden), "down_proj": (count, hidden, width)}


def expert_matrix(name: str, experts: Array, columns: slice) -> Array:
    """`columns` of the one matrix that the graph has for experts [E, out, in].

    gate_up_proj: one below the other, [E * out, in], a view. down_proj: side by side, [out, E * in], a copy of no
    more experts than the columns belong to.
    """
    count, rows, width = experts.shape
    if name.endswith("gate_up_proj"):
        return experts.reshape(count * rows, width)[:, columns]
    first, last, _ = columns.indices(count * width)
    start = first // width
    block = experts[start : -(-last // width)].transpose(1, 0, 2).reshape(rows, -1)
    return block[:, first - start * width : last - start * width]


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

    form = FORMS["cpu" if recipe.target == "any" else recipe.target]
    return tuple(StepGraph(text_config, recipe.tp, recipe.dtype, form).weights())


def rope_frequencies(text_config: dict[str, Any]) -> Mapping[str, Array]:
    """Inverse frequencies per attention kind, from the library's own rule, under their graph names."""
    kind = kind_of_text(text_config)
    rotary = kind.rotary()(kind.text_config()(**text_config))
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
