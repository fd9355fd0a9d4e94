"""A NEFF on its core or cores: arguments in, real outputs out, states updated in place (sections 2.1, 2.2, 3.6)."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from functools import lru_cache

import torch
from torch import Tensor

from neuron_standin import neff as neff_format
from neuron_standin.hlo import Module
from neuron_standin.lowering import dtype_name
from neuron_standin.metaneff import MetaNeff
from neuron_standin.pjrt import Program

_TIMEOUT = 300.0


@lru_cache(maxsize=64)
def _program(_digest: str, ranks: int) -> Program:
    return Program(_modules[_digest], ranks)


_modules: dict[str, bytes] = {}


def program(hlo: bytes, ranks: int) -> Program:
    """The compiled module; equal modules are compiled once per process."""
    digest = hashlib.sha256(hlo).hexdigest()
    _modules[digest] = hlo
    return _program(digest, ranks)


def check_inputs(metaneff: MetaNeff, inputs: Sequence[Tensor]) -> None:
    """RuntimeError that names what came and what was traced; shapes and dtypes are static."""
    if len(inputs) != metaneff.user_inputs:
        raise RuntimeError(f"Incorrect number of inputs: received {len(inputs)}, expected {metaneff.user_inputs}")
    for slot in metaneff.parameters:
        if slot.kind != "input":
            continue
        one, at = inputs[slot.index], f"at input tensor #{slot.index}"
        if tuple(one.shape) != slot.shape:
            raise RuntimeError(f"Incorrect tensor shape {at}: received {list(one.shape)}, expected {list(slot.shape)}")
        if dtype_name(one) != slot.dtype:
            raise RuntimeError(f"Incorrect tensor data type {at}: received {dtype_name(one)}, expected {slot.dtype}")


class Executable:
    """One NEFF, loaded. `weights` and `states` come in the order of the metaneff's slots of that kind."""

    def __init__(self, neff: bytes | memoryview, metaneff: MetaNeff) -> None:
        found = neff_format.unpack(neff)
        self.hlo, self.metaneff, self.ranks = found.hlo, metaneff, Module(found.hlo).ranks()
        self.constants = {one.parameter: _value(one) for one in found.constants}

    def arguments(self, inputs: Sequence[Tensor], weights: Sequence[Tensor], states: Sequence[Tensor]) -> list[Tensor]:
        """One rank's HLO arguments; RuntimeError for a wrong input, weight or state."""
        check_inputs(self.metaneff, inputs)
        kept = {"weight": iter(weights), "state": iter(states)}
        found = []
        for number, slot in enumerate(self.metaneff.parameters):
            if number in self.constants:
                found.append(self.constants[number])
            elif slot.kind == "input":
                found.append(inputs[slot.index])
            else:
                one = next(kept[slot.kind], None) if slot.kind in kept else None
                if one is None:
                    raise RuntimeError(f"{slot.kind} {slot.name or number} of the graph was not given")
                if (tuple(one.shape), dtype_name(one)) != (slot.shape, slot.dtype):
                    raise RuntimeError(
                        f"Incorrect {slot.kind} {slot.name}: received {dtype_name(one)}{list(one.shape)}, "
                        f"expected {slot.dtype}{list(slot.shape)}"
                    )
                found.append(one)
        return found

    def settle(self, results: Sequence[Tensor], states: Sequence[Tensor], returned: bool) -> list[Tensor]:
        """Write aliased outputs to `states`; the real outputs, or all of them when `returned`."""
        order = {number: index for index, number in enumerate(self.metaneff.numbers("state"))}
        with torch.no_grad():
            for result, output in zip(results, self.metaneff.outputs, strict=True):
                if output.alias >= 0:
                    states[order[output.alias]].copy_(result)
        pairs = zip(results, self.metaneff.outputs, strict=True)
        return [result for result, output in pairs if returned or output.alias < 0]

    def mock(self, returned: bool) -> list[Tensor]:
        """Zeros in the shape of the outputs: what a model gives that was never put on a core."""
        wanted = [one for one in self.metaneff.outputs if returned or one.alias < 0]
        return [torch.zeros(one.shape, dtype=getattr(torch, one.dtype)) for one in wanted]


def _value(constant: neff_format.Constant) -> Tensor:
    flat = torch.frombuffer(bytearray(constant.data), dtype=getattr(torch, constant.dtype))
    # torch's own memory is aligned as XLA wants it: a call then copies no weight.
    return flat.reshape(constant.shape).clone()


def run_together(executables: Sequence[Executable], arguments: Sequence[list[Tensor]]) -> list[list[Tensor]]:
    """Run one program on all ranks, each with its own arguments: their collectives meet. Results by rank.

    RuntimeError when the ranks' graphs differ in more than inlined weights: XLA:CPU programs do not meet.
    """
    first = executables[0]
    if any(one.hlo != first.hlo for one in executables):
        raise RuntimeError("stand-in: the graphs of the ranks differ; only their weights and constants may")
    if first.ranks > len(executables):
        raise RuntimeError(f"the graph's collectives span {first.ranks} ranks; {len(executables)} were loaded")
    if first.ranks == 1:
        return [program(first.hlo, 1).run([one])[0] for one in arguments]
    return program(first.hlo, len(executables)).run(arguments)


class Group:
    """Ranks in one process that call their own models in threads of their own and meet in the collectives."""

    def __init__(self, size: int) -> None:
        self._jobs: list[tuple[Executable, list[Tensor]] | None] = [None] * size
        self._results: list[list[Tensor]] = []
        self._barrier = threading.Barrier(size, action=self._run)

    def _run(self) -> None:
        jobs = [job for job in self._jobs if job is not None]
        self._results = run_together([job[0] for job in jobs], [job[1] for job in jobs])

    def run(self, rank: int, executable: Executable, arguments: list[Tensor]) -> list[Tensor]:
        """This rank's results, when every rank has called; RuntimeError when one does not come."""
        self._jobs[rank] = (executable, arguments)
        try:
            self._barrier.wait(_TIMEOUT)
        except threading.BrokenBarrierError:
            raise RuntimeError("status=5 (NRT_TIMEOUT): a rank of the collective did not run") from None
        return self._results[rank]
