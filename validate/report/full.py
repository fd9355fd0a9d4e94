"""The figures at full size, which are measured apart (`--full FILE`): value, what was demanded, whether it stands."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ledger.digest import parse_json
from ledger.errors import BadInput
from validate.bench.full.figures import ACCEPTED
from validate.report.plots import Figure, Speeds, bound, context_panels

# For a file whose thresholds do not say it themselves.
_MEANING = {key: one.meaning for key, one in ACCEPTED.items()}
_SENSE = {">=": "at least", "<=": "at most"}


@dataclass(frozen=True)
class Line:
    """One figure beside its threshold; `stands` is None where one of the two is missing."""

    key: str
    meaning: str
    value: float | None
    accepted: str
    stands: bool | None


@dataclass(frozen=True)
class Full:
    """The section: its table and, where contexts were measured, its figure."""

    lines: tuple[Line, ...]
    figures: tuple[Figure, ...]


def read(path: Path) -> Full:
    """The section made from a summary of full-size figures; BadInput names the file and the key that is wrong."""
    try:
        data = parse_json(path.read_bytes(), f"--full {path}")
    except OSError as error:
        raise BadInput(f"--full {path} cannot be read: {error.strerror}; accepted: a readable file") from None
    if not isinstance(data, dict):
        raise BadInput(f"--full {path} holds a {type(data).__name__}; accepted: an object with figures by key")
    thresholds = data.get("thresholds") or {}
    if not isinstance(thresholds, dict):
        raise BadInput(f"--full {path}: thresholds is {thresholds!r}; accepted: an object with figures by key")
    keys = [key for key in dict.fromkeys((*_MEANING, *thresholds)) if key in thresholds or data.get(key) is not None]
    if not keys:
        raise BadInput(f"--full {path}: found none of the figures; accepted: at least one of {', '.join(_MEANING)}")
    if not isinstance(data.get("contexts") or [], list):
        raise BadInput(f"--full {path}: contexts is {data['contexts']!r}; accepted: a list of objects with tokens")
    lines = tuple(_line(path, key, data.get(key), thresholds.get(key)) for key in keys)
    return Full(lines, _figures(path, data))


def _figures(path: Path, data: Mapping[str, Any]) -> tuple[Figure, ...]:
    known = {key: _number(path, key, data[key]) for key in ("read_gb_s", "step_bytes") if data.get(key) is not None}
    try:
        points = [
            tuple((float(one["tokens"]), float(one[key])) for one in data.get("contexts") or () if one.get(key))
            for key in ("decode_tok_s", "transformers_decode_tok_s")
        ]
    except (KeyError, TypeError, ValueError, AttributeError):
        accepted = "a list of objects with tokens and decode_tok_s"
        raise BadInput(f"--full {path}: contexts are not as expected; accepted: {accepted}") from None
    ours, theirs = points
    panel = Speeds("Decode against context", ours, theirs, bound(known, known))
    return tuple(context_panels("full", [panel])) if ours else ()


def _line(path: Path, key: str, found: Any, threshold: Any) -> Line:
    value = None if found is None else _number(path, key, found)
    if threshold is None:
        return Line(key, _MEANING[key], value, "", None)
    if not isinstance(threshold, dict) or str(threshold.get("sense")) not in _SENSE:
        accepted = '{"accepted": N, "sense": ">=" or "<="}'
        raise BadInput(f"--full {path}: thresholds.{key} is {threshold!r}; accepted: {accepted}")
    limit = _number(path, f"thresholds.{key}.accepted", threshold.get("accepted"))
    stands = None if value is None else value >= limit if threshold["sense"] == ">=" else value <= limit
    meaning = str(threshold.get("meaning", _MEANING.get(key, key)))
    return Line(key, meaning, value, f"{_SENSE[threshold['sense']]} {limit:g}", stands)


def _number(path: Path, key: str, value: Any) -> float:
    # Compared, as an integer may be too large to be asked whether it is finite.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= sys.float_info.max:
        raise BadInput(f"--full {path}: {key} is {value!r}; accepted: a number")
    return float(value)
