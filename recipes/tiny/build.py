"""Build the demo checkpoint: read text, learn a tokenizer, train, write, and judge what was written.

Departs from a usual training script at the end: the held-out loss is taken from the rounded weights as
transformers loads them from the finished folder, so it vouches for the files and not for the model that was
in memory.
"""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from config.heldout import HELDOUT_MODULES
from ledger.errors import GateFailed
from ledger.stage import say
from recipes.tiny import stream, tokenizer, training, writing
from recipes.tiny.corpus import read_corpus
from recipes.tiny.model import load_model, new_model

# Enough steps that greedy continuations are words; the bound is nats per token on modules never trained on.
DEFAULT_STEPS = 500
HELDOUT_BOUND = 4.9


def build_tiny(folder: Path, *, geometry: Path, seed: int, steps: int) -> dict[str, Any]:
    """Write the checkpoint into the existing, empty `folder`; `geometry` is its config.json.

    Returns facts: train_loss, heldout_loss and untrained_loss (nats per token), tokens trained on, tensors,
    seed, steps; what varies between runs is under "measured". Two runs on one machine write the same bytes.
    GateFailed if a run of at least DEFAULT_STEPS steps ends above HELDOUT_BOUND.
    """
    started = time.monotonic()
    config = json.loads(geometry.read_text(encoding="utf-8"))
    corpus = read_corpus(HELDOUT_MODULES)
    vocabulary = tokenizer.train_tokenizer(
        (stream.plain(doc) for doc in corpus.train),
        vocab_size=config["text_config"]["vocab_size"],
        specials=tokenizer.special_ids(config),
    )
    say(f"tiny: {len(corpus.train)} docstrings, training for {steps} steps")
    with training.reproducible():
        rows = stream.training_rows(
            corpus.train, vocabulary, rows=steps * training.BATCH, length=training.LENGTH, seed=seed
        )
        model = new_model(config, seed)
        heldout = stream.heldout_rows(corpus.heldout, vocabulary, length=training.LENGTH)
        untrained_loss = training.mean_loss(model, heldout[:4])
        prepared = time.monotonic()
        train_loss = training.train(model, rows, steps=steps)
        trained = time.monotonic()
        tensors = writing.write_weights(model, folder, seed)
        tokenizer.write_tokenizer(vocabulary, folder)
        writing.write_generation_config(config, folder)
        shutil.copyfile(geometry, folder / "config.json")
        shutil.copyfile(stream.TEMPLATE, folder / "chat_template.jinja")
        heldout_loss = training.mean_loss(load_model(folder), heldout)
    say(f"tiny: held-out loss {heldout_loss:.3f} nats per token")
    judge(heldout_loss, steps)
    return {
        "seed": seed,
        "steps": steps,
        "tokens": steps * training.BATCH * training.LENGTH,
        "tensors": tensors,
        "train_loss": round(train_loss, 6),
        "heldout_loss": round(heldout_loss, 6),
        "untrained_loss": round(untrained_loss, 6),
        "measured": {
            "tiny_prepare_seconds": round(prepared - started, 3),
            "tiny_train_seconds": round(trained - prepared, 3),
            "tiny_seconds": round(time.monotonic() - started, 3),
        },
    }


def judge(heldout_loss: float, steps: int) -> None:
    """GateFailed if a full training run ends above the bound (or at NaN); shorter runs make no claim."""
    if steps >= DEFAULT_STEPS and not heldout_loss <= HELDOUT_BOUND:
        raise GateFailed(
            f"tiny: held-out loss after {steps} steps is {heldout_loss:.3f} nats per token; "
            f"accepted: at most {HELDOUT_BOUND}"
        )
