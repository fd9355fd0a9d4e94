"""The rows of the matrix and the sentence at the top."""

from pathlib import Path

from tests.validate.report.made import Made
from validate.report.matrix import Headline, headline, rows
from validate.report.run import read


def top(made: Made) -> Headline:
    run = read([made.receipts])
    return headline(run, rows(run, "demo"))


def test_a_row_has_the_point_the_verdict_and_the_figures(whole: Made) -> None:
    first, second = rows(read([whole.receipts]), "demo")
    assert {key: second[key] for key in ("variant", "dtype", "kv_max", "kv_bucket", "tp", "batch", "slim")} == {
        **{"variant": "bf16", "dtype": "bfloat16", "kv_max": 512, "kv_bucket": 128, "tp": 1, "batch": 1},
        "slim": False,
    }
    assert (first["parity"]["verdict"], second["parity"]["exemptions"]) == ("passed", 1)
    assert (first["decode_tok_s"], first["size_mb"], first["transformers_ttft_ms"]) == (3300.0, 11.5, 9.9)
    assert (first["bound_tok_s"], first["of_bound"]) == (5000.0, 0.66)


def test_a_finished_run_has_passed(whole: Made) -> None:
    told = top(whole)
    assert told.verdict == "passed"
    assert [figure for figure, _ in told.glance] == ["2 of 2", "17,920", "0", "11.0×"]


def test_a_failed_run_names_what_failed_and_what_is_missing(broken: Made) -> None:
    told = top(broken)
    assert told.verdict == "failed"
    assert told.sentences[0] == "Failed: bf16/parity."
    assert told.sentences[1].startswith("Missing: ")
    assert {"late/parity", "late/bench", "bf16/bench", "package."} == set(told.sentences[1][9:].split(", "))
    assert [figure for figure, _ in told.glance][:3] == ["1 of 3", "17,920", "1"]


def test_a_variant_with_no_bench_and_no_parity(broken: Made) -> None:
    late = rows(read([broken.receipts]), "demo")[2]
    assert late["parity"]["verdict"] == "missing"
    assert all(late[key] is None for key in ("decode_tok_s", "of_bound", "size_mb", "transformers_ttft_ms"))


def test_only_a_missing_release_is_incomplete(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    assert top(made).verdict == "incomplete"
    assert top(made).sentences == ("Missing: package.",)


def test_a_run_before_its_first_variant(tmp_path: Path) -> None:
    told = top(Made(tmp_path))
    assert told.verdict == "incomplete"
    assert told.glance[0][0] == "0 of 0"


def test_transformers_that_could_not_run(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    nothing = {"transformers": {"sdpa": {"reason": "no"}}, "transformers_best": None}
    made.bench("one", **nothing, transformers_decode_tok_s=None, decode_vs_transformers=None)
    (made_row,) = rows(read([made.receipts]), "demo")
    assert made_row["transformers_ttft_ms"] is None
    assert len(top(made).glance) == 3


def test_benches_on_a_busy_machine_are_named(tmp_path: Path) -> None:
    made = Made(tmp_path)
    made.variant("one")
    made.variant("two")
    made.package()
    made.bench("one", load_average_before=3.0)
    assert not any("busy" in sentence for sentence in top(made).sentences)
    made.bench("two", load_average_before=5.96)
    assert top(made).sentences[-1] == (
        "1 of 2 benches began on a busy machine (load 5.96 on 2 CPUs before two/bench): "
        "speeds and ratios of these say little."
    )
    assert top(made).glance[-1] == ("11.0×", "decode speed of transformers, on a busy machine")


def test_many_missing_receipts_are_counted(tmp_path: Path) -> None:
    made = Made(tmp_path)
    for number in range(4):
        made.variant(f"v{number}")
        for stage in ("bench", "parity", "assemble"):
            made.forget(f"v{number}/{stage}")
    assert top(made).sentences[0].endswith(" and 5 more.")
