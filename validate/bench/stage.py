"""Stage `bench`: what a variant costs, measured beside transformers in the same minutes.

A machine's speed drifts from hour to hour, so figures of two runs do not compare. Here the artifact and transformers
(on the same checkpoint, dtype, prompt and number of threads, in each of its modes) take turns round by round, every
one in a process of its own. What cannot run is a cell with a reason, not a hole.
"""

from __future__ import annotations

import math
import os
import random
import tempfile
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ledger.digest import digest_json
from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage
from recipes.artifact import laid_out
from serve.errors import ServeError
from serve.manifest import MANIFEST, Manifest, Point
from serve.tensorfile import NUMPY
from validate.bench import artifact_worker, read_probe, transformers_worker
from validate.bench.machine import machine
from validate.bench.rounds import Plan, measure
from validate.encode import Encoder
from validate.pool import Pool

PREFILL_BUCKETS = 4
"""Prefill is timed on at most so many whole buckets."""
CONTEXT_STEPS = 12
"""Tokens that are timed at a quarter of the context, at half of it and at its end."""


class Recipe(BaseModel):
    """`prompt_tokens` and `new_tokens` shrink to what the variant holds; `threads` are those of either side."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dtype: Literal["float32", "bfloat16"]
    prompt_tokens: int = Field(ge=1)
    new_tokens: int = Field(ge=1)
    rounds: int = Field(ge=1)
    threads: int = Field(default=2, ge=1)


def plan(recipe: Recipe, point: Point) -> Plan:
    """What fits a variant: the answer gives way last, as decode is what is compared.

    Raises BadInput for a kv_max with no room for a prompt and two tokens.
    """
    kv_max, kv_bucket = point.kv_max, point.kv_bucket
    if kv_max < 3:
        raise BadInput(f"kv_max: found {kv_max}; accepted by the bench: 3 or more, for a prompt and two tokens")
    wanted = max(2, recipe.new_tokens)
    prompt = max(1, min(recipe.prompt_tokens, kv_max - wanted))
    buckets = max(1, min(PREFILL_BUCKETS, (kv_max - 1) // kv_bucket))
    steps = min(CONTEXT_STEPS, kv_max - 1)
    # While the slots are filled one by one, those that are filled move on by a token each time.
    slots = point.batch if kv_max > point.batch + 2 else 1
    slots_new = min(wanted, kv_max - slots - 1)
    return Plan(
        prompt=prompt,
        new=min(wanted, kv_max - prompt),
        prefill=min(buckets * kv_bucket, kv_max - 1),
        contexts=tuple(sorted({max(1, kv_max * part // 4 - steps) for part in (1, 2, 4)})),
        context_new=steps,
        slots=slots,
        slots_prompt=max(1, min(prompt, kv_bucket, kv_max - slots - slots_new)),
        slots_new=slots_new,
    )


def step_bytes(manifest: Manifest) -> int:
    """Bytes of weights and state that a decode step cannot do without reading, of all ranks together."""
    decode = manifest.step.signature
    read = (*decode.named("weight").values(), *decode.named("state").values())
    return manifest.variant.tp * sum(math.prod(one.shape) * NUMPY[one.dtype].itemsize for one in read)


def own_bytes(folder: Path, manifest: Manifest) -> int:
    """Bytes of the files that only this variant has."""
    return (folder / MANIFEST).stat().st_size + sum(ref.bytes for ref in manifest.own_files())


def sizes(folder: Path, manifest: Manifest) -> dict[str, float]:
    """Megabytes (10**6 bytes) of all files a host needs, and of those that only this variant has."""
    own = own_bytes(folder, manifest)
    every = own + sum(ref.bytes for ref in manifest.files()) - sum(ref.bytes for ref in manifest.own_files())
    return {"size_mb": round(every / 1e6, 3), "added_mb": round(own / 1e6, 3)}


def work(job: Job[Recipe], artifact: Path) -> Outcome:
    """The stage: an artifact that passed parity in, figures out."""
    recipe = job.recipe
    if job.inputs["parity"].verdict != "passed":
        raise BadInput("--input parity: the verdict is not passed; accepted: the receipt of a passed parity")
    try:
        manifest = Manifest.read(artifact)
    except ServeError as error:
        raise BadInput(str(error)) from error
    planned = plan(recipe, manifest.variant)
    threads = min(recipe.threads, len(os.sched_getaffinity(0)))
    before = machine()
    with tempfile.TemporaryDirectory() as name:
        job.store.lay_out(job.inputs["fetch"].outputs, Path(name), verify=True)
        encoder = Encoder.from_folder(Path(name))
        pool = Pool(encoder, room=manifest.variant.kv_max, forbidden=encoder.placeholders, chooser=random.Random(0))
        measured = measure(
            (artifact_worker.MODULE, str(artifact.resolve()), str(threads)),
            (transformers_worker.MODULE, name, recipe.dtype, str(threads)),
            (read_probe.MODULE, str(threads)),
            pool.filled,
            planned,
            recipe.rounds,
        )
    measured |= before | {"threads": threads}
    facts = sizes(artifact, manifest) | {
        "dtype": recipe.dtype,
        "prompt_tokens": planned.prompt,
        "new_tokens": planned.new,
        "prefill_tokens": planned.prefill,
        "step_bytes": step_bytes(manifest),
        # Followers print the figures, so they must follow a new measurement although no figure is a fact.
        "measurement": digest_json(measured),
    }
    return Outcome(facts=facts, measured=measured)


def stage(job: Job[Recipe]) -> Outcome:
    """`work` on the artifact that the receipt of assemble tells of."""
    with laid_out(job.inputs["assemble"], job.store) as folder:
        return work(job, folder)


def main() -> int:
    """`python -m validate.bench.stage`, a stage."""
    return run_stage(
        "bench",
        Recipe,
        stage,
        modules=("validate.bench.stage",),
        packages=("numpy", "jaxlib", "torch", "transformers"),
    )


if __name__ == "__main__":
    run_cli(main)
