"""The workflow files as data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from ledger.sources import ROOT

FOLDER = ROOT / ".github" / "workflows"
FILES = {name: FOLDER / f"{name}.yml" for name in ("ci", "nightly")}


@dataclass(frozen=True)
class Step:
    """One step of a job, in the order of the file."""

    workflow: str
    job: str
    facts: dict[str, Any]

    @property
    def run(self) -> str:
        """The command; empty for a step that uses an action."""
        return str(self.facts.get("run", ""))

    @property
    def action(self) -> str:
        """The action with its pin; empty for a command."""
        return str(self.facts.get("uses", ""))

    @property
    def always(self) -> bool:
        """Whether it runs after a step that failed."""
        return self.facts.get("if") == "always()"


def read(path: Path) -> dict[str, Any]:
    """A workflow; `on` stays text, which YAML 1.1 takes for a truth value."""
    found: dict[Any, Any] = yaml.safe_load(path.read_text())
    return {"on" if key is True else key: value for key, value in found.items()}


def steps(workflow: str, job: str | None = None) -> list[Step]:
    """Every step of a workflow, or of one job."""
    jobs: dict[str, Any] = read(FILES[workflow])["jobs"]
    return [Step(workflow, name, facts) for name in jobs if job in (None, name) for facts in jobs[name]["steps"]]


def commands() -> list[Step]:
    """Every `run:` step of every workflow."""
    return [step for name in FILES for step in steps(name) if step.run]
