"""Stage `parity`: the saved artifact, loaded in this fresh process by the code that ships, against the oracle.

What is tested is what is published: serve.engine reads the artifact's folder, and this process never imports torch or
transformers, so nothing of the oracle can help it (target inf2 brings torch by itself, and no model). With
--artifact and without --recipe it is the command for anyone's own prompts (validate/parity_cli.py).
"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.digest import sha256_file
from ledger.errors import BadInput, GateFailed, run_cli
from ledger.stage import Job, Outcome, run_stage, say
from recipes.artifact import laid_out
from serve.engine import Engine
from serve.errors import ServeError
from serve.manifest import MANIFEST
from validate import parity_cli
from validate.findings import sentences
from validate.records import Oracle, PromptSet
from validate.selfcheck import selfcheck
from validate.subject import examine

ORACLE_ONLY = frozenset({"torch", "transformers"})
# The Neuron SDK runs on torch, and parts of it touch the package transformers; no model of it is loaded for that.
ORACLE_ONLY_BESIDE_NEURON = frozenset({"transformers.modeling_utils"})


class Recipe(BaseModel):
    """Limits that were declared before the run, each for one dtype and ignored by the other.

    `epsilon`, in logits, exempts tokens of bfloat16; `logprob_tolerance`, in nats, binds float32. The answer that a
    server checks itself with is recorded as far as the oracle's gaps are not under `epsilon`, in every dtype.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["float32", "bfloat16"]
    epsilon: float = Field(ge=0.0)
    logprob_tolerance: float = Field(ge=0.0)


def require_clean_process() -> None:
    """GateFailed when a library of the oracle is loaded here."""
    forbidden = ORACLE_ONLY_BESIDE_NEURON if "torch_neuronx" in sys.modules else ORACLE_ONLY
    found = sorted(forbidden & sys.modules.keys())
    if found:
        raise GateFailed(f"parity: {found[0]} is loaded in the process under test; accepted: serve and what it needs")


def neuron_host() -> dict[str, Any]:
    """What a verdict for target inf2 holds for: devices, driver and runtime of this host, None where it cannot tell."""
    from serve.runtime.neuron.host import Host

    host = Host.read()
    versions = {"driver": host.driver, "runtime": host.runtime or host.own_runtime()}
    return {"neuron_host": versions | {"devices": None if host.devices is None else len(host.devices)}}


def work(job: Job[Recipe], folder: Path) -> Outcome:
    """The artifact in `folder`, prompt set and oracle in; passed or failed out, with every difference named."""
    require_clean_process()
    asked = PromptSet.model_validate(job.store.read_json(job.inputs["prompts"].outputs["prompts.json"]))
    oracle = Oracle.model_validate(job.store.read_json(job.inputs["oracle"].outputs["oracle.json"]))
    recipe, exact = job.recipe, job.recipe.dtype == "float32"
    epsilon, tolerance = (0.0, recipe.logprob_tolerance) if exact else (recipe.epsilon, None)
    try:
        with closing(Engine.load(folder)) as engine:
            found = engine.manifest.variant.dtype
            if found != recipe.dtype:
                raise BadInput(f"--artifact {folder} is {found}; accepted: {recipe.dtype}, as the recipe says")
            report = examine(engine, asked, oracle, epsilon=epsilon, logprob_tolerance=tolerance, say=say)
            host = neuron_host() if engine.manifest.neuron else {}
    except ServeError as error:
        raise BadInput(str(error)) from error
    require_clean_process()
    return Outcome(
        facts=report.facts()
        | {
            "artifact": sha256_file(folder / MANIFEST),
            "dtype": recipe.dtype,
            "epsilon": epsilon,
            "logprob_tolerance": tolerance,
            "selfcheck": selfcheck(asked, oracle, report, recipe.epsilon),
        }
        | host,
        measured={"parts": report.seconds},
        verdict="passed" if report.passed else "failed",
        message=sentences(report),
    )


def stage(job: Job[Recipe]) -> Outcome:
    """`work` on the artifact that the receipt of assemble tells of."""
    with laid_out(job.inputs["assemble"], job.store) as folder:
        return work(job, folder)


def main() -> int:
    """`python -m validate.parity`: a stage where --recipe is given, else the command for own prompts."""
    if not any(flag.split("=")[0] == "--recipe" for flag in sys.argv[1:]):
        code = parity_cli.main(sys.argv[1:])
        require_clean_process()
        return code
    return run_stage(
        "parity",
        Recipe,
        stage,
        modules=("validate.parity",),
        packages=("numpy", "jaxlib", "ml_dtypes", "pydantic"),
    )


if __name__ == "__main__":
    run_cli(main)
