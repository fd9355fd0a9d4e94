"""parallel_model_trace on two ranks: as a program it builds in the current folder, `load` is for another process.

Both print what they saw.
`frozen` also depends on the Python rank number otherwise than through its weights: its ranks have different programs.
"""

# ruff: noqa: E402 - the stub comes before neuronx_distributed
from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

fx = ModuleType("transformers.utils.fx")
fx.HFTracer = object  # type: ignore[attr-defined]
# At import: the spawned ranks import this module, then neuronx_distributed, before anything else runs.
sys.modules["transformers.utils.fx"] = fx

import numpy as np
import torch
from neuronx_distributed.parallel_layers import mappings, parallel_state
from neuronx_distributed.trace import parallel_model_load, parallel_model_save, parallel_model_trace
from torch import nn

from tests.standins import nxd_toy

TP = 2
WHOLE = nxd_toy.values()
X = np.random.default_rng(1).normal(size=(2, nxd_toy.WIDTH)).astype(np.float32)


def toy() -> Any:
    """This rank's module with its weights, and the alias of its state, which holds 7."""
    rank = parallel_state.get_tensor_model_parallel_rank()
    module = nxd_toy.make(TP)
    named = dict(module.named_parameters())
    for name, value in nxd_toy.share(WHOLE, rank, TP).items():
        if name in named:
            named[name].copy_(torch.from_numpy(value))
    return module, {module.kept[0]: 1}


class Frozen(nn.Module):
    """The sum over ranks of x times rank + 1, and the same without the sum."""

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What all ranks agree on, and what each has for itself."""
        mine = x * (parallel_state.get_tensor_model_parallel_rank() + 1)
        return mappings.reduce_from_tensor_model_parallel_region(mine.clone()), mine


def frozen() -> Any:
    """A module without state."""
    return Frozen(), {}


def failing() -> Any:
    """A rank that cannot be built."""
    raise ValueError(f"no weights for rank {parallel_state.get_tensor_model_parallel_rank()}")


def refusal(call: Any) -> str:
    """Type and text of what a call raises; "" when it does not."""
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def build() -> None:
    """Trace and save."""
    folder = Path.cwd()
    example = (torch.zeros(*X.shape),)
    trace = partial(parallel_model_trace, example_inputs=example, tp_degree=TP, compiler_args="--target inf2")
    model = trace(toy, compiler_workdir=folder / "work-toy", max_parallel_compilations=1)
    parallel_model_save(model, str(folder / "toy"))
    parallel_model_save(trace(frozen, compiler_workdir=folder / "work-frozen"), str(folder / "frozen"))
    facts = {
        "type": type(model).__name__,
        "saved": sorted(file.name for file in (folder / "toy").iterdir()),
        "work": sorted(file.name for file in (folder / "work-toy").iterdir()),
        "failing": refusal(lambda: parallel_model_trace(failing, example)),
        "lambda": refusal(lambda: trace(lambda: (nxd_toy.make(TP), {}))),
        "spmd": refusal(lambda: trace(toy, spmd_mode=True)),
        "buckets": refusal(lambda: trace(toy, bucket_config=object())),
    }
    print(json.dumps(facts))


def load() -> None:
    """Load and call."""
    folder = Path.cwd()
    x = torch.from_numpy(X)
    model, other, uneven = (parallel_model_load(str(folder / name)) for name in ("toy", "toy", "frozen"))
    ranks: Any = model.models
    before = [next(rank.states.parameters()) for rank in ranks]
    first = model(x)
    after = [next(rank.states.parameters()) for rank in ranks]
    second = model(x)
    (folder / "toy/notes.txt").touch()
    facts = {
        "outputs": [first.tolist(), second.tolist()],
        "before": [one.tolist() for one in before],
        "after": [one.tolist() for one in after],
        "replaced": [old is not new for old, new in zip(before, after, strict=True)],
        "other": other(x).tolist(),
        "frozen": [one.tolist() for one in uneven(x)],
        "stray": refusal(lambda: parallel_model_load(str(folder / "toy"))),
    }
    print(json.dumps(facts))


if __name__ == "__main__":
    build()
