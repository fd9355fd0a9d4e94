"""Whether a manifest says what its graphs were built for: the host computes with the one, the device with the other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from serve.errors import ServeError
from serve.manifest import GRAPHS, MANIFEST, Builder, Manifest

Fact = tuple[str, Any, Any]

INLINE: tuple[Builder, ...] = ("trace", "parallel")
"""Builders that put weights, and with kv device a state of its own, into each graph."""


def check_fit(folder: Path, manifest: Manifest) -> None:
    """ServeError naming the first key of the manifest in `folder` that its graphs contradict."""
    # Two graphs with a state each would not see one another's rows, so one serves both.
    alone = manifest.variant.builder in INLINE and manifest.variant.kv == "device"
    needed = GRAPHS[:1] if alone else GRAPHS
    for name in GRAPHS:
        if (name in manifest.graphs) != (name in needed):
            found_it = f"{'no ' if name in needed else ''}{name}"
            raise ServeError(f"{folder / MANIFEST}: graphs: found {found_it}; accepted: {' and '.join(needed)}")
    for key, found, accepted in _facts(manifest):
        if found != accepted:
            raise ServeError(
                f"{folder / MANIFEST}: {key}: found {found}; accepted: {accepted}, which its graphs were built for"
            )
    last = manifest.model.vocab_size - 1
    for token in (manifest.tokens.bos, *manifest.tokens.stop, *manifest.tokens.suppress):
        if not 0 <= token <= last:
            raise ServeError(f"{folder / MANIFEST}: tokens: found id {token}; accepted: 0 to {last}")


def _facts(manifest: Manifest) -> Iterator[Fact]:
    """Key, what the manifest says, what the signatures say."""
    point, model = manifest.variant, manifest.model
    signature = manifest.step.signature
    decode = {name: parameter.shape for name, parameter in signature.named("input").items()}
    prefill = manifest.graphs["prefill"].signature.named("input")
    ranks = manifest.step.modules if point.builder in INLINE else manifest.weights
    logits = next(output.shape for output in signature.outputs if output.role == "logits")
    yield "variant.kv_max", point.kv_max, decode["full_mask"][-1]
    yield "variant.kv_bucket", point.kv_bucket, prefill["position_ids"].shape[-1]
    yield "variant.batch", point.batch, decode["position_ids"][0]
    yield "variant.tp", point.tp, len(ranks)
    yield "variant.dtype", {point.dtype}, {state.dtype for state in signature.named("state").values()}
    yield "ring", manifest.ring, decode["sliding_mask"][-1]
    yield "ring, of model.sliding_window,", manifest.ring, min(point.kv_max, model.sliding_window + point.kv_bucket)
    yield "model.hidden_size", model.hidden_size, decode["inputs_embeds"][-1]
    yield "model.vocab_size", model.vocab_size, logits[-1]
    if "per_layer_inputs" in decode:
        yield "model.layers", model.layers, decode["per_layer_inputs"][-2]
        yield "model.ple_width", model.ple_width, decode["per_layer_inputs"][-1]
