"""Operators of which nobody has said whether this compiler takes them for inf2: in a graph, compiled and run.

`while` and `conditional` do not come out of torch's own lowering, so torch-xla's registry of operators makes them: a
function on XLA tensors that becomes the HLO it says, and on others computes the same with torch.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from validate.probe.items import sdk
from validate.probe.items.compiler import refusal
from validate.probe.question import Answer, Work

_STEPS = 5


class Call(torch.nn.Module):
    """A function of tensors as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        """Whatever the function does."""
        return self.function(*inputs)


def loop(work: Work) -> Answer:
    """x * 2 + 1, five times."""
    return _try(work, "while", _loop, (torch.arange(4, dtype=torch.float32),))


def branch(work: Work) -> Answer:
    """x + 1 where the predicate is true, else x * 2."""
    return _try(work, "conditional", _branch, (torch.tensor(1.0), torch.arange(4, dtype=torch.float32)))


def sort(work: Work) -> Answer:
    """Ascending, values and indices."""
    x = torch.tensor([3.0, 1.0, 2.0, 0.0, 7.0, 5.0, 4.0, 6.0])
    return _try(work, "sort", lambda x: list(torch.sort(x)), (x,))


def _try(work: Work, opcode: str, function: Callable[..., Any], inputs: tuple[torch.Tensor, ...]) -> Answer:
    expected = sdk.outputs(function(*inputs))
    try:
        traced = sdk.trace(Call(function), inputs, work)
    except Exception as error:
        return Answer("refused", refusal(error, Path(work.own)))
    model = sdk.load(sdk.save(traced, Path(work.own) / "graph.pt"))
    found = sdk.outputs(model(*inputs))
    right = all(torch.equal(a, b.to(a.dtype)) for a, b in zip(expected, found, strict=True))
    evidence = {
        "expected": [sdk.numbers(one) for one in expected],
        "found": [sdk.numbers(one) for one in found],
        "in_the_hlo": _in_the_hlo(opcode, Path(work.own)),
    }
    if evidence["in_the_hlo"] is False:
        return Answer("not answered: the graph that was compiled does not have it", evidence)
    return Answer("compiles and runs" if right else "compiles, and answers wrongly", evidence)


def _in_the_hlo(opcode: str, folder: Path) -> bool | None:
    """Whether the module that went to the compiler has the opcode; None when it was not left in the folder.

    An HloInstructionProto has its opcode as text in field 2, behind the text's length.
    """
    modules = [*folder.rglob("*.hlo"), *folder.rglob("*.hlo.pb"), *folder.rglob("*hlo_module.pb")]
    field = bytes([0x12, len(opcode)]) + opcode.encode()
    return any(field in path.read_bytes() for path in modules) if modules else None


def _loop(x: torch.Tensor) -> torch.Tensor:
    if x.device.type != "xla":
        for _ in range(_STEPS):
            x = x * 2 + 1
        return x
    return _operator("probe_while", _lower_loop)(x)


def _branch(predicate: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    if x.device.type != "xla":
        return x + 1 if bool(predicate > 0) else x * 2
    return _operator("probe_conditional", _lower_branch)(predicate, x)


def _operator(name: str, lower: Callable[..., Any]) -> Callable[..., torch.Tensor]:
    from torch_xla.core import xla_op_registry

    operator: Callable[..., torch.Tensor] = xla_op_registry.register(name, lower)
    return operator


def _lower_loop(x: Any) -> Any:
    from torch_xla.core import xla_builder

    zero = xla_builder.Op.scalar(x.builder(), 0, dtype=xla_builder.Type.S32)

    def step(count: Any, value: Any) -> list[Any]:
        return [count + count.scalar_like(1), value * value.scalar_like(2) + value.scalar_like(1)]

    looped = xla_builder.Op.mkwhile((zero, x), lambda count, value: count < count.scalar_like(_STEPS), step)
    return looped.get_tuple_element(1)


def _lower_branch(predicate: Any, x: Any) -> Any:
    from torch_xla.core import xla_builder

    holds = predicate > predicate.scalar_like(0)
    return xla_builder.Op.mkconditional(
        holds, (x,), lambda value: value + value.scalar_like(1), lambda value: value * value.scalar_like(2)
    )
