"""Why a build failed, told from its exit status and its log, and what to do about it.

Codes and envelopes: SDK documentation, compiler/error-codes. neuronx-cc ends its log with F134 (abort), F137 (killed)
or F139 (segmentation fault), and the cause is the NCC code above it. Codes that start with E are the user's to mend,
those with I are the compiler's own.
"""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from typing import Literal

from config.sdk import PINS

Kind = Literal[
    "host memory",
    "device memory",
    "cached failure",
    "argument",
    "operator",
    "compiler crash",
    "no device",
    "unknown",
]

_ENDED = r"(?:status|code|return(?:ed|code)?|signal|failed with)\W{1,4}"
# In this order: the first that is found is the cause, whatever else the log says after it.
_SIGNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("device memory", re.compile(r"\bNCC_(?:EOOM00[12]|EVRF009|EXSP001)\b|\b(?:NCC_[EI]?)?XCG815\b")),
    (
        "host memory",
        re.compile(
            rf"\bF137\b|(?i:Forcibly killed|SIGKILL|{_ENDED}(?:-9|137)\b|MemoryError|std::bad_alloc"
            r"|Cannot allocate memory)"
        ),
    ),
    ("cached failure", re.compile(r"cached failed neff", re.IGNORECASE)),
    ("argument", re.compile(r"\bNCC_EARG\d{3}\b")),
    ("operator", re.compile(r"\bNCC_E[A-Z]{2,4}\d{3}\b")),
    ("compiler crash", re.compile(r"\bNCC_[A-Z]{3,5}\d{3}\b")),
    (
        "compiler crash",
        re.compile(rf"\bF13[49]\b|(?i:SIGABRT|SIGSEGV|Segmentation fault|{_ENDED}(?:-6|-11|134|139)\b)"),
    ),
    ("no device", re.compile(r"NRT_INIT|No neuron device|Neuron Core\(s\) not available", re.IGNORECASE)),
)
_SIGNALS: dict[int, Kind] = {
    signal.SIGKILL: "host memory",
    signal.SIGABRT: "compiler crash",
    signal.SIGSEGV: "compiler crash",
}
_CODE = re.compile(r"(?:NCC_)?[A-Z]{3,5}\d{3}")
# As Python ends a traceback. TorchScript and pybind11 say after it where they were ("At:", frames).
_RAISED = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception)(?:: .*)?")
_COLOUR = re.compile(r"\x1b\[[\d;]*[A-Za-z]")

_ADVICE: dict[Kind, str] = {
    "host memory": "the compiler needs more memory than the host has; give it more, or swap, or a smaller kv_bucket",
    "device memory": "a core's 16 GiB do not hold the graph; take a higher tp or a smaller kv_max or batch, "
    "`python -m recipes.plan` tells what fits",
    "cached failure": "the compiler's cache replayed an earlier failure; each build has a cache of its own, so let no "
    "other process write to the store's tmp folder, and run again",
    "argument": f"the compiler refuses an argument; take neuronx-cc {PINS['neuronx-cc']}, or mend the flags in "
    "recipes/neuron/flags.py",
    "operator": "the compiler refuses the graph; the SDK's documentation explains the code, and "
    "`python -m recipes.lint` names the operation",
    "compiler crash": "the compiler itself failed; another kv_bucket or tp may pass, and AWS will ask for the log",
    "no device": "the SDK wants a Neuron device to build; build on an inf2 instance, or with builder nxd",
    "unknown": "the log has the whole story",
}
_TOO_MANY = re.compile(r"NCC_(?:EBVF030|EVRF007|EXTP004)")
_TOO_MANY_ADVICE = "the graph has too many instructions; take a smaller kv_bucket or a higher tp"


@dataclass(frozen=True)
class Failure:
    """What happened, the compiler's code if any, the line of the log that says it, and the variant's own flags."""

    kind: Kind
    code: str | None
    line: str
    flags: tuple[str, ...] = ()

    @property
    def message(self) -> str:
        """One sentence for a person."""
        advice = _TOO_MANY_ADVICE if self.code and _TOO_MANY.fullmatch(self.code) else _ADVICE[self.kind]
        if self.kind == "argument" and self.flags:
            advice = f"the compiler refuses an argument; mend the variant's own flags ({' '.join(self.flags)}) first"
        return f"the build failed, {self.kind} ({self.line}): {advice}"


def classify(returncode: int, log: str, flags: tuple[str, ...] = ()) -> Failure:
    """The cause of a failed build: `returncode` of its process as Python gives it, `log` of it and of the compiler.

    A signal is the build's own only if the log says nothing: a compiler's end is in the log, and its caller reports it.
    `flags` are what the variant says to the compiler beyond what the foundry says.
    """
    lines = _COLOUR.sub("", log).splitlines()
    log = "\n".join(lines)
    for kind, sign in _SIGNS:
        if found := sign.search(log):
            code = found[0] if _CODE.fullmatch(found[0]) else None
            return Failure(kind, code, _line_at(log, found), flags)
    number = -returncode if returncode < 0 else returncode - 128
    if number in _SIGNALS:
        return Failure(_SIGNALS[number], None, f"the build was ended by {signal.Signals(number).name}")
    lines = [line.strip() for line in lines if line.strip()]
    said = [line for line in lines if _RAISED.fullmatch(line)] or lines
    return Failure("unknown", None, _short(said[-1]) if said else f"exit status {returncode}, nothing in the log")


def _line_at(log: str, found: re.Match[str]) -> str:
    start, end = log.rfind("\n", 0, found.start()) + 1, log.find("\n", found.end())
    return _short(log[start : end if end >= 0 else len(log)])


def _short(line: str) -> str:
    line = "".join(one if one.isprintable() else repr(one)[1:-1] for one in " ".join(line.split()))
    return line if len(line) <= 200 else f"{line[:200]}..."
