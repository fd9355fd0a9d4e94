"""A run as its receipts tell it: which there are, which failed, and which are missing.

Receipts are told apart by where they lie: results/RUN/receipts/CHECKPOINT/fetch.json, .../oracle/SIZE.json,
.../VARIANT/parity.json. A failed one (STEM.failed.json) takes the place of the good one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ledger.errors import BadInput
from ledger.receipts import Receipt
from validate.facts import check_facts

State = Literal["done", "passed", "failed", "missing"]

LINE = ("lower", "compile", "assemble", "parity", "bench")
"""Stages that every variant goes through; others that a run has are shown too, but are not missed."""
_ONCE = ("fetch", "tables", "package")
_BY_SIZE = ("weights", "prompts", "oracle")
_FAILED = ".failed.json"
_POINT = ("target", "dtype", "tp", "batch", "kv_max", "kv_bucket", "slim")


@dataclass(frozen=True, eq=False)
class Node:
    """One receipt of a run, or the lack of it; `name` is its place, such as fetch, oracle/512-128 or bf16/parity.

    A node equals itself alone: two variants may hold the same receipt.
    """

    checkpoint: str
    name: str
    receipt: Receipt | None

    @property
    def state(self) -> State:
        """What became of it."""
        return self.receipt.verdict if self.receipt else "missing"

    @property
    def variant(self) -> str | None:
        """The variant it belongs to; None for what a checkpoint's variants share."""
        folder, _, last = self.name.rpartition("/")
        if self.receipt:
            return folder if folder and last == self.receipt.stage else None
        return None if folder in _BY_SIZE and last not in LINE else folder or None

    @property
    def stage(self) -> str:
        """The stage that made it, or would have."""
        if self.receipt:
            return self.receipt.stage
        return self.name.rpartition("/")[2] if self.variant else self.name.partition("/")[0]


@dataclass(frozen=True)
class Run:
    """All of a run, in the order of its matrix."""

    name: str
    nodes: tuple[Node, ...]

    @property
    def checkpoints(self) -> list[str]:
        """Names of the checkpoints."""
        return list(dict.fromkeys(node.checkpoint for node in self.nodes))

    def of(self, checkpoint: str) -> list[Node]:
        """The receipts of one checkpoint."""
        return [node for node in self.nodes if node.checkpoint == checkpoint]

    def variants(self, checkpoint: str) -> list[str]:
        """The variants of one checkpoint."""
        return _variants(self.of(checkpoint))

    def receipts(self, checkpoint: str, variant: str | None) -> dict[str, Receipt]:
        """A variant's receipts by stage, with None those that the checkpoint's variants share, by place."""
        nodes = [node for node in self.of(checkpoint) if node.variant == variant]
        return {node.stage if variant else node.name: node.receipt for node in nodes if node.receipt}


def read(paths: Sequence[Path]) -> Run:
    """The run that receipts, or folders of them, belong to; what is not there is missing, not an error.

    Of results/RUN/receipts alone there may be nothing: a run that failed before its first receipt has a page too.
    Raises BadInput for paths that are no receipts of one run, and for a damaged receipt.
    """
    if len(paths) == 1 and paths[0].name == "receipts" and not _files([folder for folder in paths if folder.is_dir()]):
        return Run(paths[0].absolute().parent.name, ())
    found: dict[tuple[str, str], Receipt | None] = {}
    runs: set[str] = set()
    for path in _files(paths):
        run, checkpoint, name = _place(path)
        runs.add(run)
        found[checkpoint, name] = _receipt(path)
    if len(runs) != 1:
        named = " and ".join(sorted(runs)) or "none"
        raise BadInput(f"RECEIPT: found receipts of {named}; accepted: those of one run, results/RUN/receipts")
    nodes = [Node(checkpoint, name, receipt) for (checkpoint, name), receipt in found.items()]
    nodes += _missed(nodes)
    if not any(node.receipt for node in nodes):
        raise BadInput(f"RECEIPT: found no receipt of {runs.pop()}; accepted: at least one that exists")
    return Run(runs.pop(), tuple(nodes))


def point(variant: str, receipts: Mapping[str, Receipt]) -> dict[str, Any]:
    """A variant's configuration as far as a receipt has it; what none has is None."""
    known: dict[str, Any] = dict.fromkeys(_POINT)
    for receipt in receipts.values():
        said = receipt.recipe.get("variant", receipt.recipe)
        known |= {key: said[key] for key in _POINT if isinstance(said, dict) and key in said}
    return known | {"name": variant}


def _files(paths: Iterable[Path]) -> list[Path]:
    """Receipts under their good names, each once; those of a folder in the order of what their names hold."""
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            files += sorted(path.rglob("*.json"), key=_natural)
        else:
            files.append(path)
    return list(dict.fromkeys(path.with_name(f"{_stem(path)}.json") for path in files))


def _stem(path: Path) -> str:
    return path.name.removesuffix(_FAILED).removesuffix(".json")


def _natural(path: Path) -> list[tuple[int, str]]:
    """512-128 comes before 2048-512, and a name after every number."""
    words = re.findall(r"\d+|[^\d]+", str(path))
    return [(int(word), "") if word.isdecimal() else (2**63, word) for word in words]


def _place(path: Path) -> tuple[str, str, str]:
    """Run, checkpoint and place of a receipt."""
    head, tail = _split(path.absolute().parts)
    if not head or len(tail) not in (2, 3):
        raise BadInput(
            f"RECEIPT: {path} does not lie in a run's receipts; accepted: results/RUN/receipts/CHECKPOINT/..."
        )
    return head[-1], tail[0], "/".join((*tail[1:-1], _stem(path)))


def _split(parts: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What is before and after the last folder named receipts."""
    where = max((at for at, part in enumerate(parts) if part == "receipts"), default=0)
    return parts[:where], parts[where + 1 :]


def _receipt(path: Path) -> Receipt | None:
    failed = path.with_name(_stem(path) + _FAILED)
    there = next((one for one in (failed, path) if one.is_file()), None)
    if there is None:
        return None
    receipt = Receipt.read(there)
    check_facts(receipt, there)
    return receipt


def _variants(nodes: Iterable[Node]) -> list[str]:
    return list(dict.fromkeys(node.variant for node in nodes if node.variant))


def _missed(nodes: Sequence[Node]) -> list[Node]:
    """What the line would have made next: nobody has to name it for it to be missed."""
    there = {(node.checkpoint, node.name) for node in nodes}
    wanted: list[tuple[str, str]] = []
    for checkpoint in dict.fromkeys(node.checkpoint for node in nodes):
        own = [node for node in nodes if node.checkpoint == checkpoint]
        wanted += [(checkpoint, f"{variant}/{stage}") for variant in _variants(own) for stage in LINE]
        wanted += [(checkpoint, stage) for stage in _ONCE]
    return [Node(checkpoint, name, None) for checkpoint, name in wanted if (checkpoint, name) not in there]
