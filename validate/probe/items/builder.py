"""NxD's ModelBuilder: whether buffers are weights, and writes to the device's buffers."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from validate.probe.items import sdk
from validate.probe.question import Answer, Work

_FLAGS = "--target inf2 --auto-cast=none -O1"


class Scaled(torch.nn.Module):
    """x * weight * scale, with `scale` a buffer that is 1 as built and 0.5 in the checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=False)
        self.scale: torch.Tensor
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[4] to [4]."""
        return x * self.weight * self.scale


class Summing(torch.nn.Module):
    """A buffer that each call adds to: what V2 takes for state."""

    def __init__(self) -> None:
        super().__init__()
        self.total: torch.Tensor
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[4] to [4]."""
        self.total = self.total + x
        return self.total * 2


def buffers(work: Work) -> Answer:
    """Build with V1, give the loaded graph 0.5, and see what it multiplies by."""
    builder = _nxd("neuronx_distributed.trace.model_builder")
    made = builder.ModelBuilder(
        router=None, tp_degree=1, checkpoint_loader=_checkpoint, compiler_workdir=str(sdk.folder(work, "nxd"))
    )
    x = torch.ones(4)
    made.add(
        key="scaled",
        model_instance=builder.BaseModelInstance(Scaled, {}),
        example_inputs=[(x,)],
        compiler_args=_FLAGS,
    )
    path = sdk.save(made.trace(initialize_model_weights=False), Path(work.own) / "scaled.pt")
    return _judge(lambda weights: _initialized(path, weights)(x))


def buffers_v2(work: Work) -> Answer:
    """The same with V2."""
    nxd = _nxd("neuronx_distributed")
    x = torch.ones(4)
    with nxd.NxDParallelState(world_size=1, tensor_model_parallel_size=1):
        made = _compiled(nxd.ModelBuilder(Scaled()), x, work)

    def run(weights: dict[str, torch.Tensor]) -> Any:
        made.set_weights([weights])
        made.to_neuron()
        return made(x)

    return _judge(run)


def write_to_buffer(work: Work) -> Answer:
    """Add ones to the state of a V2 graph, write 10 into it, and add zeros."""
    nxd = _nxd("neuronx_distributed")
    ones = torch.ones(4)
    with nxd.NxDParallelState(world_size=1, tensor_model_parallel_size=1):
        made = _compiled(nxd.ModelBuilder(Summing()), ones, work)
    made.set_weights([{}])
    made.to_neuron()
    before = sdk.outputs(made(ones))[0]
    made.write_to_neuron_buffer(torch.full((4,), 10.0), "total", 0)
    after = sdk.outputs(made(torch.zeros(4)))[0]
    evidence = {"before": sdk.numbers(before), "wrote": 10.0, "expected": 20.0, "found": sdk.numbers(after)}
    return Answer("reaches the graph" if bool((after == 20.0).all()) else "lost", evidence)


def _compiled(builder: Any, x: torch.Tensor, work: Work) -> Any:
    """V2 names inputs by the parameters of forward."""
    traced = builder.trace(kwargs={"x": x}, tag="probe")
    return traced.compile(compiler_workdir=str(sdk.folder(work, "nxd")), compiler_args=_FLAGS)


def _judge(run: Callable[[dict[str, torch.Tensor]], Any]) -> Answer:
    """Run with the checkpoint's buffer; without it where the loader refuses to have it."""
    evidence: dict[str, Any] = {"built_with": 1.0, "checkpoint": 0.5}
    try:
        found = sdk.outputs(run(_checkpoint()))[0]
    except Exception as error:
        evidence["loader_says"] = f"{type(error).__name__}: {error}"[:300]
        weights = _checkpoint()
        del weights["scale"]
        found = sdk.outputs(run(weights))[0]
    evidence["found"] = sdk.numbers(found)
    word = {0.5: "a weight", 1.0: "a constant: the checkpoint's value is dropped"}.get(found[0].item())
    return Answer(word or "neither: another value came out", evidence)


def _checkpoint() -> dict[str, torch.Tensor]:
    """Made on the CPU by name: NxD calls a loader where the meta device is the default."""
    return {"weight": torch.ones(4, device="cpu"), "scale": torch.full((1,), 0.5, device="cpu")}


def _initialized(path: Path, weights: dict[str, torch.Tensor]) -> Any:
    model = sdk.load(path)
    model.nxd_model.initialize([weights], torch.tensor([0], dtype=torch.int32))
    return model


def _nxd(name: str) -> Any:
    """An NxD module, with a stub for what transformers 5 no longer has."""
    if "transformers.utils.fx" not in sys.modules:
        stub = types.ModuleType("transformers.utils.fx")
        stub.HFTracer = type("HFTracer", (), {})  # type: ignore[attr-defined]
        sys.modules["transformers.utils.fx"] = stub
    return importlib.import_module(name)
