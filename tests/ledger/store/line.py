"""A line of a few stages on a machine with a store: what the commands of the store are tried on."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from ledger import stage
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome, run_stage
from ledger.store.__main__ import main
from ledger.store.opening import open_holding

NOW = ("--older-than", "0")
"""Nothing is too young to be collected."""


class Recipe(BaseModel):
    point: dict[str, Any] = {}


@dataclass
class Line:
    """`compiler`, a toolchain entry of compile, and `source` (file by file) are this machine's and can be changed."""

    store: str
    folder: Path
    patch: pytest.MonkeyPatch
    compiler: str = "2.23"
    source: dict[str, str] = field(default_factory=lambda: {"recipes/lowering.py": "1" * 64})
    verdict: Any = "done"
    echo: str = ""

    @property
    def flags(self) -> list[str]:
        return ["--store", self.store, "--cache", str(self.folder / "cache")]

    def receipt(self, name: str, point: str) -> Path:
        return self.folder / "results" / "receipts" / "demo" / point / f"{name}.json"

    def lower(self, point: str, **recipe: Any) -> Receipt:
        return self._run("lower", point, recipe, [], {})

    def compile(self, point: str, **recipe: Any) -> Receipt:
        given = ["--input", f"lower={self.receipt('lower', point)}"]
        return self._run("compile", point, recipe, given, {"neuronx-cc": self.compiler})

    def assemble(self, point: str) -> Receipt:
        return self._run("assemble", point, {}, ["--input", f"compile={self.receipt('compile', point)}"], {})

    def _run(self, name: str, point: str, recipe: Any, given: list[str], host: dict[str, str]) -> Receipt:
        self.patch.setattr(stage, "source_digest", lambda *_: str(sorted(self.source.items())))
        self.patch.setattr(stage, "file_digests", lambda *_: self.source)
        out = self.receipt(name, point)
        flags = ["--recipe", json.dumps({"point": recipe}), *given, *self.flags, "--out", str(out)]
        code = run_stage(name, Recipe, self._work, modules=(), packages=(), environment=lambda _: host, argv=flags)
        return Receipt.read(out if code == 0 else out.with_suffix(".failed.json"))

    def _work(self, job: Job[Recipe]) -> Outcome:
        made = {"recipe": job.recipe.point, "inputs": sorted(one.digest for one in job.inputs.values())}
        text = json.dumps(made) + self.echo
        return Outcome(outputs={"graph": job.store.put_bytes(text.encode())}, verdict=self.verdict)

    def command(self, *argv: str) -> int:
        return main([*argv, *(self.flags if argv[0] == "why" else self.flags[:2])])


def built(line: Line, *points: str) -> None:
    for point in points:
        line.lower(point, of=point)
        line.compile(point)


def collected(line: Line, printed: pytest.CaptureFixture[str], *flags: str) -> dict[str, Any]:
    printed.readouterr()
    assert line.command("collect", "--json", *flags) == 0
    found: dict[str, Any] = json.loads(printed.readouterr().out)
    return found


def names(line: Line) -> set[str]:
    holding = open_holding(line.store)
    return {entry.name for folder in ("objects", "actions", "asked") for entry in holding.entries(folder)}
