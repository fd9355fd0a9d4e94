"""The error type of the foundry and how a pydantic error becomes one sentence.

Every FoundryError renders itself: `str(error)` is the sentence a person reads, `exit_code` is for scripts.
Departs from the usual pydantic report (one block per error, with type names and links): one sentence that
names the file, the key as it is written there, the value found and what is accepted.
"""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError
    from pydantic_core import ErrorDetails

_LONGEST_VALUE = 80
# What pydantic says around the part that tells what is accepted.
_FRAME = r"^(Input should be|\w+ should have) | after validation, not \d+$"


class FoundryError(Exception):
    """An error that a person can act on; `str()` is one sentence."""

    exit_code: int = 2


class BadInput(FoundryError):  # noqa: N818  (it says what is wrong, and an exit code is no error name)
    """A file, key or flag is not what is accepted."""

    exit_code = 2


class GateFailed(FoundryError):  # noqa: N818  (a verdict)
    """The inputs are fine and what was built from them is not good enough."""

    exit_code = 1


def run_cli(main: Callable[[], int | None]) -> NoReturn:
    """Run `main` and exit with its code; a FoundryError or an OSError becomes `error: <sentence>` on stderr.

    A file that cannot be read or written (a full disk, a folder without permission) is for a person to mend, as bad
    input is: exit code 2. Ctrl-C is no fault, and ends with one line as well: exit code 130. Every other exception is
    a bug and propagates.
    """
    try:
        code = main() or 0
    except Exception as error:
        if _interrupted(error):
            code = _told("ended by SIGINT", _SIGINT)
        elif isinstance(error, FoundryError):
            code = _told(str(error), error.exit_code)
        elif isinstance(error, OSError):
            code = _told(_reason(error), BadInput.exit_code)
        else:
            raise
    except KeyboardInterrupt:
        code = _told("ended by SIGINT", _SIGINT)
    # What libraries do at exit may take a while; from here on Ctrl-C ends that without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


_SIGINT = 128 + signal.SIGINT


def _told(sentence: str, code: int) -> int:
    sys.stderr.write(f"error: {sentence}\n")
    return code


def _interrupted(error: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an exception: an extension that it stops in its import says that this failed."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if _interrupted(error):
        sys.exit(_told("ended by SIGINT", _SIGINT))
    _usual(kind, error, trace)


# Ctrl-C while a command is still being imported, before `run_cli`. Python takes a SystemExit from here as its own.
_usual, sys.excepthook = sys.excepthook, _uncaught


def _reason(error: OSError) -> str:
    if error.filename is not None and error.strerror:
        return f"{os.fsdecode(error.filename)}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__


def explain(error: ValidationError, origin: str, model: type[BaseModel] | None = None) -> str:
    """One sentence for `error`, found in `origin` (a file or a flag).

    With `model`, the model that refused, an unknown key is answered with the known ones, and the tags that
    pydantic adds to a location inside a discriminated union are left out, as they are no keys of the file.

    A ValueError of our own validators is used as it is, behind the location. It reads `found 900; accepted:
    ...` in a validator of one field, `kv_bucket: found 900; accepted: ...` in one of the model around it.
    """
    # A misspelt key is reported twice, as missing and as unknown, and only the second says what to change.
    found = sorted(error.errors(include_url=False), key=lambda one: one["type"] != "extra_forbidden")
    sentence = _sentence(found[0], origin, model.model_json_schema() if model else {})
    return f"{sentence} (and {len(found) - 1} more)" if len(found) > 1 else sentence


def _sentence(one: ErrorDetails, origin: str, schema: dict[str, Any]) -> str:
    context = one.get("ctx", {})
    keys, parent, here = _walk(one["loc"], schema)
    value = f"is {_shown(one['input'])}"
    if one["loc"][-1:] == ("[key]",):
        keys, value = keys[:-1], f"has the key {_shown(one['input'])}"
    match one["type"]:
        case "value_error":
            return _own(origin, keys, str(context["error"]))
        case "missing":
            value, accepted = "is missing", "a value, as it has no default"
        case "extra_forbidden":
            known = ", ".join(parent.get("properties", ())) or "the keys of the schema"
            value, accepted = "is not a known key", known
        case "literal_error" | "enum":
            accepted = context["expected"]
        case "string_pattern_mismatch":
            accepted = f"text that matches {context['pattern']}"
        case "model_type" | "dict_type":
            accepted = "a mapping"
        case "union_tag_invalid":
            keys, value = [*keys, _unquoted(context)], f"is {context['tag']!r}"
            accepted = context["expected_tags"]
        case "union_tag_not_found":
            keys, value = [*keys, _unquoted(context)], "is missing"
            accepted = ", ".join(map(repr, _tags(here))) or "the tag that tells what this entry is"
        case _:
            accepted = re.sub(_FRAME, "", one["msg"])
    return f"{_place(origin, keys)} {value}; accepted: {accepted}"


def _own(origin: str, keys: list[str], message: str) -> str:
    key, colon, rest = message.partition(": ")
    if colon and re.fullmatch(r"[\w.-]+", key):
        keys, message = [*keys, key], rest
    place = _place(origin, keys)
    return f"{place} is {message[6:]}" if message.startswith("found ") else f"{place}: {message}"


def _walk(loc: tuple[str | int, ...], schema: dict[str, Any]) -> tuple[list[str], dict[str, Any], dict[str, Any]]:
    """The keys of `loc` as the file has them, the JSON schema of what holds the last one, and its own."""
    keys: list[str] = []
    here = parent = schema
    for part in loc:
        if part in _tags(here):
            here = _resolved({"$ref": _tags(here)[part]}, schema)
            continue
        if part == "[key]":
            continue
        keys.append(str(part))
        parent = here
        inner = here.get("items") if isinstance(part, int) else here.get("properties", {}).get(part)
        here = _resolved(inner or _free(here), schema)
    return keys, parent, here


def _tags(node: dict[str, Any]) -> dict[str | int, str]:
    """The reference of each member of a discriminated union, by tag."""
    return dict(node.get("discriminator", {}).get("mapping", {}))


def _free(node: dict[str, Any]) -> dict[str, Any]:
    """The schema of the values of a dictionary whose keys are free or match a pattern."""
    values: Any = node.get("additionalProperties") or next(iter(node.get("patternProperties", {}).values()), {})
    return values if isinstance(values, dict) else {}


def _resolved(node: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """`node` with a reference followed and `X | None` seen as X."""
    options = [option for option in node.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        node = options[0]
    if "$ref" in node:
        name = node["$ref"].removeprefix("#/$defs/")
        return dict(schema.get("$defs", {}).get(name, {}))
    return node


def _place(origin: str, keys: list[str]) -> str:
    return f"{origin}: {'.'.join(keys)}" if keys else origin


def _unquoted(context: Mapping[str, Any]) -> str:
    return str(context["discriminator"]).strip("'")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
