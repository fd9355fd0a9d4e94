"""What the OpenAPI document promises beyond the routes: bounds, events, and keys that are refused."""

from __future__ import annotations

from typing import Any

from serve.http.openapi import _bounded, streamed


def test_bounds_have_the_names_of_json_schema() -> None:
    made: Any = _bounded({"properties": {"n": {"type": "integer", "ge": 1, "le": 8}, "le": {"type": "string"}}})
    assert made == {"properties": {"n": {"type": "integer", "minimum": 1, "maximum": 8}, "le": {"type": "string"}}}


def test_keys_that_match_no_pattern_are_refused() -> None:
    made: Any = _bounded({"patternProperties": {r"^\d+$": {"type": "number"}}})
    assert made["additionalProperties"] is False


def test_an_event_is_an_object_with_data() -> None:
    schema = streamed("tokens")[200]["content"]["text/event-stream"]["schema"]
    assert (schema["type"], schema["required"]) == ("object", ["data"])
