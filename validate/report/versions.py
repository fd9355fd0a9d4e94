"""What a run was made with and from: versions of packages, and the digests that name everything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ledger.receipts import Receipt
from validate.report.run import Run

# What a toolchain tells of the host, and not of a package.
_HOST = ("cores", "cpu_features")


@dataclass(frozen=True)
class Version:
    """A package in one version, and the stages that ran with it."""

    package: str
    version: str
    stages: tuple[str, ...]


@dataclass(frozen=True)
class Digest:
    """What has the digest, under which heading; `bytes` of an object, None where it names no single file."""

    kind: str
    name: str
    sha256: str
    bytes: int | None = None


def versions(run: Run) -> tuple[list[Version], list[Version]]:
    """Packages by name, each version of one apart, and what is known of the host in the same form."""
    stages: dict[tuple[str, str], list[str]] = {}
    for receipt in _receipts(run):
        for package, version in receipt.toolchain.items():
            stages.setdefault((package, version), []).append(receipt.stage)
    every = [Version(*key, tuple(dict.fromkeys(ran))) for key, ran in sorted(stages.items())]
    return [one for one in every if one.package not in _HOST], [one for one in every if one.package in _HOST]


def hosts(run: Run) -> list[str]:
    """What benches say of the machines they ran on, each once."""
    told = []
    for receipt in _receipts(run):
        measured = receipt.measured
        if receipt.stage == "bench" and "threads" in measured:
            model = f"{measured['cpu_model']}, " if "cpu_model" in measured else ""
            told.append(f"{model}{measured['threads']} threads on {measured.get('cpus', '?')} CPUs")
    return list(dict.fromkeys(told))


def digests(run: Run, checkpoint: str) -> list[Digest]:
    """Artifacts, releases and the checkpoint's files by their content, receipts by what they made, stages by source."""
    found: list[Digest] = []
    sources: dict[tuple[str, str], None] = {}
    for node in run.of(checkpoint):
        if node.receipt is None:
            continue
        sources[node.stage, node.receipt.source] = None
        found.append(Digest("Receipts", node.name, node.receipt.digest))
        if kind := _KINDS.get(node.stage):
            shown = node.variant or node.name
            found += [
                Digest(kind, name if kind == _FILES else f"{shown}: {name}", ref.sha256, ref.bytes)
                for name, ref in node.receipt.outputs.items()
                if node.stage != "package" or name == "release.json"
            ]
    found += [Digest("Source of stages", stage, source) for stage, source in sources]
    order = [*dict.fromkeys(_KINDS.values()), "Receipts", "Source of stages"]
    return sorted(found, key=lambda one: order.index(one.kind))


_FILES = "Files of the checkpoint"
_KINDS = {
    "assemble": "Artifacts",
    "package": "Artifacts",
    "fetch": _FILES,
    "weights": "Device weights and tables",
    "tables": "Device weights and tables",
    "prompts": "Prompts and oracles",
    "oracle": "Prompts and oracles",
}


def _receipts(run: Run) -> Iterable[Receipt]:
    return (node.receipt for node in run.nodes if node.receipt)
