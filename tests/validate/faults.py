"""Faults to seed, each in the smallest place where somebody could make it.

Most are an edit of one function's source text. The text must be there exactly once, so that a fault whose place has
moved is an error and not a test that proves nothing. A few need a memory of earlier requests and wrap a method; those
of weights change values between their stage and the artifact.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from transformers.models.gemma4 import modeling_gemma4

from recipes import lowering, weights
from recipes.stepgraph import StepGraph
from serve.engine import Engine, Request
from serve.rings import Buffers, Ints
from serve.sampling import Sampler
from serve.steps import Floats, Steps
from serve.tables import HostTables
from tests import build

Patch = pytest.MonkeyPatch
Arrays = dict[str, npt.NDArray[np.generic]]
BUCKET = 8


@dataclass(frozen=True)
class Edit:
    """A fault: in the source of `owner.name` each old text of `changes` is replaced by the new one."""

    owner: Any
    name: str
    changes: dict[str, str]

    def __call__(self, patch: Patch) -> None:
        """Put the edited function or class in the place of the right one."""
        right = getattr(self.owner, self.name)
        right = getattr(right, "fget", right)
        source = textwrap.dedent(inspect.getsource(right))
        for old, new in self.changes.items():
            assert source.count(old) == 1, f"{old!r} is {source.count(old)} times in {self.name}; accepted: once"
            source = source.replace(old, new)
        names: dict[str, Any] = {}
        # Annotations stay text, as `compile` inherits this module's future statement.
        exec(compile(source, inspect.getfile(right), "exec"), vars(sys.modules[right.__module__]), names)
        patch.setattr(self.owner, self.name, names[self.name])


def edit(owner: Any, name: str, old: str, new: str) -> Edit:
    """A fault of one change."""
    return Edit(owner, name, {old: new})


def reached_by_an_earlier_request(patch: Patch) -> None:
    """The first decode step still reads as many rows as the prompt before had."""
    fill, visible = Steps.prefill, Buffers.full_visible
    before = prompt = 0

    def prefill(self: Steps, slot: int, chunk: Sequence[int], start: int) -> Floats:
        nonlocal before, prompt
        before, prompt = (prompt if start == 0 else before), start + len(chunk)
        return fill(self, slot, chunk, start)

    def full_visible(self: Buffers, positions: Ints) -> npt.NDArray[np.bool_]:
        return visible(self, np.maximum(positions, before - 1) if len(positions) == 1 else positions)

    patch.setattr(Steps, "prefill", prefill)
    patch.setattr(Buffers, "full_visible", full_visible)


def prefix_kept(patch: Patch) -> None:
    """Chunks that the request before had too are not run again, though its answer has overwritten their ring rows."""
    fill = Steps.prefill
    rows: list[int] = []
    kept: dict[int, Floats] = {}

    def prefill(self: Steps, slot: int, chunk: Sequence[int], start: int) -> Floats:
        end = start + len(chunk)
        if rows[start:end] != list(chunk) or end not in kept:
            rows[start:] = chunk
            for later in [later for later in kept if later > start]:
                del kept[later]
            kept[end] = fill(self, slot, chunk, start).copy()
        return kept[end]

    patch.setattr(Steps, "prefill", prefill)


PADDING_WRITTEN = {
    "np.minimum(np.arange(start, start + width), start + real - 1)": "np.arange(start, start + width)",
    "full_written(positions[:real])": "full_written(positions)",
    "ring_written(positions[:real])": "ring_written(positions)",
    "[0, 0, :, :real] = written": "[0, 0, :, :] = written",
    "inputs[name][0, 0, :, real:] = 0": "pass",
}

HOST: dict[str, Callable[[Patch], None]] = {
    "full mask: sees the next position": edit(
        Buffers, "full_visible", "<= positions[:, None]", "<= positions[:, None] + 1"
    ),
    "full mask: does not see itself": edit(Buffers, "full_visible", "<=", "<"),
    "ring mask: sees the next position": edit(Buffers, "ring_visible", "<= queries", "<= queries + 1"),
    "ring mask: does not see itself": edit(Buffers, "ring_visible", "<= queries", "< queries"),
    "window of W - 1": edit(Buffers, "ring_visible", "self._window", "self._window + 1"),
    "window of W + 1": edit(Buffers, "ring_visible", "self._window", "self._window - 1"),
    "padding attended": Edit(
        Steps,
        "prefill",
        PADDING_WRITTEN
        | {"full_visible(positions)": "full_visible(np.where(np.arange(width) == real - 1, last, positions))"},
    ),
    "padding kept: decode goes on behind it": edit(
        Request, "position", "len(self.ids)", f"-(-len(self.ids) // {BUCKET}) * {BUCKET}"
    ),
    "logits of the padded end": edit(Steps, "prefill", "np.arange(width) == real - 1", "np.arange(width) == width - 1"),
    "decode rotated by one position more": edit(
        Steps, "decode", '["position_ids"][:, 0] = positions', '["position_ids"][:, 0] = positions + 1'
    ),
    "per-layer row off by one": edit(
        HostTables, "embed_per_layer", "self._per_layer[ids]", "self._per_layer[np.asarray(ids) - 1]"
    ),
    "embedding scale left out": edit(HostTables, "embed", " * self._token_scale", ""),
    # The square root of 96, rounded.
    "embedding scale rounded to bfloat16": edit(HostTables, "embed", "self._token_scale", "np.float32(9.8125)"),
    "per-layer scale left out": edit(HostTables, "embed_per_layer", " * self._per_layer_scale", ""),
    "stale ring rows reachable": edit(Buffers, "ring_visible", "(held >= 0) & ", ""),
    "stale rows reachable from a longer prompt": reached_by_an_earlier_request,
    "prefix kept though its ring rows are gone": prefix_kept,
    "suppress_tokens not applied": edit(Sampler, "allowed", "if not len(self._suppress):", "if True:"),
    "all but the first stop id ignored": edit(
        Engine, "submit", "frozenset(self.manifest.tokens.stop)", "frozenset(self.manifest.tokens.stop[:1])"
    ),
    "stop id swallowed": edit(Request, "take", "self.made.append(", 'finish == "stop" or self.made.append('),
    "BOS cut off": edit(Engine, "submit", "Request(list(ids)", "Request(list(ids[1:] or ids)"),
}


# With W + T rows, what padding overwrites in a ring is out of the window, and what it says of the future is not read.
HARMLESS: dict[str, Callable[[Patch], None]] = {
    "padding written and not attended": Edit(Steps, "prefill", PADDING_WRITTEN)
}


def scalars_at_one(arrays: Arrays) -> None:
    """What a loader leaves that does not know buffers."""
    arrays |= {name: np.ones_like(array) for name, array in arrays.items() if name.endswith(weights.SCALAR)}


def rope_kinds_exchanged(arrays: Arrays) -> None:
    """Each kind of attention rotates by the other's rule, at its own width."""
    rules = build.TEXT_CONFIG["rope_parameters"]
    exchanged = build.TEXT_CONFIG | {"rope_parameters": dict(zip(rules, reversed(rules.values()), strict=True))}
    # The plain rule looks at head_dim alone.
    wide = exchanged | {"head_dim": exchanged["global_head_dim"]}
    for kind, text_config in (("full", wide), ("sliding", exchanged)):
        name = f"rotary_emb.{kind}_attention_inv_freq"
        arrays[name] = weights.rope_frequencies(text_config)[name]


