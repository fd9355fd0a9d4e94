"""`why`: each thing that goes into a key is changed by itself, and must be what is named."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from ledger.errors import BadInput
from tests.ledger.store.line import Line

Printed = pytest.CaptureFixture[str]


def why(line: Line, key: str, printed: Printed) -> list[str]:
    printed.readouterr()
    assert line.command("why", key) == 0
    return printed.readouterr().out.splitlines()


def why_json(line: Line, key: str, printed: Printed) -> dict[str, Any]:
    printed.readouterr()
    assert line.command("why", key, "--json") == 0
    found: dict[str, Any] = json.loads(printed.readouterr().out)
    return found


def test_a_changed_flag_of_the_recipe(line: Line, capsys: Printed) -> None:
    was = line.lower("512-128", kv_max=512, flags={"O": 1})
    now = line.lower("512-128", kv_max=512, flags={"O": 2})
    lines = why(line, now.key[:12], capsys)
    assert lines[0] == f"lower {now.key[:12]} is recorded by now"
    assert lines[1].startswith(f"nearest of 1 others: {was.key[:12]} (demo/512-128/lower.json, 20")
    assert lines[2:] == ["  recipe.point.flags.O: was 1, is 2"]
    found = why_json(line, now.key, capsys)
    assert found["nearest"] == was.key
    assert found["differences"] == [{"field": "recipe.point.flags.O", "was": 1, "is": 2}]


def test_another_compiler(line: Line, capsys: Printed) -> None:
    line.lower("512-128")
    line.compile("512-128")
    line.compiler = "2.24"
    now = line.compile("512-128")
    assert why(line, now.key, capsys)[2:] == ["  toolchain.neuronx-cc: was 2.23, is 2.24"]


def test_an_edit_is_told_by_its_files(line: Line, capsys: Printed) -> None:
    line.source |= {"recipes/old.py": "2" * 64}
    line.lower("512-128")
    line.source = {"recipes/lowering.py": "3" * 64, "recipes/new.py": "4" * 64}
    now = line.lower("512-128")
    assert why(line, now.key, capsys)[2:] == [
        "  source: recipes/lowering.py changed, recipes/new.py is new, recipes/old.py is gone"
    ]


def test_an_input_is_explained_one_level_up(either: Line, capsys: Printed) -> None:
    lower = either.lower("512-128", kv_max=512)
    either.compile("512-128")
    other = either.lower("512-128", kv_max=1024, slim=True)
    now = either.compile("512-128")
    assert why(either, now.key, capsys)[2:] == [
        f"  inputs.lower: was {lower.digest[:12]}, is {other.digest[:12]}, as of that",
        "    recipe.point.kv_max: was 512, is 1024",
        "    recipe.point.slim: was absent, is True",
    ]


def test_what_is_further_up_has_a_key_to_go_on_with(either: Line, capsys: Printed) -> None:
    first = either.lower("512-128", kv_max=512)
    either.compile("512-128")
    either.assemble("512-128")
    lower, compiled, now = either.lower("512-128", kv_max=1024), either.compile("512-128"), either.assemble("512-128")
    step, further = why(either, now.key, capsys)[2:]
    assert step.startswith("  inputs.compile: was ") and step.endswith(", as of that")
    assert further == f"    inputs.lower: was {first.digest[:12]}, is {lower.digest[:12]} (of {lower.key[:12]})"
    (found,) = why_json(either, now.key, capsys)["differences"]
    assert (found["key"], found["because"][0]["key"]) == (compiled.key, lower.key)
    assert why(either, lower.key[:12], capsys)[2:] == ["  recipe.point.kv_max: was 512, is 1024"]


def test_an_input_that_was_made_again_with_other_bytes(line: Line, capsys: Printed) -> None:
    was = line.lower("512-128")
    line.compile("512-128")
    (line.folder / f"store/actions/{was.key[:2]}/{was.key}.json").unlink()
    line.echo = "a clock in the graph"
    assert line.lower("512-128").key == was.key
    now = line.compile("512-128")
    assert why(line, now.key, capsys)[3:] == ["    outputs: was made once, is made again, with other bytes"]


def test_the_same_receipt_comes_before_a_neighbour_in_the_matrix(line: Line, capsys: Printed) -> None:
    line.lower("512-128", kv_max=512)
    yesterday = line.compile("512-128")
    line.source["recipes/lowering.py"] = "2" * 64
    line.compiler = "2.24"
    line.lower("256-64", kv_max=256)
    line.compile("256-64")
    line.lower("512-128", kv_max=512)
    now = line.compile("512-128")
    found = why_json(line, now.key, capsys)
    assert (found["nearest"], found["entries"]) == (yesterday.key, 2)
    assert [one["field"] for one in found["differences"]] == ["toolchain.neuronx-cc", "source"]


def test_of_many_the_one_with_the_fewest_differences(line: Line, capsys: Printed) -> None:
    line.lower("a", kv_max=1, tp=1, batch=1)
    near = line.lower("b", kv_max=1, tp=2, batch=2)
    line.lower("c", kv_max=3, tp=3, batch=3)
    now = line.lower("d", kv_max=2, tp=2, batch=2)
    found = why_json(line, now.key, capsys)
    assert (found["nearest"], found["entries"]) == (near.key, 3)
    assert found["differences"] == [{"field": "recipe.point.kv_max", "was": 1, "is": 2}]


def test_a_failed_run_is_asked_and_never_an_entry(either: Line, capsys: Printed) -> None:
    done = either.lower("512-128", kv_max=512)
    either.verdict = "failed"
    failed = either.lower("512-128", kv_max=1024)
    later = either.lower("512-128", kv_max=2048)
    assert why(either, failed.key, capsys)[0] == f"lower {failed.key[:12]} is not recorded"
    found = why_json(either, str(either.receipt("lower", "512-128").with_suffix(".failed.json")), capsys)
    assert (found["key"], found["nearest"], found["entries"]) == (later.key, done.key, 1)


def test_what_came_later_explains_nothing(line: Line, capsys: Printed) -> None:
    first = line.lower("512-128", kv_max=512)
    second = line.lower("512-128", kv_max=1024)
    os.utime(line.folder / f"store/asked/lower/{second.key}.json")
    line.lower("512-128", kv_max=1024, tp=2)
    found = why_json(line, second.key, capsys)
    assert (found["nearest"], found["entries"]) == (first.key, 1)


def test_nothing_to_compare_with(line: Line, capsys: Printed) -> None:
    only = line.lower("512-128")
    assert why(line, only.key, capsys) == [
        f"lower {only.key[:12]} is recorded by now",
        "no other run of lower is recorded in this store",
    ]


def test_a_receipt_whose_question_is_not_there(line: Line, capsys: Printed) -> None:
    was = line.lower("512-128", kv_max=512)
    path = line.folder / "other.json"
    was.model_copy(update={"key": "ab" * 32, "recipe": {"point": {"kv_max": 1024}}}).write(path)
    assert why(line, str(path), capsys)[2:] == ["  recipe.point.kv_max: was 512, is 1024"]


def test_an_entry_whose_object_is_gone_is_a_reason(line: Line, capsys: Printed) -> None:
    now = line.lower("512-128")
    (line.folder / "store/objects" / now.outputs["graph"].sha256[:2] / now.outputs["graph"].sha256).unlink()
    state = f"lower {now.key[:12]} is recorded, and its output graph is missing from the store or cut short"
    assert why(line, now.key, capsys)[0] == state


@pytest.mark.parametrize(
    ("key", "sentence"),
    [
        ("0000", "KEY is '0000', which no stage was asked for"),
        ("", "KEY is '', which is neither digits of a key nor a file"),
        ("abc", "KEY is 'abc', which is neither digits of a key nor a file"),
        ("zzzzzz", "KEY is 'zzzzzz', which is neither digits of a key nor a file"),
        ("no/such/receipt.json", "KEY is 'no/such/receipt.json', which is neither digits of a key nor a file"),
        ("a\0b", r"KEY is 'a\x00b', which is neither digits of a key nor a file"),
        ("ab" * 5000, f"KEY is '{'ab' * 40}...', which is neither digits of a key nor a file"),
    ],
)
def test_a_key_that_nobody_asked_for(line: Line, key: str, sentence: str) -> None:
    line.lower("512-128")
    with pytest.raises(BadInput) as caught:
        line.command("why", key)
    assert str(caught.value) == (
        f"{sentence}; accepted: the digits (0-9, a-f) after `building`, four or more and up to 64, or the path of a "
        "receipt"
    )


def test_a_question_under_another_name_is_none(line: Line, capsys: Printed) -> None:
    was = line.lower("512-128", kv_max=512)
    now = line.lower("512-128", kv_max=1024)
    place = line.folder / "store/asked/lower"
    record = line.folder / f"store/actions/00/{'0' * 64}.json"
    (place / f"{'0' * 64}.json").write_bytes((place / f"{was.key}.json").read_bytes())
    record.parent.mkdir(exist_ok=True)
    record.write_text("{}")
    found = why_json(line, now.key, capsys)
    assert (found["nearest"], found["entries"]) == (was.key, 1)


@pytest.mark.parametrize("stage", ["a\0b", "../../x", "", "lower\n"])
def test_a_receipt_of_a_stage_that_can_be_none(line: Line, stage: str) -> None:
    path = line.folder / "odd.json"
    line.lower("512-128").model_copy(update={"stage": stage}).write(path)
    with pytest.raises(BadInput, match=r"odd.json: stage is .*; accepted: text that matches \^\[A-Za-z0-9_-\]\+\$"):
        line.command("why", str(path))


def test_a_prefix_of_two_keys(line: Line) -> None:
    now = line.lower("512-128")
    place = line.folder / "store/asked/lower"
    (place / f"{now.key[:6]}{'0' * 58}.json").write_text("{}")
    with pytest.raises(BadInput, match="and 2 keys begin so; accepted: more of its digits"):
        line.command("why", now.key[:6])
    with pytest.raises(BadInput, match="is damaged"):
        line.command("why", f"{now.key[:6]}{'0' * 58}")
