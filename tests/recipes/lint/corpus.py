"""The corpus of small modules, one file a rule: a bad module and a twin of it without the fault.

The first line of each half says what is found there, as `severity rule code` for every hit (`-` for no code), and what
the caller knows. XLA's own parser makes the bytes. It numbers instructions beyond 32 bits, which is a finding of its
own, so ids are made dense here unless the file asks for `ids of jaxlib`.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jaxlib import _hlo

from recipes.lint import Expected, Finding
from recipes.wire import fields, message, number, read_varint, varint

FOLDER = Path(__file__).parent / "corpus"
RULES = sorted(path.name.removesuffix(".hlo.txt") for path in FOLDER.iterdir())
HITS = Counter[tuple[str, str, str]]


@dataclass(frozen=True)
class Case:
    """One half of a file."""

    text: str
    found: HITS
    given: str

    @property
    def expected(self) -> Expected:
        aliases = re.search(r"aliases (\d+)", self.given)
        return Expected(aliases=int(aliases[1]) if aliases else None)

    @property
    def hlo(self) -> bytes:
        proto = parsed(self.text)
        return proto if "ids of jaxlib" in self.given else renumbered(proto)


@cache
def case(rule: str, half: str) -> Case:
    """The `bad` or the `good` half of a rule's file."""
    halves = re.split(r"^// (?=bad:|good:)", (FOLDER / f"{rule}.hlo.txt").read_text(), flags=re.MULTILINE)
    header, text = next(one for one in halves if one.startswith(half)).split("\n", 1)
    found, _, given = header.removeprefix(f"{half}: ").partition("; given ")
    hits = [] if found == "nothing" else [one.split(" ", 2) for one in found.split(", ")]
    return Case(text, Counter((severity, name, code) for severity, name, code in hits), given)


def hits(findings: list[Finding]) -> HITS:
    """What a file's first line says, of findings."""
    found: HITS = Counter()
    for one in findings:
        found[one.severity, one.rule, one.code or "-"] += one.count
    return found


def parsed(text: str) -> bytes:
    """HLO text as a serialized HloModuleProto, by XLA."""
    proto: bytes = _hlo.hlo_module_from_text(text).as_serialized_hlo_module_proto()
    return proto


def renumbered(proto: bytes, first: int = 0) -> bytes:
    """`proto` with instruction ids from `first` on, dense (HloInstructionProto 35 and 36, HloComputationProto 6)."""
    order: dict[int, int] = {}

    def instruction(data: bytes) -> bytes:
        found, old = [], 0
        for field, payload, whole in fields(data):
            if field == 35:
                old = value(whole)
            elif field == 36:
                found.append(message(36, b"".join(varint(order[one]) for one in numbers(payload))))
            else:
                found.append(whole)
        return b"".join(found) + number(35, order.setdefault(old, first + len(order)))

    def computation(data: bytes) -> bytes:
        found, root = [], 0
        for field, payload, whole in fields(data):
            if field == 6:
                root = value(whole)
            else:
                found.append(message(2, instruction(payload)) if field == 2 else whole)
        return b"".join(found) + number(6, order[root])

    return b"".join(
        message(3, computation(payload)) if field == 3 else whole for field, payload, whole in fields(proto)
    )


def value(whole: bytes) -> int:
    """The number of a varint field."""
    return read_varint(whole, read_varint(whole, 0)[1])[0]


def numbers(packed: bytes) -> list[int]:
    """The numbers of a packed field."""
    found, position = [], 0
    while position < len(packed):
        one, position = read_varint(packed, position)
        found.append(one)
    return found
