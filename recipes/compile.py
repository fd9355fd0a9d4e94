"""Stage compile: HLO to what the target executes.

Target cpu: XLA:CPU through jaxlib. Knows no weights, as every one is an argument of the graph. The executable is bound
to this host's CPU features and to the number of cores that codegen saw, so both are part of the key; the portable
module goes along, and a host that lacks a feature compiles that instead.
Target inf2: the Neuron SDK, in `recipes.neuron.stage`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage
from recipes.neuron import stage as neuron
from recipes.neuron.stage import NeuronRecipe
from recipes.shell import drop_foreign
from serve.manifest import GRAPHS, Signature
from serve.runtime.host import cpu_features


class CompileRecipe(BaseModel):
    """What compiled bytes for target cpu depend on, apart from the HLO and the host."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["cpu"]
    flags: tuple[str, ...] = ()


class AnyRecipe(RootModel[Annotated[CompileRecipe | NeuronRecipe, Field(discriminator="target")]]):
    """A recipe of either target."""

    model_config = ConfigDict(frozen=True)


def environment(recipe: AnyRecipe) -> Mapping[str, str]:
    """What of this host goes into compiled bytes: the SDK for inf2, the CPU for cpu."""
    return neuron.toolchain(recipe.root) if isinstance(recipe.root, NeuronRecipe) else host()


def host() -> Mapping[str, str]:
    """What of this host goes into bytes for target cpu."""
    return {"cpu_features": " ".join(cpu_features()), "cores": str(len(os.sched_getaffinity(0)))}


def work(job: Job[CompileRecipe | NeuronRecipe]) -> Outcome:
    """Compile the graphs for the target of the recipe."""
    if isinstance(job.recipe, NeuronRecipe):
        return neuron.work(Job(job.recipe, job.inputs, job.store))
    from recipes.executable import canonical
    from recipes.stablehlo import module_for_cpu
    from serve.runtime.pjrt import Client, OptionError

    lowered = job.inputs["lower"].outputs
    client = Client(ranks=job.inputs["lower"].facts["tp"])
    outputs = {}
    for graph in GRAPHS:
        signature = Signature.model_validate(job.store.read_json(lowered[f"{graph}.signature.json"]))
        module = module_for_cpu(job.store.path(lowered[f"{graph}.hlo.pb"]).read_bytes(), signature)
        outputs[f"{graph}.stablehlo"] = job.store.put_bytes(module)
        try:
            executable = client.compile(module, job.recipe.flags)
        except OptionError as error:
            found = " ".join(job.recipe.flags)
            raise BadInput(f"flags of the variant: found {found} ({error}); accepted: what XLA compiles with") from None
        outputs[f"{graph}.xla"] = job.store.put_bytes(canonical(executable))
    return Outcome(outputs=outputs, facts={"cpu_features": cpu_features()})


def main() -> int:
    """The stage."""
    # XLA takes options from here and stores them in the executable.
    drop_foreign(os.environ)
    return run_stage(
        "compile",
        AnyRecipe,
        lambda job: work(Job(job.recipe.root, job.inputs, job.store)),
        # The build of target inf2 is started by name.
        modules=("recipes.compile", "recipes.neuron.build", "recipes.neuron.versions"),
        packages=("jaxlib",),
        environment=environment,
    )


if __name__ == "__main__":
    run_cli(main)
