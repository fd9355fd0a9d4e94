"""Stage compile: HLO to what the target executes. Knows no weights: every one is an argument of the graph.

Target cpu: XLA:CPU through jaxlib. The executable is bound to this host's CPU features and to the number of cores
that codegen saw, so both are part of the key; the portable module goes along, and a host that lacks a feature
compiles that instead.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage
from serve.manifest import GRAPHS, Signature
from serve.runtime.host import cpu_features


class CompileRecipe(BaseModel):
    """What compiled bytes depend on, apart from the HLO and the host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["cpu", "inf2"]


def host() -> Mapping[str, str]:
    """What of this host goes into compiled bytes."""
    return {"cpu_features": " ".join(cpu_features()), "cores": str(len(os.sched_getaffinity(0)))}


def work(job: Job[CompileRecipe]) -> Outcome:
    """Compile both graphs for the target."""
    if job.recipe.target != "cpu":
        raise BadInput(f"target is {job.recipe.target!r}; accepted by the compile stage of this version: 'cpu'")
    from recipes.executable import canonical
    from recipes.stablehlo import module_for_cpu
    from serve.runtime.pjrt import Client

    lowered = job.inputs["lower"].outputs
    client = Client(ranks=job.inputs["lower"].facts["tp"])
    outputs = {}
    for graph in GRAPHS:
        signature = Signature.model_validate(job.store.read_json(lowered[f"{graph}.signature.json"]))
        module = module_for_cpu(job.store.path(lowered[f"{graph}.hlo.pb"]).read_bytes(), signature)
        outputs[f"{graph}.stablehlo"] = job.store.put_bytes(module)
        outputs[f"{graph}.xla"] = job.store.put_bytes(canonical(client.compile(module)))
    return Outcome(outputs=outputs, facts={"cpu_features": cpu_features()})


def main() -> int:
    """The stage."""
    # XLA takes options from here and stores them in the executable; what ships must not depend on a shell.
    os.environ.pop("XLA_FLAGS", None)
    return run_stage(
        "compile", CompileRecipe, work, modules=("recipes.compile",), packages=("jaxlib",), environment=host
    )


if __name__ == "__main__":
    run_cli(main)
