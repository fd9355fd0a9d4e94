"""Stage compile for target inf2: one build process, its files into the store, or the reason why there are none."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from config.builders import inlines_weights, one_graph, reason_of
from config.sdk import DRIVER, RUNTIME, SDK
from ledger.atomic import write_text
from ledger.errors import BadInput
from ledger.stage import Job, Outcome
from recipes.neuron.environment import Workspace, workspace
from recipes.neuron.failures import Failure, classify
from recipes.neuron.flags import compiler_flags
from recipes.neuron.process import LOG, building, ending, sharing
from recipes.neuron.versions import installed
from serve.manifest import GRAPHS, GraphName

# What shapes the module that the SDK is handed, beyond the SDK.
_LIBRARIES = ("torch", "torch-xla", "transformers", "safetensors")
_BUILT = "built.json"


class NeuronRecipe(BaseModel):
    """What compiled bytes depend on, apart from the architecture: the SDK lowers the module again by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    target: Literal["inf2"]
    builder: Literal["trace", "nxd", "parallel"]
    kv: Literal["device", "host"]
    tp: int
    batch: int
    dtype: Literal["float32", "bfloat16"]
    kv_max: int
    kv_bucket: int
    flags: tuple[str, ...] = ()


def toolchain(recipe: NeuronRecipe) -> dict[str, str]:
    """Versions of the SDK and of what makes its input; BadInput when the SDK is not there."""
    with ending():
        return {name: metadata.version(name) for name in _LIBRARIES} | installed(recipe.builder)


def graphs_of(recipe: NeuronRecipe) -> tuple[GraphName, ...]:
    """The graphs that are built: prefill alone where it serves decode too."""
    return ("prefill",) if one_graph(recipe.builder, recipe.kv) else GRAPHS


def work(job: Job[NeuronRecipe]) -> Outcome:
    """Build once; a build that the host's memory was too small for, once more, alone and serial."""
    with ending():
        with sharing(job.store, alone=False) as lock:
            outcome, failure = _attempt(job, lock, serial=False)
        if failure is None or failure.kind != "host memory":
            return outcome
        with sharing(job.store, alone=True) as lock:
            outcome, _ = _attempt(job, lock, serial=True)
    outcome.measured["retried"] = f"{failure.message}; then alone, one compiler at a time"
    return outcome


def _attempt(job: Job[NeuronRecipe], lock: int, *, serial: bool) -> tuple[Outcome, Failure | None]:
    with (
        workspace(job.store) as space,
        building(space, _job_file(job, space), lock, serial=serial) as (status, log),
    ):
        kept = {LOG: job.store.put_file(space.work / LOG)}
        if status == 0 and (space.work / _BUILT).is_file():
            return _built(job, space, kept), None
        last = log.strip().splitlines()[-1:]
        if status == BadInput.exit_code and last and last[0].startswith("error: "):
            raise BadInput(last[0].removeprefix("error: "))
        failure = classify(status, log, job.recipe.flags)
        facts = _facts(job.recipe) | {"failure": failure.kind, "code": failure.code}
        message = f"{failure.message}; the log is {job.store.path(kept[LOG])}"
        return Outcome(outputs=kept, facts=facts, verdict="failed", message=message), failure


def _job_file(job: Job[NeuronRecipe], space: Workspace) -> Path:
    from recipes.neuron.job import BuildJob

    recipe, store, lowered = job.recipe, job.store, job.inputs["lower"].outputs
    weights: Mapping[str, Any] = job.inputs["weights"].outputs if inlines_weights(recipe.builder) else {}
    out = space.work / "out"
    out.mkdir()
    build = BuildJob(
        builder=recipe.builder,
        kv=recipe.kv,
        tp=recipe.tp,
        dtype=recipe.dtype,
        flags=compiler_flags(recipe.dtype, recipe.flags),
        config=store.path(job.inputs["fetch"].outputs["config.json"]).resolve(),
        signatures={graph: store.path(lowered[f"{graph}.signature.json"]).resolve() for graph in graphs_of(recipe)},
        weights=tuple(store.path(weights[f"rank{rank}.safetensors"]).resolve() for rank in range(len(weights))),
        work=space.work,
        out=out,
    )
    path = space.work / "job.json"
    write_text(path, build.model_dump_json())
    return path


def _built(job: Job[NeuronRecipe], space: Workspace, kept: dict[str, Any]) -> Outcome:
    from recipes.neuron.job import Built

    built = Built.model_validate_json((space.work / _BUILT).read_bytes())
    names = sorted({name for modules in built.modules.values() for name in modules})
    outputs = kept | {name: job.store.put_file(space.work / "out" / name) for name in names}
    facts = _facts(job.recipe)
    facts["modules"] = {graph: list(modules) for graph, modules in built.modules.items()}
    facts["neuron"] = {
        "sdk": SDK,
        "versions": installed(job.recipe.builder) | {"runtime": RUNTIME, "driver": DRIVER},
        "weight_keys": built.weight_keys,
    }
    neffs = {str(path.relative_to(space.work)): path.stat().st_size for path in sorted(space.work.rglob("graph.neff"))}
    commands = {
        str(path.relative_to(space.work)): path.read_text(errors="replace").strip() for path in _commands(space)
    }
    return Outcome(outputs=outputs, facts=facts, measured={"neff_bytes": neffs, "commands": commands})


def _facts(recipe: NeuronRecipe) -> dict[str, Any]:
    return {
        "builder": recipe.builder,
        "reason": reason_of(recipe.builder, recipe.target, recipe.kv),
        "flags": compiler_flags(recipe.dtype, recipe.flags),
        "graphs": list(graphs_of(recipe)),
    }


def _commands(space: Workspace) -> list[Path]:
    return sorted(space.work.rglob("command.txt"))
