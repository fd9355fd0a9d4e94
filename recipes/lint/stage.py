"""Stage lint: the two graphs of a variant against the compiler's rules and a core's memory, before anyone compiles.

Only what would certainly fail is refused: an operator that the compiler does not take, or memory that no core has. All
findings are in the receipt's object, and `python -m recipes.lint` prints them for any module.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ledger.errors import run_cli
from ledger.stage import Job, Outcome, run_stage
from recipes.fit.hbm import hbm_of
from recipes.fit.instances import CORE_HBM, GIB
from recipes.lint import Expected, Finding, judge
from serve.manifest import GRAPHS, Builder, Signature


class LintRecipe(BaseModel):
    """What the judgement depends on, apart from the graphs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["inf2"]
    builder: Builder
    tp: int
    kv: Literal["device", "host"]


def work(job: Job[LintRecipe]) -> Outcome:
    """Judge both graphs; the verdict is failed when one has an error or a core cannot hold them."""
    recipe, lowered = job.recipe, job.inputs["lower"].outputs
    layers = job.store.read_json(job.inputs["fetch"].outputs["config.json"])["text_config"]["num_hidden_layers"]
    pair = {g: Signature.model_validate(job.store.read_json(lowered[f"{g}.signature.json"])) for g in GRAPHS}
    findings: list[Finding] = []
    for graph, signature in pair.items():
        module = job.store.path(lowered[f"{graph}.hlo.pb"]).read_bytes()
        expected = Expected(tp=recipe.tp, aliases=len(signature.aliases))
        findings += judge(module, recipe.target, expected=expected, origin=f"graph {graph}")
    hbm = hbm_of(pair, layers, recipe.kv, recipe.builder)
    message = _message(findings, hbm.total)
    return Outcome(
        outputs={"findings.json": job.store.put_json([asdict(finding) for finding in findings])},
        facts={
            "errors": sum(finding.severity == "error" for finding in findings),
            "warnings": sum(finding.severity == "warn" for finding in findings),
            "hbm": asdict(hbm) | {"total": hbm.total},
        },
        verdict="failed" if message else "passed",
        message=message,
    )


def _message(findings: list[Finding], total: int) -> str:
    """The first thing that cannot work; empty when nothing is known to stand against the variant."""
    for one in findings:
        if one.severity == "error":
            return f"lint {one.code or one.rule}: {one.message}; {one.remedy}"
    if total > CORE_HBM:
        most = f"at most {CORE_HBM // GIB}; `python -m recipes.plan` tells what fits"
        return f"HBM per core is {total / GIB:.1f} GiB; accepted: {most}"
    return ""


def main() -> int:
    """The stage."""
    return run_stage("lint", LintRecipe, work, modules=("recipes.lint.stage",), packages=())


if __name__ == "__main__":
    run_cli(main)
