"""A chat request's messages in the shape that chat templates are written for.

Departs from the request in two ways: the arguments of an earlier tool call, JSON text there, are an object here (a
template iterates over them), and a content of null is left out. Everything else reaches the template as it came.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from serve.errors import ServeError

Message = Mapping[str, Any]


def template_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """ServeError that names the place when there is no message, content is not text, or arguments are no object."""
    if not messages:
        raise ServeError("messages is empty; at least one message is accepted")
    return [_message(message, f"messages[{index}]") for index, message in enumerate(messages)]


def _message(message: Message, place: str) -> dict[str, Any]:
    made = dict(message)
    _check_content(message.get("content"), f"{place}.content")
    if made.get("content") is None:
        made.pop("content", None)
    calls = message.get("tool_calls")
    if calls:
        made["tool_calls"] = [_call(call, f"{place}.tool_calls[{index}]") for index, call in enumerate(calls)]
    else:
        made.pop("tool_calls", None)
    return made


def _check_content(content: Any, place: str) -> None:
    if content is None or isinstance(content, str):
        return
    if not isinstance(content, list):
        raise ServeError(f"{place} is {_kind(content)}; a string or a list of text parts is accepted")
    for index, part in enumerate(content):
        kind = part.get("type") if isinstance(part, Mapping) else _kind(part)
        if kind != "text":
            raise ServeError(f"{place}[{index}] is of type {kind}; parts of type text are accepted, no images or audio")
        if not isinstance(part.get("text"), str):
            raise ServeError(f"{place}[{index}].text is {_kind(part.get('text'))}; a string is accepted")


def _call(call: Any, place: str) -> dict[str, Any]:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
        raise ServeError(f"{place} has no function with a name; a function call is accepted")
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"), place)}}


def _arguments(arguments: Any, place: str) -> dict[str, Any]:
    found = arguments
    if isinstance(arguments, str):
        try:
            # Clients send no text at all for a call without arguments.
            found = json.loads(arguments) if arguments.strip() else {}
        except (ValueError, RecursionError):
            found = "text that is not JSON"
    if not isinstance(found, dict):
        shown = found if found == "text that is not JSON" else _kind(found)
        raise ServeError(f"{place}.function.arguments is {shown}; the JSON text of an object is accepted")
    return found


def _kind(value: Any) -> str:
    """What JSON calls the kind of `value`."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number" if isinstance(value, int | float) else type(value).__name__)
