"""Channels on scripted answers, marker by marker and piece by piece."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.text.channels import Channels, new_call_id
from serve.text.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStart
from tests.serve.text.cases import examples

MARKER = re.compile(r'(<\|channel>|<channel\|>|<\|tool_call>|<tool_call\|>|<\|"\|>|<turn\|>)')


def read(answer: str, *, tools: tuple[str, ...] = ("f",), in_thought: bool = False, size: int = 0) -> list[Event]:
    """The events of `answer`, its text in pieces of `size` characters (0: as long as they are), merged again."""
    channels = Channels(tools, in_thought=in_thought, new_id=lambda: "id")
    events: list[Event] = []
    for part in MARKER.split(answer):
        if MARKER.fullmatch(part):
            events += channels.marker(part) if channels.heeds(part) else []
            continue
        step = size or max(1, len(part))
        for start in range(0, len(part), step):
            events += channels.text(part[start : start + step])
    return merged([*events, *channels.finish()])


def merged(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Content) and isinstance(last, Content):
            out[-1] = Content(last.text + event.text)
        elif isinstance(event, Reasoning) and isinstance(last, Reasoning):
            out[-1] = Reasoning(last.text + event.text)
        else:
            out.append(event)
    return out


def call(arguments: str, index: int = 0, name: str = "f") -> list[Event]:
    return [ToolCallStart(index, "id", name), ToolCallArguments(index, arguments)]


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    ("answer", "events"),
    [
        ("plain", [Content("plain")]),
        ("", []),
        ("<|channel>thought\nhm\n\nso\n<channel|>yes<turn|>", [Reasoning("hm\n\nso"), Content("yes")]),
        ("<|channel>thought\n<channel|>yes", [Content("yes")]),
        ("<|channel>thought<channel|>yes", [Content("yes")]),
        ("<|channel>thoughtful\n\n<channel|>yes", [Reasoning("thoughtful\n"), Content("yes")]),
        ("<|channel>thought\n\n\n<channel|>yes", [Reasoning("\n"), Content("yes")]),
        ("<|channel>thought\ncut\n", [Reasoning("cut")]),
        ("<|channel>tho", []),
        ("a<|channel>thought\nb<|channel>thought\nc<channel|>d", [Content("a"), Reasoning("bc"), Content("d")]),
        ("yes<channel|>no", [Content("yesno")]),
        (
            '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|><|tool_call>call:g{}<tool_call|>',
            [*call('{"a": "x"}'), *call("{}", 1, "g")],
        ),
        (
            "<|channel>thought\nhm\n<|tool_call>call:f{a:1}<tool_call|>",
            [Reasoning("hm"), *call('{"a": 1}')],
        ),
        ("so: <|tool_call>call:f{}<tool_call|> done", [Content("so: "), *call("{}"), Content(" done")]),
        ("<|tool_call>call:f{a:1}", call('{"a": 1}')),
        ("<|tool_call>call:f{a:1}<|tool_call>call:f{a:2}<tool_call|>", [*call('{"a": 1}'), *call('{"a": 2}', 1)]),
        ("<|tool_call>call:f{a:1}<|channel>thought\nb<channel|>", [*call('{"a": 1}'), Reasoning("b")]),
        (
            '<|tool_call>call:f{a:<|"|><|tool_call><turn|><channel|>}<tool_call|><|"|>}<tool_call|>',
            call('{"a": "<|tool_call><turn|><channel|>}<tool_call|>"}'),
        ),
    ],
)
def test_scripted_answers(answer: str, events: list[Event], size: int) -> None:
    assert read(answer, size=size) == events


@pytest.mark.parametrize("size", [0, 1, 3])
@pytest.mark.parametrize(
    "answer",
    [
        '<|tool_call>call:f{a:<|"|>x',
        '<|tool_call>call:f{a:<|"|>x}<tool_call|>',
        "<|tool_call>",
        "<|tool_call><tool_call|>",
        "<|tool_call>call:f(a=1)<tool_call|>and more",
        "<|tool_call>call:f{a<turn|>}<tool_call|>",
        "<|tool_call>call:f{a:1<|tool_call>call:f{a<tool_call|>",
        '<|"|>quoted<|"|>',
        "<tool_call|>",
        "call:f",
        "call:f{a:1} is how it is written",
        "call:other{a:1}",
        "to call:f{a:1}",
    ],
)
def test_what_is_no_call_is_content_with_its_markers(answer: str, size: int) -> None:
    assert read(answer, size=size) == [Content(answer)]


@pytest.mark.parametrize("size", [0, 1, 3])
def test_a_call_may_lack_its_marker_after_the_thoughts(size: int) -> None:
    answer = '<|channel>thought\nhm\n<channel|>call:f{a:<|"|>x<|"|>}<tool_call|>'
    assert read(answer, size=size) == [Reasoning("hm"), *call('{"a": "x"}')]
    assert read("\ncall:f{a:1}", size=size) == [Content("\n"), *call('{"a": 1}')]
    assert read("<channel|>call:f{}call:f{b:2}", size=size) == [*call("{}"), *call('{"b": 2}', 1)]


def test_without_tools_a_call_is_content_at_once() -> None:
    channels = Channels()
    assert channels.marker("<|tool_call>") == [Content("<|tool_call>")]
    assert channels.text("call:f{") == [Content("call:f{")]
    answer = '<|tool_call>call:f{a:<|"|>x<|"|>}<tool_call|>'
    assert read(answer, tools=()) == [Content(answer)]
    assert read("call:f{}", tools=()) == [Content("call:f{}")]


@pytest.mark.parametrize("label", ["", "thought\n", "<|channel>thought\n"])
def test_an_answer_may_begin_inside_the_thoughts(label: str) -> None:
    assert read(f"{label}hm\n<channel|>yes", in_thought=True) == [Reasoning("hm"), Content("yes")]


def test_text_is_held_no_longer_than_its_meaning_is_open() -> None:
    channels = Channels(["f"])
    assert channels.text(" ") == [Content(" ")]
    assert channels.text("cal") == []
    assert channels.text("m") == [Content("calm")]
    assert channels.text("call:f{") == [Content("call:f{")]
    assert channels.marker("<|channel>") == []
    assert channels.text("though") == []
    assert channels.text("ts\n") == [Reasoning("thoughts")]
    assert channels.text("more") == [Reasoning("\nmore")]


def test_ids_of_calls_differ_and_have_the_usual_form() -> None:
    ids = {new_call_id() for _ in range(100)}
    assert len(ids) == 100
    assert all(re.fullmatch(r"call_[0-9a-f]{24}", id_) for id_ in ids)


@examples(200, 1000)
def test_a_block_is_a_call_or_content_and_never_both_or_neither(count: int) -> None:
    pieces = (
        "call:f",
        "call:",
        "f",
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        '<|"|>',
        '"',
        "a",
        "1",
        "-",
        " ",
        "\n",
        "null",
        "<turn|>",
    )

    @settings(max_examples=count)
    @given(st.lists(st.sampled_from(pieces), max_size=14).map("".join), st.booleans())
    def law(body: str, closed: bool) -> None:
        answer = f"<|tool_call>call:f{{{body}" + ("}<tool_call|>" if closed else "")
        events = read(answer)
        if events != [Content(answer)]:
            starts, arguments = events[::2], events[1::2]
            for index, (start, fragment) in enumerate(zip(starts, arguments, strict=True)):
                assert isinstance(start, ToolCallStart)
                assert isinstance(fragment, ToolCallArguments)
                assert (start.index, fragment.index) == (index, index)
                assert isinstance(json.loads(fragment.fragment), dict)

    law()
