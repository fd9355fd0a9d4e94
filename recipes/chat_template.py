"""The chat template of a checkpoint: the environment it is written for, and whether it is one at all.

Departs from transformers, which meets a broken template on the first request: here it is compiled and answers
one plain turn when the checkpoint is fetched. A template is a program of somebody else's, so whatever it
raises is one sentence.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import NoReturn

from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from ledger.errors import BadInput

_ACCEPTED = "accepted: a Jinja chat template in UTF-8 that renders a user's turn"
_TOKENS = {f"{name}_token": f"<{name}>" for name in ("bos", "eos", "pad", "unk", "mask")}
_TURN = ({"role": "user", "content": "hello world"},)


def compiled(source: bytes, origin: str) -> Template:
    """The template whose text is `source`; BadInput that names `origin` if it is not UTF-8 or does not compile."""
    try:
        return environment().from_string(source.decode())
    except Exception as error:  # nothing narrower: a compiler of foreign text may also run out of stack
        raise BadInput(f"{origin} does not compile ({reason(error)}); {_ACCEPTED}") from None


def check_rendering(template: Template, origin: str) -> None:
    """BadInput that names `origin` if `template` cannot render one plain turn of a user."""
    try:
        text = template.render(**_TOKENS, messages=list(_TURN), tools=None, documents=None, add_generation_prompt=True)
    except Exception as error:  # nothing narrower: the template's expressions are a program
        raise BadInput(f"{origin} cannot render a plain turn ({reason(error)}); {_ACCEPTED}") from None
    if _TURN[0]["content"] not in text:
        raise BadInput(f"{origin} renders a plain turn without its text; {_ACCEPTED}")


def environment() -> ImmutableSandboxedEnvironment:
    """The environment that published templates are written for: transformers' chat template utilities set it up so."""
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    made.globals["raise_exception"] = _refuse
    made.globals["strftime_now"] = lambda form: datetime.now(UTC).strftime(form)
    made.filters["tojson"] = lambda value, indent=None: json.dumps(value, ensure_ascii=False, indent=indent)
    return made


def reason(error: Exception) -> str:
    """What an exception says, in one line that begins with its kind where that tells more than the words."""
    words = " ".join(str(error).split())
    return words if isinstance(error, TemplateError) and words else f"{type(error).__name__}: {words}".rstrip(": ")


def _refuse(message: str) -> NoReturn:
    raise TemplateError(message)
