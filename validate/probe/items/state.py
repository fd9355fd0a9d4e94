"""State that a plain trace keeps on the device: what comes back, whether it lasts, which writes reach it."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import torch

from validate.probe.items import sdk
from validate.probe.question import Answer, Work

SAVED = "counter.pt"
_ROWS = 4


class Counter(torch.nn.Module):
    """state += x; returns twice the new state, and the new state for the alias."""

    def __init__(self) -> None:
        super().__init__()
        zeros = torch.nn.Parameter(torch.zeros(_ROWS), requires_grad=False)
        self.state = torch.nn.ParameterList([zeros])

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """[4] to [4] and the state [4]."""
        new = self.state[0] + x
        return new * 2, new


def aliased_outputs(work: Work) -> Answer:
    """Call it three times with ones: 2, 4, 6 where the state lasts."""
    model = sdk.load(_saved(work))
    _move(model)
    ones = torch.ones(_ROWS)
    calls = [sdk.outputs(model(ones)) for _ in range(3)]
    lasts = [call[0][0].item() for call in calls] == [2.0, 4.0, 6.0]
    evidence = {
        "outputs": [len(call) for call in calls],
        "first_values": [call[0][0].item() for call in calls],
        "state_lasts": lasts,
        "parameters_of_the_loaded_graph": [name for name, _ in model.named_parameters()],
    }
    word = "stripped" if len(calls[0]) == 1 else "returned"
    return Answer(word if lasts else f"{word}, and the state does not last between calls", evidence)


def write_by_copy(work: Work) -> Answer:
    """parameter.copy_(), as in AWS's T5 notebook."""
    return _writes(work, lambda parameter, value: parameter.copy_(value))


def write_by_data(work: Work) -> Answer:
    """parameter.data.copy_()."""
    return _writes(work, lambda parameter, value: parameter.data.copy_(value))


def write_by_replacement(work: Work) -> Answer:
    """Another Parameter under the same name, before the move to the device and the first call."""
    model = sdk.load(_saved(work))
    for name, parameter in list(model.named_parameters()):
        *owners, leaf = name.split(".")
        fresh = torch.nn.Parameter(torch.full_like(parameter, 10.0), requires_grad=False)
        # A ScriptModule has no get_submodule.
        setattr(reduce(getattr, owners, model), leaf, fresh)
    _move(model)
    found = sdk.outputs(model(torch.zeros(_ROWS)))[0]
    return Answer(_word(found, 10.0), {"wrote": 10.0, "expected": 20.0, "found": sdk.numbers(found)})


def _writes(work: Work, write: Callable[[torch.nn.Parameter, torch.Tensor], Any]) -> Answer:
    """Write 10 before the first call and 20 between calls, each time to parameters that were asked for anew."""
    model = sdk.load(_saved(work))
    _move(model)
    evidence: dict[str, Any] = {}
    words = {}
    for when, value in (("before the first call", 10.0), ("between calls", 20.0)):
        with torch.no_grad():
            for parameter in model.parameters():
                write(parameter, torch.full((_ROWS,), value))
        found = sdk.outputs(model(torch.zeros(_ROWS)))[0]
        words[when] = _word(found, value)
        evidence[when] = {"wrote": value, "expected": 2 * value, "found": sdk.numbers(found)}
    if len(set(words.values())) == 1:
        return Answer(words["between calls"], evidence)
    return Answer(", ".join(f"{word} {when}" for when, word in words.items()), evidence)


def _word(found: torch.Tensor, wrote: float) -> str:
    return "reaches the graph" if bool((found == 2 * wrote).all()) else "lost"


def _saved(work: Work) -> Path:
    """The counter's archive, from the first question that needs it."""
    path = Path(work.shared) / SAVED
    if not path.exists():
        module = Counter()
        aliases = {module.state[0]: 1}
        sdk.save(sdk.trace(module, (torch.ones(_ROWS),), work, input_output_aliases=aliases), path)
    return path


def _move(model: Any) -> None:
    """State to the device, as documented for aliased graphs."""
    sdk.torch_neuronx().move_trace_to_device(model, 0)
