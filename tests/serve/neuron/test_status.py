"""The SDK's errors as sentences."""

from __future__ import annotations

import pytest

from serve.errors import ServeError
from serve.runtime.neuron import status
from serve.runtime.neuron.host import Device, Host, Process
from serve.runtime.neuron.status import explain, explained, status_code


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nrt_load_collectives status=4, message: Allocation Failure", 4),
        ("Failed to load model, error: 9", 9),
        ("nrt_execute returned status code 1003", 1003),
        ("NRT_LOAD_NOT_ENOUGH_NC", 9),
        ("nrt_load failed: NRT_UNSUPPORTED_NEFF_VERSION (10)", 10),
        ("The execution failed with NRT_EXEC_COMPLETED_WITH_NUM_ERR at rank 4", 1003),
        ("status 1204", 1204),
        ("error code: 101", 101),
        ("NRT_TIMEOUT after 30000 ms", 5),
        # No status: numbers of other things.
        ("expected 4 arguments", None),
        ("status 0", None),
        ("[Errno 2] No such file", None),
        ("error at line 10", None),
        ("", None),
    ],
)
def test_a_status_is_found_by_name_or_number(text: str, code: int | None) -> None:
    assert status_code(text) == code


def test_a_status_is_explained_with_the_sdks_own_line() -> None:
    error = RuntimeError("Traceback of TorchScript:\n  serialized code\nnrt_load failed, status=4\nmore")
    assert explain(error) == (
        "NRT_RESOURCE (4), the device has no memory left; accepted: a smaller kv_max or batch, or a larger tp "
        "(the SDK says: nrt_load failed, status=4)"
    )


def test_what_has_no_status_is_quoted() -> None:
    assert explain(RuntimeError("a\n\nlast words\n")).startswith("last words; accepted: ")
    assert explain(KeyError()).startswith("KeyError; accepted: ")


FRAMES = """The following operation failed in the TorchScript interpreter.
Traceback of TorchScript (most recent call last):
  File "code/__torch__/torch_neuronx/model.py", line 8, in forward
    return ops.neuron.forward(self.neff)
           ~~~~~~~~~~~~~~~~~~ <--- HERE
RuntimeError: ValueError: not a NEFF

At:
  /tmp/x/load.py(6): <module>
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (FRAMES, "RuntimeError: ValueError: not a NEFF"),
        ("ValueError: first\nhandling which:\ntorch.jit.Error: second\n  At: x.py(1)", "torch.jit.Error: second"),
        (
            "Unknown type name 'Model':\n  File 'code/m.py', line 5\n  a : Model\n      ~~~~~ <--- HERE",
            "Unknown type name",
        ),
        ("forward() takes 7. Declaration: forward(__torch__.M self, Tensor x) -> Tensor", "forward() takes 7; "),
        ("forward() wants a Tensor.\nValue: 1\nDeclaration: forward(M self)\nCast error", "forward() wants a Tensor; "),
        ("RuntimeError: forward() takes 7. Declaration: forward(M self)", "RuntimeError: forward() takes 7; "),
    ],
)
def test_the_line_that_says_what_went_wrong_is_quoted(text: str, said: str) -> None:
    sentence = explain(RuntimeError(text))
    assert sentence.startswith(said)
    assert "\n" not in sentence


def test_a_busy_core_names_who_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    error = RuntimeError("init\nLogical Neuron Core(s) not available - Requested:1 Available:0\nend")
    monkeypatch.setattr(Host, "read", lambda: Host((Device((0, 1), (Process(31, "python -m serve"),)),)))
    sentence = explain(error)
    assert "held by pid 31 (python -m serve)" in sentence
    assert "Requested:1 Available:0" in sentence
    monkeypatch.setattr(Host, "read", lambda: Host(None))
    assert "held by a process that neuron-ls does not show" in explain(error)


def test_every_error_becomes_a_sentence_and_a_sentence_stays() -> None:
    with pytest.raises(ServeError, match=r"^step: NRT_EXEC_OOB \(1006\)") as raised, explained("step"):
        raise KeyError("status 1006")
    assert isinstance(raised.value.__cause__, KeyError)
    with pytest.raises(ServeError, match=r"^mine$"), explained("step"):
        raise ServeError("mine")
    with pytest.raises(KeyboardInterrupt), explained("step"):
        raise KeyboardInterrupt


def test_every_documented_status_has_its_own_number() -> None:
    documented = {1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 14, 15, 101, 1002, 1003, 1004, 1005, 1006, 1100}
    assert set(status.STATUS) == documented | set(range(1200, 1207))
