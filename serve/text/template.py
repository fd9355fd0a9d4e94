"""The checkpoint's chat template, in the environment that transformers gives to chat templates.

A template is somebody else's program and messages are a stranger's data: it runs in jinja2's immutable sandbox, and
whatever it raises is one sentence.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from jinja2 import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from serve.errors import ServeError
from serve.text.messages import Message, template_messages


class ChatTemplate:
    """A compiled template and the special tokens it may name."""

    def __init__(self, source: str, tokens: Mapping[str, str], origin: str) -> None:
        """`tokens` maps names such as bos_token to text; ServeError that names `origin` if it does not compile."""
        self._tokens = dict(tokens)
        try:
            self._template = _environment().from_string(source)
        except Exception as error:  # nothing narrower: a compiler of foreign text may also run out of stack
            raise ServeError(
                f"{origin} does not compile ({_reason(error)}); a Jinja chat template is accepted"
            ) from None

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        enable_thinking: bool = False,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt of a chat; ServeError when the messages cannot be read or the template refuses them."""
        readable = template_messages(messages)
        try:
            return self._template.render(
                **self._tokens,
                messages=readable,
                tools=[dict(tool) for tool in tools] if tools else None,
                documents=None,
                enable_thinking=enable_thinking,
                add_generation_prompt=add_generation_prompt,
            )
        except Exception as error:  # nothing narrower: the template's expressions are a program
            raise ServeError(
                f"messages: the chat template refuses them ({_reason(error)}); turns it was written for are accepted"
            ) from None


def _environment() -> ImmutableSandboxedEnvironment:
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now().strftime(form)  # local time, as in transformers
    made.filters["tojson"] = _tojson
    return made


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """jinja2's own filter escapes HTML; prompts want the characters themselves."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)


def _reason(error: Exception) -> str:
    """What an exception says, in one line that begins with its kind where that tells more than the words."""
    words = " ".join(str(error).split())
    return words if isinstance(error, TemplateError) and words else f"{type(error).__name__}: {words}".rstrip(": ")
