"""Templates that are none: whatever they raise is one sentence when the checkpoint is fetched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger.errors import BadInput
from recipes.chat_template import check_rendering, compiled

SHIPPED = Path(__file__).parents[2] / "recipes/tiny/chat_template.jinja"


def check(source: bytes) -> None:
    check_rendering(compiled(source, "x.jinja"), "x.jinja")


def test_the_shipped_template_renders() -> None:
    check(SHIPPED.read_bytes())
    check(b"{{ bos_token + messages[0]['content'] + eos_token }}")


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (b"\xff", "x.jinja does not compile (UnicodeDecodeError: "),
        (b"{% for m in messages %}", "x.jinja does not compile (Unexpected end of template."),
        (b"{{ " + b"(" * 5000, "x.jinja does not compile (RecursionError: "),
        (b"{{ 1 // 0 }}", "x.jinja cannot render a plain turn (ZeroDivisionError: "),
        (b"{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "x.jinja cannot render a plain turn (RecursionError: "),
        (b"{{ raise_exception('not\nnow') }}", "x.jinja cannot render a plain turn (not now)"),
        (b"{{ ''.__class__.__mro__ }}", "x.jinja cannot render a plain turn (access to attribute '__class__'"),
        (b"{{ messages.append(1) }}", "x.jinja cannot render a plain turn ("),
        (b"{{ bos_token }}", "x.jinja renders a plain turn without its text"),
    ],
    ids=lambda value: value[:24].decode("latin-1") if isinstance(value, bytes) else "",
)
def test_a_template_that_is_none_is_one_sentence(source: bytes, sentence: str) -> None:
    with pytest.raises(
        BadInput, match=rf"^{re.escape(sentence)}[^\n]*; accepted: a Jinja chat template[^\n]*$"
    ) as caught:
        check(source)
    assert "\n" not in str(caught.value)
