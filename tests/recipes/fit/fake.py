"""Signatures written by hand, small enough to count on paper."""

from __future__ import annotations

from serve.manifest import GraphName, Output, Parameter, Signature


def signature(graph: GraphName, tokens: int = 1, rows: int = 8, batch: int = 1) -> Signature:
    """Two owners (a sliding one with 4 rows, a full one with `rows`), 100 bfloat16 weights, logits of 10 ids."""
    parameters = (
        Parameter(name="w", role="weight", shape=(10, 10), dtype="bfloat16"),
        Parameter(name="full_mask", role="input", shape=(batch, 1, tokens, rows), dtype="bfloat16"),
        Parameter(name="position_ids", role="input", shape=(batch, tokens), dtype="int32"),
        Parameter(name="k.0", role="state", shape=(batch, 1, 4, 2), dtype="bfloat16"),
        Parameter(name="v.0", role="state", shape=(batch, 1, 4, 2), dtype="bfloat16"),
        Parameter(name="k.1", role="state", shape=(batch, 1, rows, 4), dtype="bfloat16"),
        Parameter(name="v.1", role="state", shape=(batch, 1, rows, 4), dtype="bfloat16"),
    )
    kept = tuple(Output(name=p.name, role="state", shape=p.shape, dtype=p.dtype) for p in parameters[3:])
    logits = Output(name="logits", role="logits", shape=(batch, 10), dtype="float32")
    return Signature(
        graph=graph,
        batch=batch,
        tokens=tokens,
        parameters=parameters,
        outputs=(logits, *kept),
        aliases={1: 3, 2: 4, 3: 5, 4: 6},
    )
