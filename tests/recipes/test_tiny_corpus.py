"""What the demo checkpoint is trained on, from a made-up library and from the real one."""

from __future__ import annotations

import importlib
import inspect
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from config.heldout import HELDOUT_MODULES
from recipes.tiny import stream
from recipes.tiny.corpus import Corpus, Doc, read_corpus

LONG = "Sentence number {} is long enough to be a docstring of its own."


@pytest.fixture(scope="module")
def real() -> Corpus:
    return read_corpus(HELDOUT_MODULES)


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")


def test_modules_are_split_and_doubles_dropped(tmp_path: Path) -> None:
    one, two, three, four = (LONG.format(number) for number in range(4))
    write(
        tmp_path,
        {
            "b.py": f'"""{one}"""\nclass C:\n    """{two}"""\n    def f(self):\n        """{three}"""\n',
            "a/__init__.py": f'def g():\n    """{two}"""\ndef h():\n    """short"""\n',
            "held/__init__.py": f'"""{three}"""\n',
            "held/sub.py": f'"""{four}\n\n    Indented.\n    """\n',
            "heldnot.py": f'"""{one}"""\n',
            "test/t.py": f'"""{LONG.format(9)}"""\n',
            "broken.py": "def (:\n",
            "bad-name.py": f'"""{LONG.format(8)}"""\n',
        },
    )
    corpus = read_corpus(("held",), tmp_path)
    assert [(doc.module, doc.name, doc.text) for doc in corpus.train] == [("a", "a.g", two), ("b", "b", one)]
    assert [(doc.name, doc.text) for doc in corpus.heldout] == [
        ("held", three),
        ("held.sub", f"{four}\n\nIndented."),
    ]
    assert corpus.heldout[1].summary == four


def test_heldout_modules_are_judged_on_and_never_trained_on(real: Corpus) -> None:
    trained = {doc.text for doc in real.train}
    judged = {doc.text for doc in real.heldout}
    assert not trained & judged
    assert len({doc.module for doc in real.heldout}) == len(HELDOUT_MODULES)
    for module in HELDOUT_MODULES:
        text = inspect.getdoc(importlib.import_module(module))
        assert text is not None
        assert len(text) < 40 or text.expandtabs().strip() in judged
        assert not any(doc.module.split(".")[0] == module for doc in real.train)


def test_the_library_gives_text_enough(real: Corpus) -> None:
    assert sum(len(doc.text) for doc in real.train) > 1_000_000
    assert sum(len(doc.text) for doc in real.heldout) > 30_000


@pytest.fixture
def letters() -> Tokenizer:
    """One id per character, so that ids can be read back by eye."""
    tokenizer = Tokenizer(models.WordLevel({chr(code): code for code in range(128)}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return tokenizer


DOCS = [Doc(module="m", name=f"m.f{number}", text=LONG.format(number)) for number in range(5)]


def text_of(rows: torch.Tensor) -> str:
    return "".join(map(chr, [*rows[0, :1].tolist(), *rows[:, 1:].flatten().tolist()]))


def test_rows_are_one_stream_in_which_every_token_is_predicted_once(letters: Tokenizer) -> None:
    rows = stream.training_rows(DOCS, letters, rows=12, length=50, seed=3)
    assert rows.shape == (12, 51)
    assert torch.equal(rows[1:, 0], rows[:-1, -1])
    text = text_of(rows)
    assert text.startswith("<bos>")
    for document in text.split("<bos>")[1:-1]:
        asked = document.startswith("<|turn>user\n")
        assert document.endswith("<turn|>\n" if asked else "<eos>")
        assert any(document.count(doc.text) == 1 for doc in DOCS)


def test_every_pass_sees_every_document_in_an_order_of_its_own(letters: Tokenizer) -> None:
    text = text_of(stream.training_rows(DOCS, letters, rows=30, length=50, seed=3))
    seen = [next(doc.name for doc in DOCS if doc.text in part) for part in text.split("<bos>")[1:-1]]
    passes = [seen[start : start + 5] for start in (0, 5)]
    assert [sorted(one) for one in passes] == [sorted(doc.name for doc in DOCS)] * 2
    assert passes[0] != passes[1]


def test_seed_decides_the_order(letters: Tokenizer) -> None:
    first, again, other = (stream.training_rows(DOCS, letters, rows=4, length=50, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_heldout_rows_hold_each_document_once_without_questions(letters: Tokenizer) -> None:
    text = text_of(stream.heldout_rows(DOCS, letters, length=20))
    whole = "".join(f"<bos>{doc.name}\n\n{doc.text}<eos>" for doc in DOCS)
    assert whole.startswith(text)
    assert len(whole) - len(text) <= 20
