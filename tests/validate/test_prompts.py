"""What a prompt set holds, whatever the size: every seam from both sides, room for every answer, BOS first."""

import json
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import validate.prompts
from ledger.errors import BadInput
from tests.validate.conftest import BOS, VOCAB
from validate.encode import Encoder
from validate.prompts import Recipe, build, edge_lengths
from validate.records import PromptSet

DATA = Path(validate.prompts.__file__).parent / "data"


def recipe(**changes: int) -> Recipe:
    """A demo-sized recipe with changes."""
    defaults = {"kv_max": 256, "kv_bucket": 32, "window": 64, "count": 64, "max_new": 128, "heldout_tokens": 700}
    return Recipe(**(defaults | {"seed": 0} | changes))


@given(st.integers(2, 4096), st.integers(1, 600), st.integers(1, 1024))
def test_edges_fit_and_stand_on_both_sides_of_every_seam(kv_max: int, kv_bucket: int, window: int) -> None:
    lengths = edge_lengths(kv_max, kv_bucket, window)
    assert lengths == sorted(set(lengths))
    assert all(1 <= n < kv_max for n in lengths)
    asked_for = [1, kv_bucket - 1, kv_bucket, kv_bucket + 1, window - 1, window, window + 1, 3 * window + 1, kv_max - 1]
    assert {n for n in asked_for if 1 <= n < kv_max} <= set(lengths)


@settings(max_examples=25, deadline=None)
@given(
    kv_max=st.integers(40, 700),
    kv_bucket=st.integers(1, 200),
    window=st.integers(1, 100),
    count=st.integers(1, 90),
    max_new=st.integers(1, 39),
    seed=st.integers(0, 3),
)
def test_every_prompt_can_be_asked(encoder: Encoder, **sizes: int) -> None:
    wanted = recipe(**sizes)
    made = build(wanted, encoder)
    for prompt in made.prompts:
        assert prompt.ids[0] == BOS
        assert all(0 <= token < VOCAB for token in prompt.ids)
        assert encoder.placeholders.isdisjoint(prompt.ids)
        assert prompt.max_new == min(wanted.max_new, wanted.kv_max - len(prompt.ids)) >= 1
        assert prompt.stop == (prompt.kind == "stop")
    full = [prompt for prompt in made.prompts if not prompt.stop and prompt.max_new == wanted.max_new]
    edges = edge_lengths(wanted.kv_max, wanted.kv_bucket, wanted.window)
    assert len(full) >= wanted.count
    assert [len(prompt.ids) for prompt in made.prompts if prompt.kind == "length"] == edges


def test_the_default_set_holds_every_kind(encoder: Encoder) -> None:
    kinds = Counter(prompt.kind for prompt in build(recipe(kv_max=512), encoder).prompts)
    assert kinds.keys() == {"length", "chat", "code", "script", "emoji", "special", "prose", "mix", "stop"}
    assert min(kinds.values()) >= 5


def test_the_same_recipe_gives_the_same_set_and_another_seed_another(encoder: Encoder) -> None:
    first = build(recipe(), encoder)
    assert build(recipe(), encoder) == first
    assert build(recipe(seed=1), encoder).prompts != first.prompts
    assert PromptSet.model_validate_json(first.model_dump_json()) == first


def test_no_room_for_an_answer(encoder: Encoder) -> None:
    with pytest.raises(BadInput, match=r"parity\.max_new: found 128; accepted: under 128"):
        build(recipe(kv_max=128), encoder)


def test_heldout_windows_are_the_text_in_order(encoder: Encoder) -> None:
    windows = build(recipe(kv_max=200, max_new=100), encoder).heldout
    text = [token for window in windows for token in window.ids[1:]]
    assert {window.ids[0] for window in windows} == {BOS}
    assert len(text) == 700
    assert max(len(window.ids) for window in windows) == 199
    # The test tokenizer spells bytes, so ids 108.. are the text itself.
    spelt = "".join("\n" if token == 107 else chr(token - 108) for token in text if token < 236).replace("\u2581", " ")
    import calendar

    assert calendar.__doc__ is not None
    assert spelt.startswith(calendar.__doc__.split("\n", maxsplit=1)[0].replace(" ", ""))


def _rows(kind: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / f"{kind}.jsonl").read_text(encoding="utf-8").split("\n") if line]


def test_the_written_prompts_cover_what_breaks_tokenizers() -> None:
    scripts = {unicodedata.name(char).split()[0] for row in _rows("script") for char in row["text"] if char.isalpha()}
    asked_for = {"GREEK", "CYRILLIC", "ARABIC", "HEBREW", "DEVANAGARI", "THAI", "CJK", "HIRAGANA", "KATAKANA", "HANGUL"}
    assert asked_for <= scripts
    assert any("\u200d" in row["text"] for row in _rows("emoji"))
    specials = "".join(row["text"] for row in _rows("special"))
    assert all(token in specials for token in ("<bos>", "<eos>", "<pad>", "<|turn>", "<turn|>", "<|channel>"))


@pytest.mark.parametrize("kind", sorted(path.stem for path in DATA.glob("*.jsonl")))
def test_written_prompts_have_names_of_their_own(kind: str) -> None:
    names = [row["name"] for row in _rows(kind)]
    assert len(names) == len(set(names)) >= 8
