"""Positions to visibility and selection: all that a step graph knows of the past, as plain arithmetic.

A full-attention buffer has a row per position. A sliding-attention buffer is a ring: position p lives in slot
p mod R. With f the last written position, slot j holds position f - ((f - j) mod R), and a query at q reads it if
that is >= 0, <= q and > q - window. Nothing else is ever visible, so buffers need no reset between requests, and
rows beyond the real tokens of a padded chunk are neither written nor attended.

A chunk of T tokens is written before it is read, so R >= window + T - 1 keeps every row a query still needs.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Buffers:
    """The two kinds of KV buffer of a variant, seen through the positions of one chunk."""

    def __init__(self, kv_max: int, ring: int, window: int) -> None:
        """`kv_max` rows in full layers; `ring` rows in sliding layers, of which `window` positions are read."""
        self._full = np.arange(kv_max)
        self._ring = np.arange(ring)
        self._window = window

    def full_visible(self, positions: Ints) -> Bools:
        """[T, kv_max]: the rows a query at each of `positions` [T] reads."""
        visible: Bools = self._full <= positions[:, None]
        return visible

    def ring_visible(self, positions: Ints, last: Ints) -> Bools:
        """[T, ring]: the slots each query reads when `last` [T] is the highest position written so far."""
        held = last[:, None] - (last[:, None] - self._ring) % len(self._ring)
        queries = positions[:, None]
        visible: Bools = (held >= 0) & (held <= queries) & (held > queries - self._window)
        return visible

    def full_written(self, positions: Ints) -> Bools:
        """[kv_max, n]: True where a row takes the token at each of the n real `positions`."""
        written: Bools = self._full[:, None] == positions
        return written

    def ring_written(self, positions: Ints) -> Bools:
        """[ring, n]: True where a slot takes the token at each of the n real `positions`."""
        written: Bools = self._ring[:, None] == positions % len(self._ring)
        return written
