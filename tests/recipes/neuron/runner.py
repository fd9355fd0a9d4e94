"""Runs a built model by the SDK's documented calls, in a process of its own: runner.py CASE.pt RESULT.pt.

CASE holds the builder, the files, the order of states in and out, zeros for the states, rank weights for nxd, and the
steps as (graph, tensors). RESULT is the list of logits.
"""

from __future__ import annotations

import sys
import types
from pathlib import Path
from typing import Any

import torch
import torch_neuronx

_ = torch_neuronx.__version__  # importing it is what registers the device


def load(file: str) -> Any:
    """A saved model."""
    return torch.jit.load(file)  # type: ignore[no-untyped-call]


def leading(result: Any) -> list[Any]:
    """What a graph returned, as a list: one tensor may come bare."""
    return [result] if isinstance(result, torch.Tensor) else list(result)


def host_cache(case: dict[str, Any]) -> list[Any]:
    models = {graph: load(file) for graph, file in case["files"].items()}
    state, found = dict(case["state"]), []
    for graph, tensors in case["steps"]:
        logits, *new = leading(models[graph](*tensors, *(state[name] for name in case["states_in"][graph])))
        state = dict(zip(case["states_out"], new, strict=True))
        found.append(logits)
    return found


def device_cache(case: dict[str, Any]) -> list[Any]:
    if case["builder"] == "parallel":
        # What neuronx_distributed imports and transformers 5 has no more.
        sys.modules["transformers.utils.fx"] = types.SimpleNamespace(HFTracer=None)  # type: ignore[assignment]
        from neuronx_distributed.trace import parallel_model_load

        model: Any = parallel_model_load(str(Path(case["files"]["prefill"]).parent))
    else:
        model = load(case["files"]["prefill"])
    if case["builder"] == "nxd":
        model.nxd_model.initialize(case["weights"], torch.tensor([0], dtype=torch.int32))
        # The outer module takes as many tensors as the graph it was traced with; prefill has one more than decode.
        return [leading(model.nxd_model.forward(list(tensors)))[0] for _, tensors in case["steps"]]
    if case["builder"] == "trace":
        torch_neuronx.move_trace_to_device(model, 0)
    return [leading(model(*tensors))[0] for _, tensors in case["steps"]]


if __name__ == "__main__":
    case = torch.load(sys.argv[1])
    torch.save(host_cache(case) if case["states_in"] else device_cache(case), sys.argv[2])
