"""Rendering against transformers' `apply_chat_template` on the same files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from transformers import PreTrainedTokenizerFast

from serve.errors import ServeError
from serve.text.template import ChatTemplate
from serve.text.tokenizer import Text

SYSTEM = {"role": "system", "content": " Be brief. "}
USER = {"role": "user", "content": "What is <a> & é你?"}
PARTS = {"role": "user", "content": [{"type": "text", "text": "one "}, {"type": "text", "text": "two"}]}
ANSWER = {"role": "assistant", "content": "<|channel>thought\nhm\n<channel|>This."}
CALLING = {
    "role": "assistant",
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "f", "arguments": {"b": [1], "a": "é"}}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "fine"}
TOOL = {
    "type": "function",
    "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}},
}

# Uses what templates use: tools, earlier calls, tojson with its options, loop controls, block trimming, all tokens.
RICH = """
{{- bos_token }}{{ eos_token }}{{ pad_token }}{{ unk_token }}{{ mask_token }}{{ soc_token }}
{% for tool in tools or [] %}
    <|tool>{{ tool | tojson(indent=2, sort_keys=True) }}<tool|>
{% endfor %}
{% for message in messages %}
    {% if message.role == 'system' %}{% continue %}{% endif %}
    {{- message | tojson }}{{ message.tool_calls is defined }}{{ message.content is defined }}
    {% for call in message.tool_calls or [] %}
        {% for key, value in call.function.arguments | dictsort %}{{ key }}={{ value }};{% endfor %}
    {% endfor %}
{% endfor %}
{{ strftime_now('%Y') | length }} {{ documents is none }} {{ tools is none }} {{ enable_thinking }}
{% if add_generation_prompt %}<|turn>model
{% endif %}
"""


def reference(folder: Path, messages: list[dict[str, Any]], source: str | None = None, **options: Any) -> str:
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    return str(tokenizer.apply_chat_template(messages, chat_template=source, tokenize=False, **options))


@pytest.mark.parametrize("thinking", [False, True])
@pytest.mark.parametrize("messages", [[USER], [SYSTEM, USER], [PARTS], [USER, ANSWER, USER]])
def test_the_checkpoints_template_renders_as_in_transformers(
    folder: Path, text: Text, messages: list[dict[str, Any]], thinking: bool
) -> None:
    expected = reference(folder, messages, add_generation_prompt=True, enable_thinking=thinking)
    assert text.render(messages, enable_thinking=thinking) == expected
    assert text.encode(expected, add_special=False)[0] == 2


@pytest.mark.parametrize("prompt", [False, True])
@pytest.mark.parametrize("tools", [None, [TOOL]])
@pytest.mark.parametrize("messages", [[SYSTEM, USER, CALLING, RESULT], [PARTS, ANSWER]])
def test_tools_and_what_templates_use_are_as_in_transformers(
    folder: Path, tmp_path: Path, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None, prompt: bool
) -> None:
    expected = reference(folder, messages, RICH, tools=tools, add_generation_prompt=prompt, enable_thinking=False)
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "chat_template.jinja").write_text(RICH)
    text = Text.from_files(copy / "tokenizer.json", copy / "tokenizer_config.json", copy / "chat_template.jinja")
    assert text.render(messages, tools, add_generation_prompt=prompt) == expected


def test_arguments_in_a_request_are_text_and_in_a_template_an_object() -> None:
    template = ChatTemplate("{{ messages[0].tool_calls[0].function.arguments.a }}", {}, "x.jinja")
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": '{"a": [1, "é"]}'}}
    assert template.render([{"role": "assistant", "content": None, "tool_calls": [call]}]) == "[1, 'é']"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ raise_exception('roles must\nalternate') }}", "roles must alternate"),
        ("{{ 1 // 0 }}", "ZeroDivisionError: "),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "RecursionError: "),
        ("{{ ''.__class__.__mro__ }}", "access to attribute '__class__'"),
        ("{{ messages.append(1) }}", ""),
        ("{{ messages[0].content.nothing.at.all }}", "'str object' has no attribute 'nothing'"),
    ],
)
def test_what_a_template_raises_is_one_sentence(source: str, reason: str) -> None:
    with pytest.raises(ServeError) as caught:
        ChatTemplate(source, {}, "x.jinja").render([USER])
    assert str(caught.value).startswith(f"messages: the chat template refuses them ({reason}")
    assert str(caught.value).endswith("; turns it was written for are accepted")
    assert "\n" not in str(caught.value)


def test_a_template_that_does_not_compile_is_named() -> None:
    with pytest.raises(ServeError, match=r"^x\.jinja does not compile \(Unexpected end of template\..*\); a Jinja .*$"):
        ChatTemplate("{% for m in messages %}", {}, "x.jinja")
    with pytest.raises(ServeError, match=r"^x\.jinja does not compile \(RecursionError.*\); a Jinja .*$"):
        ChatTemplate("{{ " + "(" * 5000, {}, "x.jinja")
