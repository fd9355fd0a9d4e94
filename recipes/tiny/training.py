"""Training of the demo checkpoint: AdamW with warm-up and a cosine, on two threads, the same bits every time.

Departs from a usual loop in what it is bound by: a minute of two CPU cores. Batches are small, because many
small steps beat few large ones at a fixed number of tokens.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ledger.stage import say
from recipes.tiny.model import next_token_loss

BATCH = 2
LENGTH = 256
PEAK_RATE = 4e-3
EMBEDDING_RATE = 4.0  # times the others': a row is touched only where its token occurs
THREADS = 2
REPORTS = 10


def train(model: Any, rows: torch.Tensor, *, steps: int) -> float:
    """Train the text model in place on rows [steps * BATCH, LENGTH + 1]; the mean loss of the last tenth, in nats."""
    parameters = list(model.model.language_model.parameters())
    optimizer = torch.optim.AdamW(_groups(model), betas=(0.9, 0.95), fused=True)
    tail: list[float] = []
    started = time.monotonic()
    model.train()
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = PEAK_RATE * group["times"] * rate(step, steps)
        loss = next_token_loss(model, rows[step * BATCH : (step + 1) * BATCH])
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step >= steps - max(1, steps // 10):
            tail.append(loss.item())
        if (step + 1) % max(1, steps // REPORTS) == 0:
            seconds = time.monotonic() - started
            say(f"tiny: step {step + 1} of {steps}, loss {loss.item():.3f}, {seconds:.0f} s")
    model.eval()
    return sum(tail) / len(tail)


def _groups(model: Any) -> list[dict[str, Any]]:
    """Embeddings, matrices and vectors; only matrices decay."""
    named = list(model.model.language_model.named_parameters())
    embeddings = [parameter for name, parameter in named if name.startswith("embed_")]
    others = [parameter for name, parameter in named if not name.startswith("embed_")]
    return [
        {"params": embeddings, "weight_decay": 0.0, "times": EMBEDDING_RATE},
        {"params": [one for one in others if one.ndim > 1], "weight_decay": 0.05, "times": 1.0},
        {"params": [one for one in others if one.ndim < 2], "weight_decay": 0.0, "times": 1.0},
    ]


def rate(step: int, steps: int) -> float:
    """Share of the peak learning rate: linear up over the first twentieth, then a cosine down to a twentieth."""
    warm = max(1, steps // 20)
    cosine = 0.05 + 0.95 * (1 + math.cos(math.pi * step / steps)) / 2
    return min(1.0, (step + 1) / warm) * cosine


@torch.no_grad()
def mean_loss(model: Any, rows: torch.Tensor) -> float:
    """Mean loss over rows [N, L + 1], in nats per token."""
    batches = [rows[start : start + 8] for start in range(0, len(rows), 8)]
    return sum(next_token_loss(model, batch).item() * len(batch) for batch in batches) / len(rows)


@contextmanager
def reproducible() -> Iterator[None]:
    """Fixed thread count, deterministic kernels and a private random state inside; all as before afterwards.

    The thread count is part of the result: it decides how sums are split.
    """
    threads, strict = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        torch.set_num_threads(THREADS)
        torch.use_deterministic_algorithms(True)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(strict)
            torch.set_num_threads(threads)
