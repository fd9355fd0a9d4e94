"""Signatures at any size without lowering: the step graph is built once, on the meta device, and only asked for shapes.

Departs from stage lower's signatures in the order of parameters, which only a lowered module has, and in the token
that threads collectives. Names, roles, shapes and dtypes are those of the same step graph.
"""

from __future__ import annotations

import os
from typing import Any

from recipes.lowering import ring_rows
from serve.manifest import DType, GraphName, Output, Parameter, Signature


class Shapes:
    """One rank's program of a checkpoint at a fixed degree and dtype, of any context, bucket and batch."""

    def __init__(self, text_config: dict[str, Any], tp: int, dtype: DType, target: str) -> None:
        """Build the model without weights; BadInput for counts that `tp` ranks cannot share."""
        # The library imports torch-xla where that is, which warns unless it is told of a device; none is needed.
        os.environ.setdefault("PJRT_DEVICE", "CPU")
        from recipes.forms import FORMS
        from recipes.stepgraph import StepGraph

        self._window = text_config["sliding_window"]
        self._model = StepGraph(text_config, tp, dtype, FORMS[target])
        self._weights = tuple(self._model.weights())
        self._vocab: int = text_config["vocab_size"]

    def signature(self, graph: GraphName, kv_max: int, kv_bucket: int, batch: int = 1) -> Signature:
        """The signature that lowering this point would give, up to order."""
        ring = ring_rows(self._window, kv_max, kv_bucket)
        tokens = kv_bucket if graph == "prefill" else 1
        streams = batch if graph == "decode" else 1
        states = tuple(self._model.states(batch, kv_max, ring))
        inputs = self._model.inputs(streams, tokens, kv_max, ring, batch)
        parameters = (*self._weights, *inputs, *states)
        number = {parameter.name: index for index, parameter in enumerate(parameters)}
        logits = Output(name="logits", role="logits", shape=(streams, self._vocab), dtype="float32")
        kept = tuple(Output(name=p.name, role="state", shape=p.shape, dtype=p.dtype) for p in states)
        return Signature(
            graph=graph,
            batch=streams,
            tokens=tokens,
            parameters=parameters,
            outputs=(logits, *kept),
            aliases={index: number[one.name] for index, one in enumerate(kept, start=1)},
        )


def role_bytes(signature: Signature, role: str) -> int:
    """Bytes of all parameters of one role."""
    return sum(size(parameter) for parameter in signature.named(role).values())


def logits_bytes(signature: Signature) -> int:
    """Bytes of the outputs that are not state."""
    return sum(size(output) for output in signature.outputs if output.role != "state")


def size(tensor: Parameter | Output) -> int:
    """Bytes of a tensor."""
    total = {"float32": 4, "bfloat16": 2, "int32": 4}[tensor.dtype]
    for extent in tensor.shape:
        total *= extent
    return total
