"""Whole answers as token ids, against searches in the text that `Tokenizer.decode` makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from serve.text.events import Content, Event, Reasoning, ToolCallArguments, ToolCallStart
from serve.text.reader import Reader, ends_in_thought
from serve.text.tokenizer import Text
from tests.serve.text.cases import examples, split, words
from tests.serve.text.test_stops import cut
from tests.serve.text.writing import called, objects, thought

TOOLS = [{"type": "function", "function": {"name": "f"}}]


def run(reader: Reader, ids: list[int]) -> list[Event]:
    events = [event for id_ in ids for event in reader.push(id_)]
    return [*events, *reader.finish()]


def content(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Content))


def reasoning(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Reasoning))


def calls(events: list[Event]) -> list[tuple[str, Any]]:
    names = {event.index: event.name for event in events if isinstance(event, ToolCallStart)}
    fragments: dict[int, str] = {}
    for event in events:
        if isinstance(event, ToolCallArguments):
            fragments[event.index] = fragments.get(event.index, "") + event.fragment
    assert list(names) == list(fragments) == list(range(len(names)))
    return [(names[index], json.loads(fragments[index])) for index in names]


@examples(300, 5000)
def test_a_completion_is_the_text_up_to_the_first_stop(text: Text, tokenizer: Tokenizer, count: int) -> None:
    @settings(max_examples=count)
    @given(st.data(), words())
    def law(data: st.DataObject, answer: str) -> None:
        # Pieces are encoded one by one, so that token borders fall where they like; the oracle decodes in one go.
        ids = [id_ for piece in data.draw(split(answer)) for id_ in text.encode(piece, add_special=False)]
        inside = [answer[start : start + 4] for start in range(0, len(answer), 5)] or ["a"]
        stops = data.draw(st.lists(st.one_of(st.sampled_from(inside), words(3).filter(bool)), max_size=4))
        reader = text.completion(stops)
        events = run(reader, ids)
        whole = tokenizer.decode(ids)
        expected = cut(whole, stops)
        assert all(isinstance(event, Content) and event.text for event in events)
        assert content(events) == (whole if expected is None else expected[0])
        assert reader.stopped == (expected is not None)

    law()


@examples(150, 1000)
def test_an_answer_of_thoughts_calls_and_text_comes_apart(text: Text, count: int) -> None:
    segments = st.one_of(
        st.tuples(st.just("thought"), words(12).filter(bool)),
        st.tuples(st.just("content"), words(12)),
        st.tuples(st.just("call"), objects()),
    )

    @settings(max_examples=count)
    @given(st.lists(segments, max_size=5), st.lists(words(2).filter(bool), max_size=2))
    def law(answer: list[tuple[str, Any]], stops: list[str]) -> None:
        write: dict[str, Callable[[Any], str]] = {
            "thought": thought,
            "content": str,
            "call": lambda arguments: called("f", arguments),
        }
        ids = text.encode("".join(write[kind](value) for kind, value in answer), add_special=False)
        reader = text.chat([], TOOLS, stops)
        events = run(reader, ids)
        expected = cut("".join(value for kind, value in answer if kind == "content"), stops)
        if expected is None:
            assert content(events) == "".join(value for kind, value in answer if kind == "content")
            assert reasoning(events) == "".join(value for kind, value in answer if kind == "thought")
            assert calls(events) == [("f", value) for kind, value in answer if kind == "call"]
            assert reader.calls == len(calls(events))
        else:
            assert (content(events), reader.stopped) == (expected[0], True)

    law()


@examples(150, 500)
def test_any_ids_at_all_give_events_in_order(text: Text, count: int) -> None:
    special = st.sampled_from(sorted(text.pieces.special))

    @settings(max_examples=count)
    @given(
        st.lists(st.one_of(special, st.integers(0, 710), st.sampled_from(text.encode("call:f{", add_special=False))))
    )
    def law(ids: list[int]) -> None:
        events = run(text.chat([], TOOLS), ids)
        assert all(not isinstance(event, Content | Reasoning) or event.text for event in events)
        assert all(isinstance(arguments, dict) for _, arguments in calls(events))

    law()


def test_a_stop_cuts_neither_thoughts_nor_arguments_but_content(text: Text) -> None:
    answer = thought("no end") + "fine" + called("f", {"a": "the end"}) + " and end it"
    reader = text.chat([], TOOLS, ["end"])
    events = run(reader, text.encode(answer, add_special=False))
    assert (reasoning(events), calls(events), content(events)) == ("no end", [("f", {"a": "the end"})], "fine and ")
    assert reader.stopped


def test_a_stop_is_met_across_a_call(text: Text) -> None:
    reader = text.chat([], TOOLS, ["one two"])
    events = run(reader, text.encode("so one" + called("f", {}) + " two", add_special=False))
    assert (content(events), calls(events), reader.stopped) == ("so ", [("f", {})], True)


def test_the_stop_goes_out_if_asked_for_and_nothing_after_it(text: Text) -> None:
    ids = text.encode("one two three", add_special=False)
    for reader in (text.completion(["two"], include_stop=True), text.chat([], None, ["two"], include_stop=True)):
        assert content(run(reader, ids)) == "one two"
        assert reader.push(ids[0]) == reader.finish() == []


def test_special_tokens_of_a_completion_are_left_out_or_kept(text: Text) -> None:
    ids = text.encode("a<|channel>b<turn|>", add_special=False)
    assert content(run(text.completion(), ids)) == "ab"
    assert content(run(text.completion(skip_special=False), ids)) == "a<|channel>b<turn|>"


def test_special_tokens_of_a_chat_that_mean_nothing_are_left_out(text: Text) -> None:
    first, *rest = text.encode("你", add_special=False)
    ids = [*text.encode("a<turn|><|image|>", add_special=False), first, 0, *rest]
    assert content(run(text.chat([]), ids)) == "a你"


def test_markers_spelled_by_plain_tokens_are_text(text: Text) -> None:
    spelled = [id_ for character in "<|channel>x<|tool_call>" for id_ in text.encode(character, add_special=False)]
    assert content(run(text.chat([], TOOLS), spelled)) == "<|channel>x<|tool_call>"


@pytest.mark.parametrize(
    ("prompt", "inside"),
    [
        ("<bos><|turn>user\na<turn|>\n<|turn>model\n", False),
        ("<|turn>model\n<|channel>thought\n<channel|>", False),
        (
            "<|turn>model\n<|tool_call>call:f{}<tool_call|><|tool_response>response:f{}<tool_response|><|channel>thought\n",
            True,
        ),
        ("<|channel>thought\n<|turn>user\na", False),
        ("", False),
    ],
)
def test_where_an_answer_begins_is_read_from_the_prompt(text: Text, prompt: str, inside: bool) -> None:
    ids = text.encode(prompt, add_special=False)
    assert ends_in_thought(ids, text.pieces.special) is inside
    events = run(text.chat(ids), text.encode("hm\n<channel|>yes", add_special=False))
    assert (reasoning(events), content(events)) == (("hm", "yes") if inside else ("", "hm\nyes"))
