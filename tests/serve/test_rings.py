"""Visibility and selection against a simulator that keeps positions in plain lists."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from serve.rings import Buffers


class Simulated:
    """One buffer as a list of rows that remember which request and position they hold."""

    def __init__(self, rows: int) -> None:
        self.rows: list[tuple[str, int]] = [("nobody", 0)] * rows

    def write(self, selected: np.ndarray[tuple[int, int], np.dtype[np.bool_]], positions: list[int], who: str) -> None:
        """Store tokens by a written matrix [rows, n]: each in exactly one row, none in the row of another."""
        assert selected.sum(axis=0).tolist() == [1] * len(positions)
        assert selected.sum(axis=1).max(initial=0) <= 1
        for row, token in np.argwhere(selected):
            self.rows[row] = (who, positions[token])

    def read(self, visible: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[str, int]]:
        """What a query reads, in the order of positions."""
        return sorted(self.rows[row] for row in np.flatnonzero(visible))


@st.composite
def cases(draw: st.DrawFn) -> tuple[int, int, int, list[list[int]]]:
    """Window, ring, kv_max, and two requests as chunk sizes; rings from the least that is promised to work."""
    window, bucket, kv_max = draw(st.integers(1, 12)), draw(st.integers(1, 9)), draw(st.integers(1, 40))
    ring = min(kv_max, window + bucket - 1 + draw(st.integers(0, 3)))
    requests = []
    for _ in range(2):
        left, chunks = draw(st.integers(1, kv_max)), []
        while left:
            chunks.append(draw(st.integers(1, min(bucket, left))))
            left -= chunks[-1]
        requests.append(chunks)
    return window, ring, kv_max, requests


@given(cases())
def test_a_query_reads_its_own_past_and_nothing_else(case: tuple[int, int, int, list[list[int]]]) -> None:
    window, ring, kv_max, requests = case
    buffers = Buffers(kv_max, ring, window)
    full, sliding = Simulated(kv_max), Simulated(ring)
    for who, chunks in zip(("first", "second"), requests, strict=True):
        start = 0
        for size in chunks:
            positions = list(range(start, start + size))
            array = np.array(positions)
            full.write(buffers.full_written(array), positions, who)
            sliding.write(buffers.ring_written(array), positions, who)
            full_visible, ring_visible = (
                buffers.full_visible(array),
                buffers.ring_visible(array, np.full(size, positions[-1])),
            )
            for row, query in enumerate(positions):
                past = [(who, position) for position in range(query + 1)]
                assert full.read(full_visible[row]) == past
                assert sliding.read(ring_visible[row]) == past[-window:]
            start += size


@given(st.integers(1, 12), st.integers(2, 9), st.integers(0, 40))
def test_a_ring_of_one_row_less_loses_a_position_that_is_still_needed(window: int, bucket: int, extra: int) -> None:
    start = window - 1 + extra
    chunk = np.arange(start, start + bucket)
    enough, short = (Buffers(100, window + bucket - less, window) for less in (1, 2))
    last = np.full(bucket, chunk[-1])
    assert enough.ring_visible(chunk, last).sum(axis=1).tolist() == [window] * bucket
    assert short.ring_visible(chunk, last)[0].sum() == window - 1


def test_the_positions_of_a_sliding_window() -> None:
    # Worked by hand: ring of 5, position 7 written last, so rows hold 5, 6, 7, 3, 4; a window of 3 reads 5, 6, 7.
    # Position 2 of another sequence, written last there, reads 0, 1, 2 where they are.
    positions = np.array([7, 2, 0])
    visible = Buffers(9, 5, 3).ring_visible(positions, positions)
    assert [np.flatnonzero(row).tolist() for row in visible] == [[0, 1, 2], [0, 1, 2], [0]]
