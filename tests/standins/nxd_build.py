"""Builds small models with ModelBuilder V1 in the current folder, and prints what it saw."""

# mypy: disallow-untyped-calls=False
# ruff: noqa: E402 - the stub comes before neuronx_distributed

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

# NxD asks for this module, which the transformers of today has not.
fx = ModuleType("transformers.utils.fx")
fx.HFTracer = object  # type: ignore[attr-defined]
sys.modules["transformers.utils.fx"] = fx

import torch
from neuronx_distributed.parallel_layers import layers, mappings, parallel_state
from neuronx_distributed.trace.compiling import append_default_compiler_flags
from neuronx_distributed.trace.model_builder import BaseModelInstance, ModelBuilder
from torch import nn

from tests.standins import nxd_toy

FOLDER = Path.cwd()
TARGET = "--target inf2"


class Instance(BaseModelInstance):
    """A module made afresh for every graph; `kept`, if it has that, is its state."""

    def __init__(self, make: Callable[[], nn.Module]) -> None:
        super().__init__(make, {})

    def get(self, bucket_rank: int, **_: Any) -> Any:
        """The module and the place of its state among the outputs."""
        kept = getattr(self.module, "kept", [])
        return self.module, {state: 1 + i for i, state in enumerate(kept)}


class Frozen(nn.Module):
    """x times rank + 1, summed over the ranks: the rank is a Python number and a tensor."""

    def __init__(self, world: int) -> None:
        super().__init__()
        self.place = layers.SPMDRank(world)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """By the Python number, by the tensor."""
        reduce = mappings.reduce_from_tensor_model_parallel_region
        number = parallel_state.get_tensor_model_parallel_rank()
        return reduce(x * (number + 1)), reduce(x * (self.place.get_rank() + 1))


class Uneven(nn.Module):
    """One output for one row, two for more; takes any number of inputs."""

    def forward(self, x: torch.Tensor, *more: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """As said."""
        x = x + sum(more)
        return (x + 1,) if len(x) == 1 else (x + 1, x + 2)


def build(
    name: str,
    make: Callable[[], nn.Module],
    tp: int,
    inputs: tuple[tuple[int, ...], ...] = ((4,), (1,)),
    **traced: Any,
) -> Any:
    """A graph per tuple of row counts, each under a key of its own; saved as {name}.pt unless it was a dry run."""
    builder = ModelBuilder(None, tp, checkpoint, compiler_workdir=str(FOLDER / f"work-{name}"))
    for rows in inputs:
        example = tuple(torch.zeros(count, nxd_toy.WIDTH) for count in rows)
        builder.add(f"rows{rows[0]}x{len(rows)}", Instance(make), [example], compiler_args=TARGET)
    model = builder.trace(**{"initialize_model_weights": False, **traced})
    if model is not None:
        torch.jit.save(model, FOLDER / f"{name}.pt")
    return model


def checkpoint() -> dict[str, torch.Tensor]:
    """The whole toy checkpoint, values always on the CPU, and one key no model knows."""
    with torch.device("cpu"):
        whole = {name: torch.from_numpy(value) for name, value in nxd_toy.values().items()}
        return {**whole, "unknown": torch.zeros(1)}


class Sharded(nn.Module):
    """A parallel layer and a plain one."""

    def __init__(self) -> None:
        super().__init__()
        self.up = layers.ColumnParallelLinear(nxd_toy.WIDTH, nxd_toy.HIDDEN, bias=False)
        self.place = layers.SPMDRank(2)
        self.missing = nn.Linear(1, 1)
        self.register_buffer("scale", torch.ones(1, dtype=torch.float16))


def sharding() -> dict[str, Any]:
    """What shard_checkpoint makes of a checkpoint that fits badly."""
    builder = ModelBuilder(None, 2, lambda: source, compiler_workdir=str(FOLDER / "unused"))
    builder.add("only", Instance(Sharded), [(torch.zeros(1, 1),)])
    source = {**checkpoint(), "place.rank": torch.arange(2, dtype=torch.int32)}
    made_inside: list[str] = []
    builder.checkpoint_loader = lambda: made_inside.append(torch.zeros(1).device.type) or source  # type: ignore[func-returns-value]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ranks = builder.shard_checkpoint(str(FOLDER / "shards"))
    return {
        "loader_device": made_inside,
        "warnings": [str(one.message) for one in caught],
        "files": sorted(file.name for file in (FOLDER / "shards").iterdir()),
        "ranks": [{name: [list(one.shape), str(one.dtype)] for name, one in rank.items()} for rank in ranks],
        "up": [rank["up.weight"].tolist() for rank in ranks],
        "place": [rank["place.rank"].tolist() for rank in ranks],
        "source": sorted(source),
    }


def refusal(call: Callable[[], object]) -> str:
    """Type and text of what a call raises; "" when it does not."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main() -> None:
    """Build everything."""
    warnings.simplefilter("ignore")
    (FOLDER / "work-toy1").mkdir()
    (FOLDER / "work-toy1/stale").touch()
    for tp in (1, 2):
        build(f"toy{tp}", lambda tp=tp: nxd_toy.make(tp), tp)  # type: ignore[misc]
    build("scaled", lambda: nxd_toy.make(1, scale=False), 1, inputs=((1,),))
    build("frozen", lambda: Frozen(2), 2, inputs=((1,),))
    build("arity", Uneven, 1, inputs=((1,), (1, 1)))
    dry = build("dry", lambda: nxd_toy.make(1), 1, dry_run=True)
    builder = ModelBuilder(None, 1, checkpoint)
    parallel = {"world_size": 2, "tp_degree": 1, "router": None, "checkpoint_loader": checkpoint}
    facts = {
        "dry": [dry is None, sorted(str(f.relative_to(FOLDER / "work-dry")) for f in FOLDER.glob("work-dry/*/*/*"))],
        "files": sorted(file.name for file in (FOLDER / "work-toy2/rows4x1/_tp0_bk0").iterdir()),
        "stale": (FOLDER / "work-toy1/stale").exists(),
        "default_workdir": builder.compiler_workdir,
        "flags": [append_default_compiler_flags(flags) for flags in (None, "--target inf2", "-O2 --auto-cast=all")],
        "not_a_list": refusal(lambda: builder.add("key", Instance(Uneven), (torch.zeros(1),))),  # type: ignore[arg-type]
        "uneven": refusal(lambda: build("uneven", Uneven, 1, inputs=((1,), (4,)))),
        "world": refusal(lambda: ModelBuilder(**parallel)),  # type: ignore[arg-type]
        "without_device": refusal(lambda: build("full", lambda: nxd_toy.make(1), 1, initialize_model_weights=True)),
        "sharding": sharding(),
    }
    os.environ["STANDIN_DEVICES"] = "1"
    model = build("full", lambda: nxd_toy.make(1), 1, initialize_model_weights=True)
    facts["initialized"] = model(torch.ones(1, nxd_toy.WIDTH)).tolist()
    print(json.dumps(facts))
