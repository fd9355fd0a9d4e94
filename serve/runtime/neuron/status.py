"""What the SDK says when it fails, as one sentence: the runtime's status codes, and cores that are taken.

Codes: Neuron Runtime API, "NRT_STATUS", and its troubleshooting page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from serve.errors import ServeError
from serve.runtime.neuron.host import Host

BUSY = "Logical Neuron Core(s) not available"
MARK, DECLARATION = "<--- HERE", "Declaration:"  # of TorchScript
_HARDWARE = "the device reports a hardware error; accepted: a healthy device, see dmesg and neuron-monitor"

STATUS: dict[int, tuple[str, str]] = {
    1: ("NRT_FAILURE", "the runtime failed; the line before it in its log says why"),
    2: ("NRT_INVALID", "a NEFF or an argument is invalid; accepted: an artifact as it was published"),
    3: ("NRT_INVALID_HANDLE", "the runtime does not know the model any more; accepted: a restarted server"),
    4: ("NRT_RESOURCE", "the device has no memory left; accepted: a smaller kv_max or batch, or a larger tp"),
    5: ("NRT_TIMEOUT", "the step did not end in time; accepted: a healthy device, or a larger NEURON_RT_EXEC_TIMEOUT"),
    6: ("NRT_HW_ERROR", _HARDWARE),
    7: ("NRT_QUEUE_FULL", "the device's queue is full; accepted: one process per core"),
    9: ("NRT_LOAD_NOT_ENOUGH_NC", "there are fewer free NeuronCores than the graph needs; accepted: tp free cores"),
    10: ("NRT_UNSUPPORTED_NEFF_VERSION", "the runtime is too old for the NEFF; accepted: the one in the manifest"),
    11: ("NRT_FAIL_HOST_MEM_ALLOC", "the host has no memory left; accepted: a larger instance, or swap"),
    13: ("NRT_UNINITIALIZED", "the runtime was not started; accepted: a restarted server"),
    14: ("NRT_CLOSED", "the runtime was shut down; accepted: a restarted server"),
    15: ("NRT_QUEUE_EMPTY", "the device's queue is empty; accepted: a restarted server"),
    101: ("NRT_EXEC_UNRECOVERABLE", "the device cannot go on; accepted: a restarted server, or another instance"),
    1002: ("NRT_EXEC_BAD_INPUT", "an input does not fit the graph; accepted: the manifest's shapes and dtypes"),
    1003: ("NRT_EXEC_COMPLETED_WITH_NUM_ERR", "the step made NaN; accepted: finite inputs and weights"),
    1004: ("NRT_EXEC_COMPLETED_WITH_ERR", "the step ended with an error; accepted: a healthy device"),
    1005: ("NRT_EXEC_NC_BUSY", "the NeuronCore is busy with another process; accepted: one process per core"),
    1006: ("NRT_EXEC_OOB", "the graph reached beyond a tensor; accepted: an artifact that passed parity"),
    1100: ("NRT_COLL_PENDING", "a collective is still pending; accepted: a restarted server"),
    **dict.fromkeys(range(1200, 1207), ("NRT_EXEC_HW_ERR", _HARDWARE)),
}
_NAMES = {name: code for code, (name, _) in sorted(STATUS.items(), reverse=True)}
_NAME = re.compile("|".join(sorted(map(re.escape, _NAMES), key=len, reverse=True)))
_ERROR = re.compile(r"(?:[\w.]*(?:Error|Exception)): \S")
_CODE = re.compile(r"\b(?:status|error)(?:[ _-]?code)?\W{1,3}(\d{1,4})\b|\bNERR\W{1,3}(\d{1,4})\b", re.IGNORECASE)


@contextmanager
def explained(doing: str) -> Iterator[None]:
    """Whatever the SDK raises within becomes a ServeError that says what was being done and what the status means.

    TorchScript and the runtime raise every kind of exception, so every kind is caught.
    """
    try:
        yield
    except ServeError:
        raise
    except Exception as error:
        raise ServeError(f"{doing}: {explain(error)}") from error


def explain(error: Exception) -> str:
    """One line of `error`, and what it means where that is known."""
    text = str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__]
    if BUSY in text:
        holders = ", ".join(map(str, Host.read().others())) or "a process that neuron-ls does not show"
        line = next(line for line in lines if BUSY in line)
        return f"the NeuronCore is held by {holders} ({line}); accepted: a free core for each rank"
    code = status_code(text)
    if code is None:
        return f"{_telling(lines)}; accepted: an artifact that this SDK can run"
    name, meaning = STATUS[code]
    line = next((line for line in lines if name in line or str(code) in line), _telling(lines))
    return f"{name} ({code}), {meaning} (the SDK says: {line})"


def _telling(lines: Sequence[str]) -> str:
    """The line that says what went wrong: TorchScript may put frames, its source or a declaration after it."""
    errors = [line for line in lines if _ERROR.match(line)]
    heads = any(DECLARATION in line or line.endswith(MARK) for line in lines)
    line = errors[-1] if errors else lines[0 if heads else -1]
    return line.partition(DECLARATION)[0].rstrip(" .")


def status_code(text: str) -> int | None:
    """The runtime's status in the text of an exception, by name or by number."""
    if named := _NAME.search(text):
        return _NAMES[named.group()]
    numbers = (int(match.group(1) or match.group(2)) for match in _CODE.finditer(text))
    return next((number for number in numbers if number in STATUS), None)
