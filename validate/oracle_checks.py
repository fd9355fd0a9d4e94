"""What the oracle must show before it may judge: it agrees with itself and with public numbers, and is not flat.

Cached and cache-free forward of this model family have disagreed in a released transformers (issue 45242, 5.5.0: keys
and values were shared through the cache, so that the path without one computed its own), and a port that takes such
an oracle passes its own gate. A flat oracle, whose best two logits nearly tie everywhere, cannot tell a fault from
rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Protocol

from ledger.errors import BadInput
from validate.records import Answer

NEAR_TIE = 1e-4
"""Logits: two orders of the same float32 sums may choose differently where the gap is smaller."""
FLAT_MEDIAN_GAP = 0.05
"""Logits: under this median gap an oracle proves nothing."""
REFERENCE_TOLERANCE = 2e-2
"""Logits: how far ours may be from published ones, which were made by other kernels on another machine."""
MONOTONE_SHARE = 0.8
"""An oracle that answers everything with one token agrees with many a broken build."""
ENOUGH_TOKENS = 512
"""Fewer tokens than these, as of a person's own few prompts, may well be the same."""
LOOP_TOKENS, LOOP_PERIOD = 32, 8


class Forced(Protocol):
    """Choices of a forward without a cache."""

    @property
    def tokens(self) -> list[int]: ...

    @property
    def tops(self) -> list[float]: ...


class Model(Protocol):
    """The part of OracleModel that is checked."""

    def forced(self, ids: Sequence[int], *, start: int = 0) -> Forced: ...

    def last_logits(self, ids: Sequence[int]) -> Any: ...


def self_check(model: Model, answers: Iterable[Answer]) -> tuple[dict[str, Any], list[str]]:
    """Compare every answer with one cache-free forward over the finished sequence.

    Gives facts and the sentences of what failed. Positions with a gap under NEAR_TIE may differ and are counted.
    """
    positions = near_ties = 0
    largest = 0.0
    failed = []
    for answer in answers:
        again = model.forced([*answer.ids, *answer.tokens[:-1]], start=len(answer.ids) - 1)
        rows = zip(answer.tokens, again.tokens, answer.gaps, answer.tops, again.tops, strict=True)
        for position, (token, other, gap, top, other_top) in enumerate(rows):
            positions += 1
            largest = max(largest, abs(top - other_top))
            if token == other:
                continue
            if gap < NEAR_TIE:
                near_ties += 1
            else:
                failed.append(
                    f"oracle self-check: prompt {answer.name}, position {position}: generate chose {token}, "
                    f"a forward without cache {other}, gap {gap:.6f}"
                )
    facts = {"positions": positions, "near_ties": near_ties, "max_logit_difference": round(largest, 6)}
    return facts | {"failures": len(failed)}, failed


def quality(answers: Sequence[Answer]) -> tuple[dict[str, Any], list[str]]:
    """Gaps in logits, and how varied the answers are; failed if the oracle is flat or says one thing to everything."""
    gaps = sorted(gap for answer in answers for gap in answer.gaps)
    tokens = Counter(token for answer in answers for token in answer.tokens)
    commonest = max(tokens.values()) / len(gaps)
    facts = {
        "tokens": len(gaps),
        "distinct_tokens": len(tokens),
        "commonest_share": round(commonest, 4),
        "median_gap": round(median(gaps), 6),
        "min_gap": gaps[0],
        "looping_share": round(sum(loops(answer.tokens) for answer in answers) / len(answers), 4),
    }
    failed = []
    if facts["median_gap"] < FLAT_MEDIAN_GAP:
        failed.append(f"oracle is flat: median gap {median(gaps):.6f} logits; accepted: {FLAT_MEDIAN_GAP} or more")
    if len(gaps) >= ENOUGH_TOKENS and commonest > MONOTONE_SHARE:
        failed.append(
            f"oracle is monotone: one token makes {commonest:.0%} of its answers; "
            f"accepted: {MONOTONE_SHARE:.0%} at most"
        )
    return facts, failed


def loops(tokens: Sequence[int]) -> bool:
    """Whether the last 32 tokens repeat with a period of at most 8; a shorter answer does not loop."""
    tail = list(tokens[-LOOP_TOKENS:])
    return len(tail) == LOOP_TOKENS and any(tail[p:] == tail[:-p] for p in range(1, LOOP_PERIOD + 1))


def reproduce(model: Model, reference: Mapping[str, Any], *, bos: int) -> tuple[dict[str, Any], list[str]]:
    """Compare the model with published vectors (the form of config/reference).

    The published logits must be ours, id by id and in descending order, within REFERENCE_TOLERANCE, and the greedy
    ids equal. Raises BadInput when the reference lacks a key.
    """
    failed: list[str] = []
    try:
        for case in reference["cases"]:
            failed += _case(model, case, _ids(reference["base_ids"], case["length"], bos))
        cases = len(reference["cases"])
    except KeyError as error:
        raise BadInput(
            f"reference: key {error} is missing; accepted: base_ids and cases, as in config/reference"
        ) from None
    return {"cases": cases, "failures": len(failed), "tolerance": REFERENCE_TOLERANCE}, failed


def _ids(base: Sequence[int], length: int, bos: int) -> list[int]:
    """BOS, then the base ids over and over, `length` in all."""
    return [bos, *(base[n % len(base)] for n in range(length - 1))]


def _case(model: Model, case: Mapping[str, Any], ids: list[int]) -> Iterator[str]:
    logits = model.last_logits(ids)
    count = len(case["top8_ids"])
    ours = sorted(logits.tolist(), reverse=True)[:count]
    rows = zip(case["top8_ids"], case["top8_logits"], ours, strict=True)
    for rank, (token, published, ranked) in enumerate(rows, 1):
        for what, found in (
            (f"logit of id {token}", float(logits[token])),
            (f"logit of rank {rank}", ranked),
        ):
            if not abs(found - published) <= REFERENCE_TOLERANCE:
                yield f"reference case {case['name']}: {what} is {found:.4f}; published: {published}"
    for position, published in enumerate(case["greedy_ids"]):
        found = int(model.last_logits([*ids, *case["greedy_ids"][:position]]).argmax())
        if found != published:
            yield f"reference case {case['name']}: greedy id {position} is {found}; published: {published}"
