"""Tool calls against transformers' own parser of Gemma 4's format, and against the values they were written from."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils.chat_parsing_utils import recursive_parse

from serve.text.calls import QUOTE, Call, parse_calls
from tests.serve.text.cases import examples
from tests.serve.text.writing import objects, written


def parsed(body: str) -> list[tuple[str, Any]] | None:
    calls = parse_calls(body.replace("~", QUOTE))
    return None if calls is None else [(call.name, json.loads(call.arguments)) for call in calls]


@examples(200, 1000)
def test_arguments_are_what_was_written(count: int) -> None:
    @settings(max_examples=count)
    @given(objects())
    def law(arguments: dict[str, Any]) -> None:
        calls = parse_calls(f"call:f{written(arguments)}".replace('<|"|>', QUOTE))
        assert calls is not None
        assert [(call.name, json.loads(call.arguments)) for call in calls] == [("f", arguments)]

    law()


@examples(100, 500)
def test_arguments_are_what_transformers_reads(count: int) -> None:
    @settings(max_examples=count)
    @given(objects(st.from_regex(r"\w{1,5}", fullmatch=True)))
    def law(arguments: dict[str, Any]) -> None:
        body = written(arguments)
        expected = recursive_parse(body, {"type": "object", "x-parser": "gemma4-tool-call", "additionalProperties": {}})
        calls = parse_calls(f"call:f{body}".replace('<|"|>', QUOTE))
        assert calls is not None
        assert json.loads(calls[0].arguments) == expected

    law()


@pytest.mark.parametrize(
    ("body", "calls"),
    [
        ("call:f{}", [("f", {})]),
        (" call:get.the-weather_2 { a : ~x~ , b : 1 , }\n", [("get.the-weather_2", {"a": "x", "b": 1})]),
        ("call:google:mcp:make{a:~x~}", [("google:mcp:make", {"a": "x"})]),
        ("call:f{a:1}call:g{b:2}", [("f", {"a": 1}), ("g", {"b": 2})]),
        ("call:f{~a b~:~{x},[y]:z~}", [("f", {"a b": "{x},[y]:z"})]),
        ('call:f{"a":"x, \\"y\\" }",b:"line\nline"}', [("f", {"a": 'x, "y" }', "b": "line\nline"})]),
        ('call:f{a:"half}', [("f", {"a": '"half'})]),
        ('call:f{a:"half" of it}', [("f", {"a": '"half" of it'})]),
        ("call:f{a:San Francisco,b:12:30,c:01234}", [("f", {"a": "San Francisco", "b": "12:30", "c": "01234"})]),
        (
            "call:f{a:true,b:false,c:null,d:None,e:No}",
            [("f", {"a": True, "b": False, "c": None, "d": None, "e": "No"})],
        ),
        ("call:f{a:[],b:[~~,[1,{c:-0.5e3}]],d:{}}", [("f", {"a": [], "b": ["", [1, {"c": -500.0}]], "d": {}})]),
    ],
)
def test_what_models_write_is_understood(body: str, calls: list[tuple[str, Any]]) -> None:
    assert parsed(body) == calls


def test_numbers_keep_their_digits() -> None:
    body = "call:f{a:12345678901234567890.10,b:1E+2,c:-0}"
    assert parse_calls(body) == [Call("f", '{"a": 12345678901234567890.10, "b": 1E+2, "c": -0}')]
    assert parsed("call:f{a:1٣,b:1_0,c:.5,d:inf}") == [("f", {"a": "1٣", "b": "1_0", "c": ".5", "d": "inf"})]


def test_half_a_character_stays_an_escape_that_utf8_can_carry() -> None:
    calls = parse_calls('call:f{a:"\\ud83d",b:"\\ud83d\\ude00"}')
    assert calls == [Call("f", '{"a": "\\ud83d", "b": "😀"}')]


@pytest.mark.parametrize(
    "body",
    [
        "",
        "call:",
        "call:f",
        "call:f(a=1)",
        "f{a:1}",
        "call:bad name{a:1}",
        "call:f{a:1",
        "call:f{a:1}}",
        "call:f{a:1} and so on",
        "call:f{a:~x}",
        "call:f{a:x~y~}",
        "call:f{a:~x~y}",
        "call:f{a}",
        "call:f{a:}",
        "call:f{:1}",
        "call:f{,a:1}",
        "call:f{a:1,,b:2}",
        "call:f{a:[1}",
        "call:f{a:San Francisco, CA}",
        "call:f[1]",
        "call:f{a:" + "[" * 5000 + "]" * 5000 + "}",
    ],
)
def test_what_is_no_call_is_none(body: str) -> None:
    assert parsed(body) is None


def test_depth_has_room_for_real_arguments() -> None:
    found = parsed("call:f{a:" + "[" * 60 + "]" * 60 + "}")
    assert found is not None
    depth, inner = 0, found[0][1]["a"]
    while inner:
        depth, inner = depth + 1, inner[0]
    assert depth == 59
