"""The operators a saved TorchScript model calls (sections 2.1, 2.4): registered by `import torch_neuronx` only.

A model's device side hangs on its NEFF tensor, which is one object per loaded module; a device tensor is a CPU tensor
with the attribute `standin_device`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.library import Library

from neuron_standin import options, runtime
from neuron_standin.batching import in_slices
from neuron_standin.executor import Executable, Group, run_together
from neuron_standin.metaneff import MetaNeff

operators: Any = Library("neuron", "DEF")  # type: ignore[no-untyped-call]
operators.define(
    "forward(Tensor neff, Tensor metaneff, Tensor placement, Tensor[] inputs, Tensor[] weights, Tensor[] states, "
    "bool returned) -> Tensor[]",
    alias_analysis="CONSERVATIVE",
)
operators.define(
    "spmd_forward(Tensor neff, Tensor metaneff, Tensor[] inputs, Dict(str, Tensor)[] weights, "
    "Dict(str, Tensor)[] states, int ranks) -> Tensor[]",
    alias_analysis="CONSERVATIVE",
)
operators.define("_parallel_load(Dict(str, Tensor)[] checkpoint) -> Dict(str, Tensor)[]", alias_analysis="CONSERVATIVE")


def tensor_bytes(tensor: Tensor) -> bytes:
    """The bytes of a uint8 tensor."""
    return tensor.numpy().tobytes()


def bytes_tensor(data: bytes) -> Tensor:
    """A uint8 tensor of these bytes."""
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def executable(neff: Tensor, metaneff: Tensor) -> Executable:
    """What a module's NEFF tensor holds, unpacked once per module."""
    found: Executable | None = getattr(neff, "standin_executable", None)
    if found is None:
        found = Executable(tensor_bytes(neff), MetaNeff.FromString(tensor_bytes(metaneff)))
        neff.standin_executable = found  # type: ignore[attr-defined]
    return found


def on_device(tensor: Tensor, device: int) -> Tensor:
    """A new device tensor with this value; whoever still holds the old one holds an orphan."""
    moved = tensor.detach().clone()
    moved.standin_device = device  # type: ignore[attr-defined]
    if not options.host_writes_reach():
        moved.standin_shadow = moved.clone()  # type: ignore[attr-defined]
    return moved


def device_side(tensor: Tensor, device: int) -> Tensor:
    """What the graph reads and writes for this tensor; a host tensor is moved at its first use."""
    shadow: Tensor | None = getattr(tensor, "standin_shadow", None)
    if shadow is not None:
        return shadow
    if hasattr(tensor, "standin_device"):
        return tensor
    tensor.standin_shadow = on_device(tensor, device)  # type: ignore[attr-defined]
    return device_side(tensor, device)


def load(neff: Tensor, metaneff: Tensor, placement: Tensor) -> list[int]:
    """Put a model on its core, once; the process-relative cores. RuntimeError in the words of the runtime."""
    cores: list[int] | None = getattr(neff, "standin_cores", None)
    if cores is None:
        start, count = int(placement[0]), max(int(placement[1]), 1)
        cores = runtime.place(start, count)
        if executable(neff, metaneff).ranks > 1 and not hasattr(neff, "standin_group"):
            raise RuntimeError("nrt_load status=2 (NRT_INVALID): the NEFF has collectives and was loaded without them")
        neff.standin_cores = cores  # type: ignore[attr-defined]
    return cores


def join(neff: Tensor, group: Group, rank: int) -> None:
    """Load a rank's model with collectives, as `_load_collectives_neuron` does (section 3.6 point 1)."""
    neff.standin_group = (group, rank)  # type: ignore[attr-defined]
    neff.standin_cores = runtime.place(rank, 1)  # type: ignore[attr-defined]


def _states(neff: Tensor, states: list[Tensor], core: int) -> list[Tensor]:
    if options.host_writes_reach():
        return [device_side(one, core) for one in states]
    # The graph keeps the buffers it saw first, whatever is assigned to the module later.
    kept: list[Tensor] | None = getattr(neff, "standin_states", None)
    if kept is None:
        kept = [device_side(one, core) for one in states]
        neff.standin_states = kept  # type: ignore[attr-defined]
    return kept


def _forward(
    neff: Tensor,
    metaneff: Tensor,
    placement: Tensor,
    inputs: list[Tensor],
    weights: list[Tensor],
    states: list[Tensor],
    returned: bool,
) -> list[Tensor]:
    model = executable(neff, metaneff)
    if runtime.load_disabled():
        return model.mock(returned)
    core = load(neff, metaneff, placement)[0]
    if placement[4]:
        return in_slices(
            model.metaneff, inputs, lambda part: run_together([model], [model.arguments(part, weights, [])])[0]
        )
    kept = _states(neff, states, core)
    arguments = model.arguments(inputs, weights, kept)
    group: tuple[Group, int] | None = getattr(neff, "standin_group", None)
    results = group[0].run(group[1], model, arguments) if group else run_together([model], [arguments])[0]
    return model.settle(results, kept, returned)


def _spmd_forward(
    neff: Tensor,
    metaneff: Tensor,
    inputs: list[Tensor],
    weights: list[dict[str, Tensor]],
    states: list[dict[str, Tensor]],
    ranks: int,
) -> list[Tensor]:
    model = executable(neff, metaneff)
    if runtime.load_disabled():
        return model.mock(returned=False)
    runtime.place(0, ranks)
    slots = model.metaneff.parameters
    names = [slot.name for slot in slots if slot.kind == "state"]
    wanted = [slot.name for number, slot in enumerate(slots) if slot.kind == "weight" and number not in model.constants]
    kept = [[_named(states, rank, name, "state") for name in names] for rank in range(ranks)]
    arguments = [
        model.arguments(inputs, [_named(weights, rank, name, "weight") for name in wanted], kept[rank])
        for rank in range(ranks)
    ]
    results = run_together([model] * ranks, arguments)
    every = [model.settle(results[rank], kept[rank], returned=False) for rank in range(ranks)]
    return every[0]


def _named(given: list[dict[str, Tensor]], rank: int, name: str, kind: str) -> Tensor:
    if rank >= len(given) or name not in given[rank]:
        raise RuntimeError(f"{kind} {name!r} of rank {rank} was not given")
    return device_side(given[rank][name], rank)


def _parallel_load(checkpoint: list[dict[str, Tensor]]) -> list[dict[str, Tensor]]:
    runtime.place(0, len(checkpoint))
    return [{name: on_device(one, rank) for name, one in row.items()} for rank, row in enumerate(checkpoint)]


_IMPLEMENTATIONS: dict[str, Any] = {
    "forward": _forward,
    "spmd_forward": _spmd_forward,
    "_parallel_load": _parallel_load,
}
for _name, _implementation in _IMPLEMENTATIONS.items():
    operators.impl(_name, _implementation, "CompositeExplicitAutograd")
