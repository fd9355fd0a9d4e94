"""Steps made by loops from positions, and the library's own answer to them, for tests of modules and of builds."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from tests.build import WINDOW

ROWS, RING, BUCKET = 30, 20, 8
IDS = [2, *np.random.default_rng(4).integers(0, 512, 27).tolist()]
# Three chunks, the last one padded, then single tokens; the ring turns on the way.
CHUNKS = [IDS[0:8], IDS[8:16], IDS[16:22], *([token] for token in IDS[22:])]


def step_inputs(model: Any, chunk: list[int], start: int, width: int) -> dict[str, Tensor]:
    """Float32 inputs of one step of `width` positions, of which `chunk` are real."""
    ids = torch.tensor([chunk + [0] * (width - len(chunk))])
    lowest = torch.finfo(torch.float32).min
    full, sliding = torch.full((1, 1, width, ROWS), lowest), torch.full((1, 1, width, RING), lowest)
    full_select, sliding_select = torch.zeros(1, 1, ROWS, width), torch.zeros(1, 1, RING, width)
    for token in range(width):
        query = start + min(token, len(chunk) - 1)
        full[..., token, : query + 1] = 0
        sliding[..., token, [p % RING for p in range(max(0, query - WINDOW + 1), query + 1)]] = 0
        if token < len(chunk):
            full_select[..., start + token, token] = 1
            sliding_select[..., (start + token) % RING, token] = 1
    inputs = {
        "inputs_embeds": model.model.embed_tokens(ids),
        "position_ids": torch.arange(start, start + width, dtype=torch.int32)[None],
        "full_mask": full,
        "full_select": full_select,
        "sliding_mask": sliding,
        "sliding_select": sliding_select,
    }
    if model.config.hidden_size_per_layer_input:
        inputs["per_layer_inputs"] = model.model.get_per_layer_inputs(ids, None)
    if width > 1:
        inputs["last"] = torch.eye(width)[None, len(chunk) - 1]
    return {name: tensor.detach() for name, tensor in inputs.items()}


def steps(model: Any, *, one_graph: bool) -> list[tuple[str, dict[str, Tensor]]]:
    """Graph and inputs of every step over `CHUNKS`; with `one_graph` a single token is a chunk of the prefill graph."""
    made, start = [], 0
    for chunk in CHUNKS:
        graph = "prefill" if one_graph or len(chunk) > 1 else "decode"
        made.append((graph, step_inputs(model, chunk, start, BUCKET if graph == "prefill" else 1)))
        start += len(chunk)
    return made


def expected(model: Any) -> list[Tensor]:
    """The library's logits [1, V] at the last token of each chunk, in one forward without a cache."""
    with torch.no_grad():
        logits = model(torch.tensor([IDS])).logits
    return [logits[:, end] for end in np.cumsum([len(chunk) for chunk in CHUNKS]) - 1]
