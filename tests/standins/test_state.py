"""Aliased state of a traced module: where it lives, who sees it, what is returned (sections 2.2 and 3.6)."""

from __future__ import annotations

import pytest

from tests.standins.conftest import Run

# Sum of the traced states, 2 elements each of 10, 20, 30, 40; each call with x = 1 adds 2 * (1 + 2 + 3 + 4) to it.
SUM, STEP = 200.0, 20.0

START = """
import json, torch, torch_neuronx
from tests.standins.modules import Counter
one = torch.ones(2)
counter = Counter()
traced = torch_neuronx.trace(counter, one, input_output_aliases=counter.aliases(), compiler_args="--target inf2",
                             cpu_backend=True)
torch.jit.save(traced, "m.pt")

def totals(model, calls):
    return [float(model(one)[0]) for _ in range(calls)]

def first(model):
    return next(iter(model.states.parameters()))
"""


def test_state_starts_at_the_traced_values_and_stays_between_calls(run: Run) -> None:
    found = run(START + "print(json.dumps([totals(torch.jit.load('m.pt'), 3), float(counter.k[0][0])]))").value
    assert found == [[SUM + 1, SUM + STEP + 1, SUM + 2 * STEP + 1], 10.0]


def test_each_loaded_trace_has_its_private_state(run: Run) -> None:
    found = run(
        START
        + """
a, b = torch.jit.load("m.pt"), torch.jit.load("m.pt")
print(json.dumps([totals(a, 2), totals(b, 2), totals(a, 1)]))
"""
    ).value
    assert found == [[SUM + 1, SUM + STEP + 1], [SUM + 1, SUM + STEP + 1], [SUM + 2 * STEP + 1]]


def test_aliased_outputs_are_stripped_or_returned(run: Run) -> None:
    code = (
        START
        + """
out = torch.jit.load("m.pt")(one)
print(json.dumps([isinstance(out, torch.Tensor), 1 if isinstance(out, torch.Tensor) else len(out),
                  [] if isinstance(out, torch.Tensor) else [t.tolist() for t in out[1:]]]))
"""
    )
    assert run(code).value == [True, 1, []]
    returned = run(code, STANDIN_ALIASED_OUTPUTS="returned").value
    assert returned == [False, 5, [[11, 11], [32, 32], [23, 23], [44, 44]]]  # k0 + 1, v0 + 2, k1 + 3, v1 + 4


def test_names_and_order_of_the_states(run: Run) -> None:
    found = run(
        START
        + """
model = torch.jit.load("m.pt")
print(json.dumps([[n for n, _ in model.named_parameters()], [float(p[0]) for p in model.states.parameters()]]))
"""
    ).value
    assert found == [["states.0", "states.1", "states.2", "states.3"], [10, 20, 30, 40]]  # k0 k1 v0 v1


@pytest.mark.parametrize("moved", [True, False])
def test_references_from_before_the_first_forward_are_orphans(moved: bool, run: Run) -> None:
    """Moved explicitly, or by the first call: a write to the old tensor is lost, and it shows no new value."""
    found = run(
        START
        + f"""
model = torch.jit.load("m.pt")
old = first(model)
if {moved}:
    torch_neuronx.move_trace_to_device(model, 0)
before = totals(model, 1)
old.fill_(1000.0)
print(json.dumps([before, totals(model, 1), first(model) is old]))
"""
    ).value
    assert found == [[SUM + 1], [SUM + STEP + 1], not moved]


def test_writes_before_the_first_forward_arrive(run: Run) -> None:
    code = (
        START
        + """
model = torch.jit.load("m.pt")
first(model).fill_(0.0)
torch_neuronx.move_trace_to_device(model, 0)
print(json.dumps(totals(model, 1)))
"""
    )
    for answer in ("reach", "lost"):
        assert run(code, STANDIN_HOST_WRITES=answer).value == [SUM - 20 + 1]


@pytest.mark.parametrize(
    ("answer", "expected"),
    [("reach", [[SUM - 20 + 1], 1.0, [SUM - 20 + 1]]), ("lost", [[SUM + 1], 0.0, [SUM + STEP + 1]])],
)
def test_writes_after_load_follow_the_switch(answer: str, expected: list[object], run: Run) -> None:
    """copy_ to a moved state, what it then reads, and assignment of a new tensor after the first call."""
    found = run(
        START
        + """
model = torch.jit.load("m.pt")
torch_neuronx.move_trace_to_device(model, 0)
first(model).copy_(torch.zeros(2))
written = totals(model, 1)
seen = float(first(model)[0])
for name, value in zip("0123", [0.0, 20.0, 30.0, 40.0]):
    model.states._parameters[name] = torch.full((2,), value)
print(json.dumps([written, seen, totals(model, 1)]))
""",
        STANDIN_HOST_WRITES=answer,
    ).value
    assert found == expected


def test_another_answer_than_the_known_ones_is_an_error(run: Run) -> None:
    done = run(START, STANDIN_ALIASED_OUTPUTS="maybe")
    assert "STANDIN_ALIASED_OUTPUTS is 'maybe'; accepted: stripped, returned" in done.err
