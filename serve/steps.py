"""The host side of a step: embedding rows, positions, masks and selectors written into a graph's inputs.

One decode step serves every slot at once; prefill works on one slot, `kv_bucket` tokens a call. A slot that takes no
part writes no row, and what it computes is not looked at. Where one graph serves both, a decode step of its only slot
is a prefill chunk of one token.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

import ml_dtypes
import numpy as np
import numpy.typing as npt

from serve.manifest import GraphName, Manifest
from serve.rings import Buffers
from serve.runtime import Inputs, Runtime
from serve.tables import HostTables, Ids

Floats = npt.NDArray[np.float32]


class Steps:
    """Runs the graphs of an artifact on token ids and positions; `device_seconds` adds up what the runtime took.

    `meanwhile` is called whenever the device is about to work, which is when other threads get the interpreter.
    """

    def __init__(self, manifest: Manifest, runtime: Runtime, tables: HostTables) -> None:
        point = manifest.variant
        self._runtime = runtime
        self._tables = tables
        self._buffers = Buffers(point.kv_max, manifest.ring, manifest.model.sliding_window)
        self._prefill = runtime.inputs("prefill")
        self._decode = runtime.inputs("decode") if "decode" in manifest.graphs else None
        # The lowest finite value hides a row; -inf would become NaN on a NeuronCore.
        self._lowest = ml_dtypes.finfo(self._prefill["full_mask"].dtype).min  # type: ignore[no-untyped-call]
        self.device_seconds = 0.0
        self.meanwhile: Callable[[], None] = lambda: None

    def prefill(self, slot: int, chunk: Sequence[int], start: int) -> Floats:
        """Run `chunk` at positions start.. of `slot`; logits [V] after its last token, valid until the next step."""
        inputs, real = self._prefill, len(chunk)
        width = inputs["position_ids"].shape[1]
        # Rows beyond the chunk repeat its last position and are not written.
        positions = np.minimum(np.arange(start, start + width), start + real - 1)
        last = positions[-1]
        self._embed(inputs, 0, slice(real), chunk)
        inputs["position_ids"][0] = positions
        self._show(inputs["full_mask"][0, 0], self._buffers.full_visible(positions))
        self._show(inputs["sliding_mask"][0, 0], self._buffers.ring_visible(positions, np.full(width, last)))
        for name, written in (
            ("full_select", self._buffers.full_written(positions[:real])),
            ("sliding_select", self._buffers.ring_written(positions[:real])),
        ):
            inputs[name][0, 0, :, :real] = written
            inputs[name][0, 0, :, real:] = 0
        if "last" in inputs:
            inputs["last"][0] = np.arange(width) == real - 1
        if "slot" in inputs:
            inputs["slot"][:] = np.arange(len(inputs["slot"])) == slot
        logits: Floats = self._run("prefill")[0]
        return logits

    def decode(self, tokens: Mapping[int, tuple[int, int]]) -> Floats:
        """One token in each slot of `tokens` (slot to token and position); logits [B, V], valid until the next step."""
        if (inputs := self._decode) is None:
            [(slot, (token, position))] = tokens.items()
            return self.prefill(slot, [token], position)[None]
        ids, positions = np.zeros((2, len(inputs["position_ids"])), np.int64)
        taking = np.zeros(len(ids), np.bool_)
        for slot, (token, position) in tokens.items():
            ids[slot], positions[slot], taking[slot] = token, position, True
        self._embed(inputs, slice(None), 0, ids)
        inputs["position_ids"][:, 0] = positions
        self._show(inputs["full_mask"][:, 0, 0], self._buffers.full_visible(positions))
        self._show(inputs["sliding_mask"][:, 0, 0], self._buffers.ring_visible(positions, positions))
        inputs["full_select"][:, 0, :, 0] = self._buffers.full_written(positions).T & taking[:, None]
        inputs["sliding_select"][:, 0, :, 0] = self._buffers.ring_written(positions).T & taking[:, None]
        return self._run("decode")

    def close(self) -> None:
        """Release the device."""
        self._runtime.close()

    def _run(self, graph: GraphName) -> Floats:
        self.meanwhile()
        started = time.perf_counter()
        logits = self._runtime.step(graph)
        self.device_seconds += time.perf_counter() - started
        return logits

    def _embed(self, inputs: Inputs, slots: int | slice, rows: int | slice, ids: Ids) -> None:
        self._tables.embed(ids, inputs["inputs_embeds"][slots, rows])
        if "per_layer_inputs" in inputs:
            self._tables.embed_per_layer(ids, inputs["per_layer_inputs"][slots, rows])

    def _show(self, mask: npt.NDArray[np.generic], visible: npt.NDArray[np.bool_]) -> None:
        mask[...] = np.where(visible, 0, self._lowest)
