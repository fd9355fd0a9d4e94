"""A stage that stores its recipe's text: what the stage driver is tried on."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ledger.stage import Job, Outcome, run_stage
from ledger.store import Store


class Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    shape: tuple[int, ...] = ()


@dataclass
class Bench:
    """A stage "lower" that stores its recipe's text, in a folder of its own."""

    folder: Path
    jobs: list[Job[Recipe]] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ("pydantic",)

    @property
    def out(self) -> Path:
        return self.folder / "receipts" / "512-64.json"

    @property
    def failed(self) -> Path:
        return self.folder / "receipts" / "512-64.failed.json"

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    def run(self, recipe: str = '{"text": "a"}', *more: str) -> int:
        flags = ["--recipe", recipe, "--store", str(self.folder / "store"), "--out", str(self.out), *more]
        return run_stage("lower", Recipe, self.work, modules=("ledger.stage",), packages=self.packages, argv=flags)

    def work(self, job: Job[Recipe]) -> Outcome:
        self.jobs.append(job)
        ref = job.store.put_bytes(job.recipe.text.encode())
        usual: dict[str, Any] = {"outputs": {"graph": ref}, "facts": {"letters": len(job.recipe.text)}}
        return Outcome(**usual | self.outcome)
