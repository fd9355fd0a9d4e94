"""The grammar of Gemma 4's tool calls, and their arguments as JSON text.

    call:NAME{key:<|"|>text<|"|>,count:3,flag:true,none:null,list:[1,2],inner:{key:<|"|>text<|"|>}}

As the official template's `format_argument` writes it: keys bare or between quote tokens, text between quote tokens
and without escapes, numbers and literals bare. What models are known to write instead is accepted where it has one
meaning: text between double quotes as in JSON, bare words as text, white space, a trailing comma, None for null,
several calls in a row. Numbers stay as they are written, so none loses digits.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

QUOTE = "\udc00"  # stands for the quote token: decoded text holds no lone surrogate, so it cannot occur otherwise

_DEPTH = 64
_SPACE = re.compile(r"\s*")
_HEAD = re.compile(r"\s*call:\s*([\w.:/-]+)\s*(?=\{)")
_QUOTED = re.compile(rf"{QUOTE}([^{QUOTE}]*){QUOTE}")
_JSON_STRING = re.compile(rf'"(?:[^"\\{QUOTE}]|\\.)*"', re.DOTALL)
_KEY = re.compile(rf"[^:,{{}}\[\]{QUOTE}]+")
_BARE = re.compile(rf"[^,{{}}\[\]{QUOTE}]+")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?", re.ASCII)
_LITERALS = {"true": "true", "false": "false", "null": "null", "None": "null"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call; `arguments` is the text of a JSON object."""

    name: str
    arguments: str


class _MalformedError(Exception):
    """The text is no call."""


def parse_calls(body: str) -> list[Call] | None:
    """The calls of `body`, which is what stands between the call markers with QUOTE for every quote token.

    None if any of it is malformed: a call that is not understood as a whole must not be made.
    """
    calls: list[Call] = []
    scanner = _Scanner(body)
    try:
        while not calls or not scanner.at_end():
            calls.append(scanner.call())
    except _MalformedError:
        return None
    return calls


class _Scanner:
    """Reads `text` from left to right; each method returns JSON text or raises _MalformedError."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def at_end(self) -> bool:
        self._match(_SPACE)
        return self._at == len(self._text)

    def call(self) -> Call:
        head = self._match(_HEAD)
        if head is None:
            raise _MalformedError
        return Call(head[1], self._object(1))

    def _object(self, depth: int) -> str:
        pairs = self._items("{", "}", depth, self._pair)
        return "{" + ", ".join(pairs) + "}"

    def _array(self, depth: int) -> str:
        return "[" + ", ".join(self._items("[", "]", depth, self._value)) + "]"

    def _items(self, opening: str, closing: str, depth: int, item: Callable[[int], str]) -> list[str]:
        """The items between two brackets, separated by commas."""
        if depth > _DEPTH:
            raise _MalformedError
        self._take(opening)
        items: list[str] = []
        while not self._skip(closing):
            items.append(item(depth))
            if not self._skip(","):
                self._take(closing)
                break
        return items

    def _pair(self, depth: int) -> str:
        key = self._string()
        if key is None:
            bare = self._match(_KEY)
            key = bare[0].strip() if bare else ""
            if not key:
                raise _MalformedError
        self._take(":")
        return f"{_json(key)}: {self._value(depth)}"

    def _value(self, depth: int) -> str:
        if self._peek("{"):
            return self._object(depth + 1)
        if self._peek("["):
            return self._array(depth + 1)
        start = self._at
        text = self._string()
        if text is not None:
            if any(map(self._peek, ",}]")):
                return _json(text)
            self._at = start
        bare = self._match(_BARE)
        word = bare[0].strip() if bare else ""
        if not word:
            raise _MalformedError
        return word if _NUMBER.fullmatch(word) else _LITERALS.get(word) or _json(word)

    def _string(self) -> str | None:
        """Text between quote tokens or double quotes, if that comes next."""
        self._match(_SPACE)
        if (quoted := self._match(_QUOTED)) is not None:
            return quoted[1]
        start = self._at
        if (found := self._match(_JSON_STRING)) is not None:
            try:
                return str(json.loads(found[0], strict=False))
            except ValueError:
                self._at = start
        return None

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self._text, self._at)
        if found is not None:
            self._at = found.end()
        return found

    def _peek(self, character: str) -> bool:
        self._match(_SPACE)
        return self._text.startswith(character, self._at)

    def _skip(self, character: str) -> bool:
        if self._peek(character):
            self._at += 1
            return True
        return False

    def _take(self, character: str) -> None:
        if not self._skip(character):
            raise _MalformedError


def _json(text: str) -> str:
    """`text` as a JSON string that UTF-8 can carry: an escape of half a character stays an escape."""
    plain = json.dumps(text, ensure_ascii=False)
    return json.dumps(text) if re.search("[\ud800-\udfff]", plain) else plain
