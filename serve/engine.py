"""Token ids in, token ids out: chunked prefill, ring buffers, greedy and seeded sampling over a runtime.

The engine knows no text. It owns the host side of a step (embedding rows, positions, masks, selectors) and the
order of steps; the runtime owns weights, state and execution. One request runs at a time: starting another
supersedes it, and needs no reset, because what a request may read follows from its own positions alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import ml_dtypes
import numpy as np
import numpy.typing as npt

from serve.errors import ServeError
from serve.manifest import Manifest, verify
from serve.rings import Buffers
from serve.runtime import Inputs, Runtime, load
from serve.sampling import GREEDY, Sampler, Sampling, log_softmax, top
from serve.tables import HostTables

Floats = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Token:
    """One generated token; `logprob` and `top` are there when log-probabilities were asked for."""

    id: int
    logprob: float | None = None
    top: tuple[tuple[int, float], ...] = ()
    finish: Literal["stop", "length"] | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """What the model says after one prompt token: its own choice, and the log-probability of the next token."""

    argmax: int
    logprob: float | None
    top: tuple[tuple[int, float], ...]


class Engine:
    """One artifact, loaded and ready."""

    def __init__(self, manifest: Manifest, runtime: Runtime, tables: HostTables) -> None:
        """Put together what `load` reads; tests bring their own runtime."""
        point = manifest.variant
        self.manifest = manifest
        self.kv_max = point.kv_max
        self._runtime = runtime
        self._tables = tables
        self._buffers = Buffers(point.kv_max, manifest.ring, manifest.model.sliding_window)
        self._prefill_inputs = runtime.inputs("prefill")
        self._decode_inputs = runtime.inputs("decode")
        self._lowest = _lowest(self._decode_inputs["full_mask"].dtype)
        self._request = 0

    @classmethod
    def load(cls, folder: Path, *, check_digests: bool = True) -> Engine:
        """Load the artifact in `folder`; ServeError when it is damaged or this host cannot run it."""
        manifest = Manifest.read(folder)
        if check_digests:
            verify(folder, manifest.files())
        tables = HostTables(folder / manifest.tables.path, manifest.model, slim=manifest.variant.slim)
        return cls(manifest, load(folder, manifest), tables)

    def generate(
        self,
        ids: Sequence[int],
        *,
        max_new: int,
        sampling: Sampling = GREEDY,
        stop_ids: frozenset[int] | None = None,
        top_logprobs: int | None = None,
    ) -> Iterator[Token]:
        """Continue `ids` by up to `max_new` tokens, or until prompt and answer fill `kv_max` positions.

        A token of `stop_ids` (the checkpoint's own when None) ends the answer and is yielded with finish "stop".
        ServeError when the prompt is empty, does not fit, or holds an id outside the vocabulary, or when
        another request has taken over.
        """
        self._check(ids, self.kv_max - 1)
        stops = frozenset(self.manifest.tokens.stop) if stop_ids is None else stop_ids
        return self._generate(list(ids), max_new, Sampler(sampling, self.manifest.tokens.suppress), stops, top_logprobs)

    def _generate(
        self, ids: list[int], max_new: int, sampler: Sampler, stops: frozenset[int], top_logprobs: int | None
    ) -> Iterator[Token]:
        budget = min(max_new, self.kv_max - len(ids))
        if budget <= 0:
            return
        self._request += 1
        request = self._request
        logits = self._prefill(ids)
        for made in range(1, budget + 1):
            allowed = sampler.allowed(logits)
            chosen = sampler.choose(allowed)
            finish: Literal["stop", "length"] | None = None
            if chosen in stops:
                finish = "stop"
            elif made == budget:
                finish = "length"
            yield _token(chosen, allowed, top_logprobs, finish)
            if finish:
                return
            if request != self._request:
                raise ServeError("this request was superseded by a later one; an engine accepts one at a time")
            logits = self._decode(chosen, len(ids) + made - 1)

    def score(self, ids: Sequence[int], *, top_logprobs: int = 0) -> list[Score]:
        """Run `ids` one by one through the decode graph; entry i speaks of the token after ids[i].

        The last entry has no next token, so its `logprob` is None. ServeError as for `generate`.
        """
        self._check(ids, self.kv_max)
        self._request += 1
        sampler = Sampler(GREEDY, self.manifest.tokens.suppress)
        scores = []
        for position, token in enumerate(ids):
            logits = sampler.allowed(self._decode(token, position))
            log_probabilities = log_softmax(logits)
            following = ids[position + 1] if position + 1 < len(ids) else None
            logprob = None if following is None else float(log_probabilities[following])
            scores.append(Score(sampler.choose(logits), logprob, top(log_probabilities, top_logprobs)))
        return scores

    def close(self) -> None:
        """Release the device."""
        self._runtime.close()

    def _check(self, ids: Sequence[int], room: int) -> None:
        if not 1 <= len(ids) <= room:
            raise ServeError(f"the prompt has {len(ids)} tokens; 1 to {room} are accepted by this artifact")
        vocabulary = self.manifest.model.vocab_size
        for token in ids:
            if not 0 <= token < vocabulary:
                raise ServeError(f"the prompt holds token id {token}; 0 to {vocabulary - 1} are accepted")

    def _prefill(self, ids: Sequence[int]) -> Floats:
        bucket = self.manifest.variant.kv_bucket
        for start in range(0, len(ids), bucket):
            self._fill(self._prefill_inputs, ids[start : start + bucket], start)
            logits: Floats = self._runtime.step("prefill")[0]
        return logits

    def _decode(self, token: int, position: int) -> Floats:
        self._fill(self._decode_inputs, (token,), position)
        logits: Floats = self._runtime.step("decode")[0]
        return logits

    def _fill(self, inputs: Inputs, chunk: Sequence[int], start: int) -> None:
        """Write one chunk into a graph's inputs; rows beyond it repeat the last position and are not written."""
        width, real = inputs["position_ids"].shape[1], len(chunk)
        positions = np.arange(start, start + width)
        positions[real:] = last = start + real - 1
        written = positions[:real]
        inputs["position_ids"][0] = positions
        self._tables.embed(chunk, inputs["inputs_embeds"][0, :real])
        if "per_layer_inputs" in inputs:
            self._tables.embed_per_layer(chunk, inputs["per_layer_inputs"][0, :real])
        inputs["full_mask"][0, 0] = np.where(self._buffers.full_visible(positions), 0, self._lowest)
        inputs["sliding_mask"][0, 0] = np.where(self._buffers.ring_visible(positions, last), 0, self._lowest)
        for name, rows in (
            ("full_select", self._buffers.full_written(written)),
            ("sliding_select", self._buffers.ring_written(written)),
        ):
            inputs[name][0, 0, :, :real] = rows
            inputs[name][0, 0, :, real:] = 0
        if "last" in inputs:
            inputs["last"][0] = np.arange(width) == real - 1


def _token(chosen: int, logits: Floats, top_logprobs: int | None, finish: Literal["stop", "length"] | None) -> Token:
    if top_logprobs is None:
        return Token(chosen, finish=finish)
    log_probabilities = log_softmax(logits)
    return Token(chosen, float(log_probabilities[chosen]), top(log_probabilities, top_logprobs), finish)


def _lowest(dtype: np.dtype[np.generic]) -> np.generic:
    """The mask value of a graph dtype: its lowest finite number, never -inf (NaN on NeuronCores)."""
    lowest: np.generic = ml_dtypes.finfo(dtype).min  # type: ignore[no-untyped-call]
    return lowest
