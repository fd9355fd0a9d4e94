"""The section of full-size figures: values beside what was demanded, and bad files in one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from validate.report.full import Full, read

GOOD: dict[str, Any] = {
    "decode_vs_transformers": 1.9,
    "load_s": 6.0,
    "host_share_of_step": 0.01,
    "something_else": "ignored",
    "contexts": [{"tokens": 512, "decode_tok_s": 8.6, "transformers_decode_tok_s": 4.7}],
    "read_gb_s": 42.0,
    "step_bytes": 4.2e9,
    "thresholds": {
        "decode_vs_transformers": {"accepted": 1.7, "sense": ">="},
        "load_s": {"accepted": 5, "sense": "<="},
    },
}


def given(tmp_path: Path, **changed: Any) -> Full:
    path = tmp_path / "full.json"
    path.write_text(json.dumps(GOOD | changed))
    return read(path)


def test_figures_stand_beside_what_was_demanded(tmp_path: Path) -> None:
    made = given(tmp_path)
    assert [(one.key, one.value, one.accepted, one.stands) for one in made.lines] == [
        ("decode_vs_transformers", 1.9, "at least 1.7", True),
        ("host_share_of_step", 0.01, "", None),
        ("load_s", 6.0, "at most 5", False),
    ]
    assert "this build 8.6 tok/s at 512 tokens; transformers 4.7 tok/s at 512 tokens; bandwidth limit 10 tok/s" in (
        made.figures[0].svg
    )


@pytest.mark.parametrize(
    ("sense", "value", "stands"), [(">=", 1.7, True), (">=", 1.69, False), ("<=", 1.7, True), ("<=", 1.71, False)]
)
def test_a_threshold_itself_is_accepted(sense: str, value: float, stands: bool, tmp_path: Path) -> None:
    demanded = {"load_s": {"accepted": 1.7, "sense": sense}}
    (line,) = [one for one in given(tmp_path, load_s=value, thresholds=demanded).lines if one.key == "load_s"]
    assert line.stands is stands


def test_a_figure_that_was_demanded_and_not_measured_is_shown(tmp_path: Path) -> None:
    demanded = {"new_figure": {"accepted": 2, "sense": ">=", "meaning": "what is new"}}
    line = given(tmp_path, thresholds=demanded).lines[-1]
    assert (line.key, line.meaning, line.value, line.stands) == ("new_figure", "what is new", None, None)


def test_without_contexts_there_is_no_figure(tmp_path: Path) -> None:
    assert given(tmp_path, contexts=None).figures == ()


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"load_s": "6"}, r"load_s is '6'; accepted: a number"),
        ({"load_s": True}, r"load_s is True; accepted: a number"),
        ({"thresholds": {"load_s": {"accepted": 5, "sense": "<"}}}, r"thresholds\.load_s is .*; accepted: "),
        ({"thresholds": {"load_s": {"sense": "<="}}}, r"thresholds\.load_s\.accepted is None; accepted: a number"),
        ({"thresholds": [1]}, r"thresholds is \[1\]; accepted: an object"),
        ({"contexts": [3]}, r"contexts are not as expected; accepted: a list"),
        ({"contexts": [{"decode_tok_s": 3}]}, r"contexts are not as expected"),
        ({"contexts": [{"tokens": 512, "decode_tok_s": "fast"}]}, r"contexts are not as expected"),
        ({"read_gb_s": "fast"}, r"read_gb_s is 'fast'; accepted: a number"),
    ],
)
def test_a_bad_file_is_one_sentence(changed: dict[str, Any], found: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=found):
        given(tmp_path, **changed)


def test_no_file_and_no_object(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"--full .*gone\.json cannot be read: No such file"):
        read(tmp_path / "gone.json")
    (tmp_path / "list.json").write_text("[]")
    with pytest.raises(BadInput, match=r"list\.json holds a list; accepted: an object"):
        read(tmp_path / "list.json")
