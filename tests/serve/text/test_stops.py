"""Stop strings against searches in the whole text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from serve.errors import ServeError
from serve.text.stops import Stops
from tests.serve.text.cases import examples, split, words


def cut(text: str, stops: list[str]) -> tuple[str, str] | None:
    """What goes out and the stop that ends it: the first to be complete, the longest of those."""
    ends = [(text.find(stop) + len(stop), -len(stop), stop) for stop in stops if stop in text]
    if not ends:
        return None
    end, _, stop = min(ends)
    return text[: end - len(stop)], stop


def open_end(text: str, stops: list[str]) -> int:
    """How many characters at the end of `text` may be the beginning of a stop."""
    starts = {stop[:length] for stop in stops for length in range(1, len(stop))}
    return max((len(start) for start in starts if text.endswith(start)), default=0)


@pytest.mark.parametrize("include", [False, True])
@examples(300, 2500)
def test_stops_are_met_where_a_search_finds_them(count: int, include: bool) -> None:
    stop = st.one_of(st.text("ab", min_size=1, max_size=7), words(3).filter(bool))

    @settings(max_examples=count)
    @given(st.data(), st.lists(stop, max_size=4))
    def law(data: st.DataObject, strings: list[str]) -> None:
        # Made of beginnings of stops, the text is full of what is almost one.
        beginnings = [string[:length] for string in strings for length in range(1, len(string) + 1)]
        part = st.one_of(st.sampled_from(beginnings or ["a"]), words(2))
        text = "".join(data.draw(st.lists(part, max_size=9)))
        stops, out, seen = Stops(strings, include=include), "", ""
        for piece in data.draw(split(text)):
            more, hit = stops.push(piece)
            out, seen = out + more, seen + piece
            expected = cut(seen, strings)
            if expected is None:
                assert (hit, out) == (False, seen[: len(seen) - open_end(seen, strings)])
            else:
                assert (hit, stops.hit) == (True, expected[1])
                assert out == expected[0] + (expected[1] if include else "")
        if stops.hit is None:
            assert out + stops.finish() == text
        assert stops.finish() == ""

    law()


def test_what_only_began_like_a_stop_goes_out() -> None:
    stops = Stops(["###", "\n\nUser"])
    assert [stops.push(piece) for piece in ("a##", " b\n", "\nUs", "e")] == [
        ("a", False),
        ("## b", False),
        ("", False),
        ("", False),
    ]
    assert stops.finish() == "\n\nUse"


def test_nothing_goes_out_after_a_stop() -> None:
    stops = Stops(["x"])
    assert stops.push("axb") == ("a", True)
    assert stops.push("c") == ("", True)
    assert stops.finish() == ""


@pytest.mark.parametrize(
    ("strings", "sentence"),
    [
        (["a", ""], "stop[1] is empty; strings of at least one character are accepted"),
        (list("abcde"), "stop has 5 strings; up to 4 are accepted"),
    ],
)
def test_bad_stops_are_one_sentence(strings: list[str], sentence: str) -> None:
    with pytest.raises(ServeError) as caught:
        Stops(strings)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("stop", "text"),
    [("aab", "aaab"), ("abab", "abaabab"), ("aabaaaa", "aabaaabaaaa"), ("aabaaabb", "aabaaabaaabb")],
)
def test_a_stop_is_met_when_it_begins_inside_a_false_start(stop: str, text: str) -> None:
    stops = Stops([stop])
    pushed = [stops.push(character) for character in text]
    assert "".join(out for out, _ in pushed) + stop == text
    assert [hit for _, hit in pushed] == [False] * (len(text) - 1) + [True]
