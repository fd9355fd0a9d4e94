"""Digests of files and of JSON values, and the parser that goes with them.

Canonical JSON here is not RFC 8785: what is not ASCII is escaped and floats are spelt as Python spells
them. Keys that are not text are refused, so that a value and the same value read back from a receipt have
one digest.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

from ledger.errors import BadInput

_LONGEST = 40
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")  # most files have no surrogates to look at


def sha256_file(path: Path) -> str:
    """Hex sha256 of a file's content; OSError if it cannot be read."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_bytes(data: bytes) -> str:
    """Hex sha256 of `data`."""
    return hashlib.sha256(data).hexdigest()


def canonical_json(obj: Any) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, ASCII.

    Raises TypeError for what JSON cannot hold and for keys that are not text, ValueError for NaN and
    infinity.
    """
    _refuse_other_keys(obj)
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def digest_json(obj: Any) -> str:
    """Hex sha256 of `canonical_json(obj)`."""
    return sha256_bytes(canonical_json(obj))


def parse_json(data: bytes, origin: str) -> Any:
    """Parse JSON found in `origin`; BadInput names it for damage, and for what `canonical_json` or UTF-8 cannot hold.

    That is NaN, numbers beyond a float (1e999) and halves of surrogate pairs; keys that come twice are refused too.
    """
    try:
        text = data.decode("utf-8-sig")
        value = json.loads(text, object_pairs_hook=_no_repeats, parse_constant=_no_constant, parse_float=_finite)
        if _ESCAPED.search(text):
            _refuse_halves(value)
        return value
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{origin} is not readable as JSON: {error}; accepted: valid JSON in UTF-8") from None


def _refuse_other_keys(obj: Any) -> None:
    # json.dumps would write the key 9 as "9" but sort it as a number: another digest once it is read back.
    if isinstance(obj, dict):
        for key, value in obj.items():
            if not isinstance(key, str):
                raise TypeError(f"the key {key!r} is {type(key).__name__}; accepted: str")
            _refuse_other_keys(value)
    elif isinstance(obj, (list, tuple)):
        for value in obj:
            _refuse_other_keys(value)


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"key {key!r} comes twice in one object")
        found[key] = value
    return found


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:_LONGEST]} is beyond what a number can be")
    return value


def _refuse_halves(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise ValueError(f"{half} is half of a surrogate pair, and no character") from None


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON number")
