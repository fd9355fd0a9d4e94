"""Good and bad lines of a prompts file; every bad one is named by file and line."""

import json
from pathlib import Path

import pytest

from ledger.errors import BadInput
from tests.validate.conftest import BOS, VOCAB
from validate.encode import Encoder
from validate.prompt_lines import read_prompts
from validate.records import PromptSet


def read(text: str | bytes, tmp_path: Path, encoder: Encoder, *, kv_max: int = 40, max_new: int = 8) -> PromptSet:
    """The prompts of a file with this content."""
    path = tmp_path / "mine.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_prompts(path, encoder, kv_max=kv_max, vocab_size=VOCAB, max_new=max_new)


def test_the_three_kinds_of_line(tmp_path: Path, encoder: Encoder) -> None:
    chat = [{"role": "user", "content": "hi"}]
    lines = [{"prompt": "a\u2028b"}, {"messages": chat}, {"ids": [BOS, 7]}]
    text = "\n\n".join(json.dumps(line, ensure_ascii=False) for line in lines) + "\n"
    first, second, third = read(text, tmp_path, encoder).prompts
    assert (first.name, first.ids) == ("line-1", tuple(encoder.text("a\u2028b")))
    assert (second.name, second.ids) == ("line-3", tuple(encoder.chat(chat)))
    assert (third.name, third.ids, third.max_new, third.stop) == ("line-5", (BOS, 7), 8, True)


def test_a_whole_surrogate_pair_is_a_character(tmp_path: Path, encoder: Encoder) -> None:
    (prompt,) = read(r'{"prompt": "\ud83d\ude00"}', tmp_path, encoder).prompts
    assert prompt.ids == tuple(encoder.text("\U0001f600"))


def test_an_answer_ends_where_the_context_does(tmp_path: Path, encoder: Encoder) -> None:
    (prompt,) = read(json.dumps({"ids": [5] * 37}), tmp_path, encoder).prompts
    assert prompt.max_new == 3


GOOD = '{"prompt": "fine"}\n'


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not readable as JSON"),
        ('{"prompt": "a", "prompt": "b"}', "comes twice"),
        ('"just text"', "found 'just text'; accepted: an object with exactly one of"),
        ("{}", "found the keys none"),
        ('{"text": "a"}', "found the keys 'text'"),
        ('{"prompt": "a", "ids": [2]}', "found the keys 'prompt', 'ids'"),
        ('{"prompt": 4}', "prompt is '4'; accepted: text"),
        ('{"messages": []}', r"messages is '\[\]'; accepted: a list of objects with role and content"),
        ('{"messages": [{"role": "user"}]}', "messages is "),
        ('{"messages": [{"role": "owner", "content": "x"}]}', "role is 'owner'; accepted: system, developer, user"),
        ('{"messages": [{"role": ["user"], "content": "x"}]}', r"role is \"\['user'\]\"; accepted: system"),
        ('{"messages": [{"role": "tool", "content": "x"}]}', "refuses the messages: no such role"),
        ('{"messages": [{"role": "user", "content": null}]}', "content is 'None'; accepted: text"),
        ('{"messages": [{"role": "user", "content": [7]}]}', r"content is '\[7\]'; accepted: text"),
        (
            '{"messages": [{"role": "user", "content": [{"type": "image", "text": "x"}]}]}',
            "content is .*; accepted: text",
        ),
        (r'{"messages": [{"role": "user", "content": "\ud800"}]}', r"\\ud800 is half of a surrogate pair"),
        (r'{"prompt": "a\udfffb"}', r"\\udfff is half of a surrogate pair"),
        ('{"ids": []}', r"ids is '\[\]'; accepted: a list of at least one whole number"),
        ('{"ids": [2, true]}', "ids is "),
        ('{"ids": [2, 512]}', "token id 512; accepted: 0 to 511"),
        ('{"ids": [-1]}', "token id -1; accepted: 0 to 511"),
        ('{"ids": [507]}', "token id 507 stands for an image or a sound"),
        ('{"prompt": "<|image|>"}', "token id 507 stands for an image or a sound"),
        (json.dumps({"ids": [7] * 40}), "40 tokens; accepted: at most 39"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, encoder: Encoder, line: str, said: str) -> None:
    with pytest.raises(BadInput, match=rf"mine\.jsonl line 2.*{said}"):
        read(GOOD + line, tmp_path, encoder)


def test_a_file_that_is_no_prompts_file(tmp_path: Path, encoder: Encoder) -> None:
    with pytest.raises(BadInput, match=r"mine\.jsonl holds no prompt"):
        read("\n \n", tmp_path, encoder)
    with pytest.raises(BadInput, match="not UTF-8 at byte 1"):
        read(b"{\xff", tmp_path, encoder)
    with pytest.raises(BadInput, match=r"gone\.jsonl cannot be read: No such file"):
        read_prompts(tmp_path / "gone.jsonl", encoder, kv_max=9, vocab_size=9, max_new=1)
