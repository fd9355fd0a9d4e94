"""Stage `prompts`: what every variant of one size, (kv_max, kv_bucket), is asked.

Not a benchmark set: it aims at the seams of a static-shape build. Lengths sit on both sides of the bucket, of the
sliding window, of the ring that holds it and of kv_max; contents go through chat turns, code, scripts, emoji and
special tokens. Stop ids are off for most prompts, so that all tokens are really made; a few chats in addition honour
them.
"""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from config.heldout import HELDOUT_MODULES
from ledger.errors import BadInput, run_cli
from ledger.stage import Job, Outcome, run_stage
from validate.encode import FILES, Encoder
from validate.heldout import docstrings, windows
from validate.pool import Item, Pool
from validate.records import Heldout, Prompt, PromptSet


class Recipe(BaseModel):
    """`window`: the model's sliding window, in tokens; `count`: prompts that have room for `max_new` tokens."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kv_max: int = Field(ge=2)
    kv_bucket: int = Field(ge=1)
    window: int = Field(ge=1)
    count: int = Field(ge=1)
    max_new: int = Field(ge=1)
    heldout_tokens: int = Field(ge=0)
    seed: int = Field(ge=0)


def edge_lengths(kv_max: int, kv_bucket: int, window: int) -> list[int]:
    """Prompt lengths on both sides of every seam, ascending, each at least 1 and under `kv_max`.

    Seams: bucket (one prefill call), two buckets, window, ring (window + bucket rows), several windows, kv_max.
    """
    around = (kv_bucket, 2 * kv_bucket, window, window + kv_bucket)
    wanted = {1, 3 * window + 1, 5 * window, kv_max - 1} | {n + d for n in around for d in (-1, 0, 1)}
    return sorted(n for n in wanted if 1 <= n < kv_max)


def build(recipe: Recipe, encoder: Encoder) -> PromptSet:
    """The prompt set of `recipe`, the same for the same recipe and tokenizer.

    Raises BadInput when kv_max leaves no room for max_new tokens after a prompt.
    """
    room = recipe.kv_max - recipe.max_new
    if room < 1:
        raise BadInput(f"parity.max_new: found {recipe.max_new}; accepted: under {recipe.kv_max}, the variant's kv_max")
    chooser = random.Random(f"{recipe.seed}/{recipe.kv_max}/{recipe.kv_bucket}")
    pool = Pool(encoder, room=room, forbidden=encoder.placeholders, chooser=chooser)
    lengths = edge_lengths(recipe.kv_max, recipe.kv_bucket, recipe.window)
    edges = [Item("length", f"length-{length}", pool.filled(length)) for length in lengths]
    missing = recipe.count - sum(length <= room for length in lengths)
    varied = islice(pool.deal(), max(0, missing))
    stopping = pool.stopping[: 1 + recipe.count // 8]
    prompts = tuple(_prompt(item, recipe) for item in (*edges, *varied, *stopping))
    headless = [prompt.name for prompt in prompts if prompt.ids[0] != encoder.bos]
    if headless:
        raise AssertionError(f"prompts that do not begin with BOS: {headless}")
    return PromptSet(prompts=prompts, heldout=_heldout(recipe, encoder))


def _prompt(item: Item, recipe: Recipe) -> Prompt:
    max_new = min(recipe.max_new, recipe.kv_max - len(item.ids))
    return Prompt(name=item.name, kind=item.kind, ids=tuple(item.ids), max_new=max_new, stop=item.kind == "stop")


def _heldout(recipe: Recipe, encoder: Encoder) -> tuple[Heldout, ...]:
    text = "\n\n".join(doc for module in HELDOUT_MODULES for doc in docstrings(module))
    # One row of the cache stays free: a prompt that fills it has no room for an answer and is refused.
    cut = windows(encoder.pieces(text), bos=encoder.bos, size=recipe.kv_max - 1, total=recipe.heldout_tokens)
    return tuple(Heldout(name=f"heldout-{number}", ids=ids) for number, ids in enumerate(cut, 1))


def work(job: Job[Recipe]) -> Outcome:
    """The stage: tokenizer and template of the fetched checkpoint in, `prompts.json` out."""
    fetched = job.inputs["fetch"].outputs
    files: dict[str, Path] = {
        name: job.store.verify(fetched[name]) for name in (*FILES, "config.json") if name in fetched
    }
    made = build(job.recipe, Encoder.load(files))
    full = [p for p in made.prompts if p.max_new == job.recipe.max_new and not p.stop]
    facts = {
        "prompts": len(made.prompts),
        "full_length": len(full),
        "lengths": sorted({len(prompt.ids) for prompt in made.prompts}),
        "heldout_tokens": sum(len(window.ids) for window in made.heldout),
    }
    return Outcome(outputs={"prompts.json": job.store.put_json(made.model_dump(mode="json"))}, facts=facts)


def main() -> int:
    """`python -m validate.prompts`, a stage."""
    return run_stage(
        "prompts", Recipe, work, modules=("validate.prompts",), packages=("tokenizers", "jinja2", "pydantic")
    )


if __name__ == "__main__":
    run_cli(main)