def rope_rounded(arrays: Arrays) -> None:
    """Frequencies in bfloat16, as a cast of the whole model makes them."""
    for name in [name for name in arrays if name.endswith("inv_freq")]:
        arrays[name] = arrays[name].astype(ml_dtypes.bfloat16).astype(np.float32)


WEIGHTS: dict[str, Callable[[Arrays], None]] = {
    "layer_scalar at 1": scalars_at_one,
    "RoPE kinds exchanged": rope_kinds_exchanged,
    "RoPE frequencies rounded to bfloat16": rope_rounded,
}


def decoys_used(patch: Patch) -> None:
    """Shared layers have keys and values of their own, from tensors that nothing may load."""
    rule = "self.is_kv_shared_layer = layer_idx >= first_kv_shared_layer_idx >= 0"
    edit(modeling_gemma4, "Gemma4TextAttention", rule, "self.is_kv_shared_layer = False")(patch)
    patch.setattr(weights, "DECOY", re.compile("(?!)"))


LAST_OWNER = """len(prev_layers) - 1 - prev_layers[
            ::-1
        ].index("""
GRAPHS: dict[str, Callable[[Patch], None]] = {
    "soft-cap left out": edit(
        StepGraph, "_logits", "logits if cap is None else torch.tanh(logits / cap) * cap", "logits"
    ),
    "wrong KV donor": edit(modeling_gemma4, "Gemma4TextAttention", LAST_OWNER, "prev_layers.index("),
    "decoy K and V used": decoys_used,
    # A chunk of T needs W + T - 1 rows; the ring that ships has one to spare.
    "ring short by one": edit(lowering, "ring_rows", "+ kv_bucket", "+ kv_bucket - 2"),
    "ring of a smaller bucket": edit(lowering, "ring_rows", "+ kv_bucket", "+ kv_bucket // 2"),
}
