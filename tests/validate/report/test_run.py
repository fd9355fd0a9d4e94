"""A run read from its folder: what is there, what failed, what is missing, and what is no run."""

from pathlib import Path

import pytest

from ledger.errors import BadInput
from tests.validate.report.made import Made
from validate.report.run import Run, point, read


def states(run: Run) -> dict[str, str]:
    return {node.name: node.state for node in run.nodes}


def test_a_finished_run(whole: Made) -> None:
    run = read([whole.receipts])
    assert (run.name, run.checkpoints, run.variants("demo")) == ("made", ["demo"], ["512-128", "bf16"])
    assert set(states(run).values()) == {"done", "passed"}
    assert len(run.nodes) == 2 * 5 + 6
    assert {(node.name, node.stage, node.variant) for node in run.nodes} >= {
        ("fetch", "fetch", None),
        ("oracle/512-128", "oracle", None),
        ("weights/cpu-float32-tp1", "weights", None),
        ("bf16/parity", "parity", "bf16"),
    }


def test_a_folder_and_its_receipts_one_by_one_are_the_same_run(whole: Made) -> None:
    files = sorted(whole.receipts.rglob("*.json"))
    assert states(read(files)) == states(read([whole.receipts])) == states(read([*files, whole.receipts]))


def test_a_failed_receipt_and_what_the_line_would_have_made(broken: Made) -> None:
    told = states(read([broken.receipts]))
    assert {name for name, state in told.items() if state == "failed"} == {"bf16/parity"}
    assert {name for name, state in told.items() if state == "missing"} == {
        *("bf16/bench", "late/parity", "late/bench", "package"),
    }


def test_a_failed_receipt_is_found_under_its_good_name(broken: Made) -> None:
    paths = [broken.path("fetch"), broken.path("bf16/parity"), broken.path("oracle/512-128")]
    assert states(read(paths))["bf16/parity"] == "failed"


def test_a_failed_receipt_takes_the_place_of_a_good_one(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.write("one/bench", verdict="failed")
    assert made.path("one/bench").is_file()
    assert states(read([made.receipts]))["one/bench"] == "failed"


def test_receipts_that_were_asked_for_and_are_not_there(whole: Made) -> None:
    paths = [whole.path(name) for name in ("fetch", "oracle/9-9", "oracle/parity", "new/parity", "weights/x")]
    nodes = {node.name: node for node in read(paths).nodes}
    assert (nodes["oracle/9-9"].state, nodes["oracle/9-9"].stage, nodes["oracle/9-9"].variant) == (
        *("missing", "oracle", None),
    )
    assert (nodes["oracle/parity"].stage, nodes["oracle/parity"].variant) == ("parity", "oracle")
    assert (nodes["new/parity"].stage, nodes["new/parity"].variant) == ("parity", "new")
    assert nodes["weights/x"].stage == "weights"
    assert nodes["new/lower"].state == "missing"


def test_variants_of_a_folder_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for name in ("slim", "2048-512", "512-128"):
        made.variant(name)
    assert read([made.receipts]).variants("demo") == ["512-128", "2048-512", "slim"]


def test_variants_that_are_named_keep_their_order(whole: Made) -> None:
    paths = [whole.path(name) for name in ("bf16/lower", "512-128/lower")]
    assert read(paths).variants("demo") == ["bf16", "512-128"]


def test_two_checkpoints(tmp_path: Path) -> None:
    Made(tmp_path, checkpoint="a").variant("one")
    made = Made(tmp_path, checkpoint="b")
    made.variant("one")
    run = read([made.receipts])
    assert run.checkpoints == ["a", "b"]
    assert [node.checkpoint for node in run.of("b")] == ["b"] * len(run.of("b"))
    assert run.receipts("a", "one").keys() == {"lower", "compile", "assemble", "parity", "bench"}


def test_the_point_is_taken_from_the_first_receipts_of_a_variant(whole: Made) -> None:
    receipts = read([whole.receipts]).receipts("demo", "bf16")
    assert point("bf16", receipts)["slim"] is False
    early = point("bf16", {"lower": receipts["lower"]})
    assert (early["name"], early["dtype"], early["kv_max"], early["slim"]) == ("bf16", "bfloat16", 512, None)


def test_what_is_no_run(whole: Made, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"a\.json does not lie in a run's receipts; accepted: results/RUN/receipts"):
        read([tmp_path / "a.json"])
    with pytest.raises(BadInput, match="found no receipt of gone"):
        read([tmp_path / "gone" / "receipts" / "demo" / "fetch.json"])
    with pytest.raises(BadInput, match="found receipts of made and other; accepted: those of one run"):
        read([whole.receipts, tmp_path / "other" / "receipts" / "demo" / "fetch.json"])
    with pytest.raises(BadInput, match="found receipts of none"):
        read([tmp_path])
    damaged = tmp_path / "run" / "receipts" / "demo" / "fetch.json"
    damaged.parent.mkdir(parents=True)
    damaged.write_text("{")
    with pytest.raises(BadInput, match=r"fetch\.json is not readable as JSON"):
        read([damaged])
