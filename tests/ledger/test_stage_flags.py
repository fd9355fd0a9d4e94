"""The flags of the stage driver: labels of inputs, and one sentence for what is wrong."""

from pathlib import Path

import pytest

from ledger.errors import BadInput
from tests.ledger.bench import Bench
from tests.ledger.conftest import MakeReceipt


@pytest.mark.parametrize("label", ["fetch", "512-128/fetch", "fetch/cpu-float32-tp1"])
def test_a_label_names_the_stage_of_its_receipt(bench: Bench, make_receipt: MakeReceipt, label: str) -> None:
    make_receipt(stage="fetch").write(bench.folder / "one.json")
    assert bench.run('{"text": "a"}', "--input", f"{label}={bench.folder}/one.json") == 0
    assert list(bench.jobs[0].inputs) == [label]


def test_an_input_that_the_work_wants_and_nobody_gave(bench: Bench, make_receipt: MakeReceipt) -> None:
    make_receipt(stage="fetch").write(bench.folder / "fetch.json")
    bench.run('{"text": "a"}', "--input", f"fetch={bench.folder}/fetch.json")
    with pytest.raises(BadInput) as caught:
        bench.jobs[0].inputs["weights"]
    assert str(caught.value) == "--input weights=RECEIPT is missing; given: fetch"
    assert "weights" not in bench.jobs[0].inputs


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (('{"text": 1}',), "--recipe: text is 1; accepted: a valid string"),
        (('{"txet": "a"}',), "--recipe: txet is not a known key; accepted: text, shape (and 1 more)"),
        (("{",), "--recipe is not readable as JSON: "),
        (('{"text": "a", "text": "b"}',), "--recipe is not readable as JSON: key 'text' comes twice"),
        (("@absent.json",), "--recipe @absent.json cannot be read: No such file or directory"),
        (("@wrong.json",), "wrong.json: text is missing; accepted: a value"),
        (('{"text": "a"}', "--input", "fetch"), "--input is 'fetch'; accepted: NAME=RECEIPT"),
        (('{"text": "a"}', "--input", "=x"), "--input is '=x'; accepted: NAME=RECEIPT"),
        (('{"text": "a"}', "--input", "fetch=gone.json"), "receipt gone.json cannot be read: "),
        (('{"text": "a"}', "--input", "fetch=wrong.json"), "receipt wrong.json: stage is missing"),
        (
            ('{"text": "a"}', "--input", "fetch=bad.json"),
            "--input fetch: bad.json says failed; accepted: a receipt that is done or passed",
        ),
        (
            ('{"text": "a"}', "--input", "fetch=good.json", "--input", "fetch=good.json"),
            "--input fetch is given twice; accepted: once",
        ),
        (
            ('{"text": "a"}', "--input", "lower=good.json"),
            "--input lower: good.json is of stage 'fetch'; accepted: a receipt of lower",
        ),
        (
            ('{"text": "a"}', "--input", "512-128/parity=good.json"),
            "--input 512-128/parity: good.json is of stage 'fetch'; accepted: a receipt of 512-128 or parity",
        ),
        (('{"text": "a"}', "--out", "."), "--out . is a folder; accepted: the path of a file"),
        (('{"text": "a"}', "--out", ""), "--out . is a folder; accepted: the path of a file"),
        (('{"text": "a"}', "--out", "good.json/a"), "--out: good.json is a file; accepted: a folder"),
        (('{"text": "a"}', "--store", "good.json"), "--store: good.json is a file; accepted: a folder"),
        (('{"text": "a"}', "--speed"), "lower: unrecognized arguments: --speed; see --help"),
    ],
)
def test_bad_flags_are_one_sentence(
    bench: Bench,
    make_receipt: MakeReceipt,
    monkeypatch: pytest.MonkeyPatch,
    flags: tuple[str, ...],
    sentence: str,
) -> None:
    monkeypatch.chdir(bench.folder)
    make_receipt(stage="fetch").write(Path("good.json"))
    make_receipt(stage="fetch", verdict="failed").write(Path("bad.json"))
    Path("wrong.json").write_text("{}")
    with pytest.raises(BadInput) as caught:
        bench.run(*flags)
    assert str(caught.value).startswith(sentence)
    assert not bench.jobs
    assert not bench.out.exists()
