"""Messages of a request, good and bad."""

from __future__ import annotations

from typing import Any

import pytest

from serve.errors import ServeError
from serve.text.messages import template_messages

ARGUMENTS = "messages[0].tool_calls[0].function.arguments"


def calling(arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}


def test_messages_reach_the_template_as_they_came() -> None:
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "a", "name": "n"},
        {"role": "assistant", "content": "b", "reasoning_content": "c"},
        {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "d"}]},
    ]
    assert template_messages(messages) == messages


@pytest.mark.parametrize(
    ("arguments", "seen"), [('{"a": 1}', {"a": 1}), ({"a": 1}, {"a": 1}), ("", {}), (" \n", {}), ("{}", {})]
)
def test_arguments_become_an_object(arguments: Any, seen: dict[str, Any]) -> None:
    message = calling(arguments)
    made = template_messages([message])[0]
    assert made["tool_calls"][0]["function"] == {"name": "f", "arguments": seen}
    assert message == calling(arguments), "the request itself is left alone"


def test_null_and_no_calls_are_left_out() -> None:
    assert template_messages([{"role": "assistant", "content": None, "tool_calls": []}]) == [{"role": "assistant"}]
    assert template_messages([{"role": "assistant", "content": "a", "tool_calls": None}]) == [
        {"role": "assistant", "content": "a"}
    ]


@pytest.mark.parametrize(
    ("messages", "sentence"),
    [
        ([], "messages is empty; at least one message is accepted"),
        (
            [{"role": "user", "content": 3}],
            "messages[0].content is a number; a string or a list of text parts is accepted",
        ),
        (
            [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "image_url", "image_url": {}}]}],
            "messages[1].content[0] is of type image_url; parts of type text are accepted, no images or audio",
        ),
        (
            [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "input_audio", "input_audio": {}}]}],
            "messages[0].content[1] is of type input_audio; parts of type text are accepted, no images or audio",
        ),
        (
            [{"role": "user", "content": ["a"]}],
            "messages[0].content[0] is of type a string; parts of type text are accepted, no images or audio",
        ),
        (
            [{"role": "user", "content": [{"type": "text"}]}],
            "messages[0].content[0].text is null; a string is accepted",
        ),
        ([calling("{'a': 1}")], f"{ARGUMENTS} is text that is not JSON; the JSON text of an object is accepted"),
        ([calling("[" * 100_000)], f"{ARGUMENTS} is text that is not JSON; the JSON text of an object is accepted"),
        ([calling("[1]")], f"{ARGUMENTS} is a list; the JSON text of an object is accepted"),
        ([calling(None)], f"{ARGUMENTS} is null; the JSON text of an object is accepted"),
        (
            [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{}"}}]}],
            "messages[0].tool_calls[0] has no function with a name; a function call is accepted",
        ),
    ],
)
def test_what_cannot_be_read_is_one_sentence_that_names_the_place(messages: list[Any], sentence: str) -> None:
    with pytest.raises(ServeError) as caught:
        template_messages(messages)
    assert str(caught.value) == sentence
