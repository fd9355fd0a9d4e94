"""Nothing that parity has not passed, as recorded, gets through, and the sentence names the variant."""

import pytest

from ledger.digest import digest_json
from ledger.errors import GateFailed
from publish.gate import admit
from tests.publish.conftest import BENCH, Line


def refusal(line: Line) -> str:
    """The sentence with which "bf16" is refused."""
    with pytest.raises(GateFailed) as caught:
        admit("bf16", line.inputs, line.store)
    assert caught.value.exit_code == 1
    assert "bf16" in str(caught.value)
    return str(caught.value)


def test_a_passed_variant_is_admitted_with_its_manifest(line: Line) -> None:
    admitted = admit("bf16", line.inputs, line.store)
    assert admitted.manifest.variant.name == "bf16"
    assert sorted(admitted.receipts) == ["assemble", "bench", "compile", "lower", "parity"]


@pytest.mark.parametrize("stage", ["lower", "compile", "assemble", "parity", "bench"])
def test_a_missing_receipt(line: Line, stage: str) -> None:
    del line.inputs[f"bf16/{stage}"]
    assert f"the {stage} receipt is missing" in refusal(line)


def test_the_receipt_of_another_stage(line: Line) -> None:
    line.inputs["bf16/parity"] = line.inputs["bf16/bench"]
    assert "one of stage bench" in refusal(line)


def test_a_failed_verdict_that_was_edited_to_passed(line: Line) -> None:
    """The stage failed, so it recorded nothing; the file was edited by hand."""
    facts = line.inputs["bf16/parity"].facts
    line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts, verdict="failed")
    line.change("bf16/parity", verdict="passed", key="1" * 64)
    assert "the parity receipt (passed) is not what the stage recorded" in refusal(line)


def test_a_figure_that_was_edited(line: Line) -> None:
    line.change("bf16/bench", measured=BENCH | {"decode_tok_s": 99999.0})
    assert "the figures of the bench receipt were edited" in refusal(line)


def test_a_figure_that_was_edited_with_its_digest(line: Line) -> None:
    edited = BENCH | {"decode_tok_s": 99999.0}
    facts = line.inputs["bf16/bench"].facts | {"measurement": digest_json(edited)}
    line.change("bf16/bench", measured=edited, facts=facts)
    assert "the bench receipt (done) is not what the stage recorded" in refusal(line)


def test_a_stage_that_ran_twice_may_take_another_time(line: Line) -> None:
    """Two configurations share a store and a variant: the record is that of the run that came last."""
    line.change("bf16/assemble", measured={"stage_seconds": 77.0})
    line.change("bf16/bench", measured=BENCH | {"stage_seconds": 77.0})
    assert admit("bf16", line.inputs, line.store).name == "bf16"


def test_exemptions_that_were_struck_out(line: Line) -> None:
    line.change("bf16/parity", facts=line.inputs["bf16/parity"].facts | {"exemptions": []})
    assert "parity receipt" in refusal(line)


def test_a_verdict_that_is_only_done(line: Line) -> None:
    facts = line.inputs["bf16/parity"].facts
    line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts, verdict="done")
    assert "parity is done" in refusal(line)


def test_a_pass_that_lists_mismatches(line: Line) -> None:
    facts = line.inputs["bf16/parity"].facts | {"mismatches": [{"prompt": "x"}]}
    line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts, verdict="passed")
    assert "mismatches" in refusal(line)


def test_the_parity_of_another_variant(line: Line) -> None:
    line.inputs["bf16/parity"] = line.inputs["512-128/parity"]
    assert "the parity receipt speaks of another assemble" in refusal(line)


def test_the_bench_of_another_variant(line: Line) -> None:
    line.inputs["bf16/bench"] = line.inputs["512-128/bench"]
    assert "the bench receipt speaks of another assemble" in refusal(line)


def test_an_artifact_that_was_built_again_after_parity(line: Line) -> None:
    """Same receipts of compile, another manifest: parity has to run again."""
    line.record(
        "bf16/assemble",
        inputs=("fetch", "bf16/lower", "bf16/compile"),
        outputs={"manifest.json": line.store.put_bytes(b"{}")},
    )
    assert "the parity receipt speaks of another assemble" in refusal(line)


def test_a_parity_that_judged_other_bytes(line: Line) -> None:
    """The folder on disk was not the one that assemble made."""
    facts = line.inputs["bf16/parity"].facts | {"artifact": "2" * 64}
    line.record("bf16/parity", inputs=("bf16/assemble",), facts=facts, verdict="passed")
    line.record_bench("bf16")
    assert f"parity judged the artifact {'2' * 64}" in refusal(line)


def test_an_object_that_is_gone(line: Line) -> None:
    line.store.path(line.inputs["bf16/compile"].outputs["decode.stablehlo"]).unlink()
    assert "the compile receipt" in refusal(line)


def test_what_stand_ins_built_is_no_release_although_it_passed(line: Line) -> None:
    """Everything downstream is as it was recorded, and parity was real: only the compiler was none of AWS's."""
    line.record(
        "bf16/compile",
        inputs=("bf16/lower",),
        outputs=line.inputs["bf16/compile"].outputs,
        toolchain={"torch-neuronx": "2.8.0.2.12.22436+standin", "neuronx-cc": "2.23.6484.0+3b612583"},
    )
    assert refusal(line) == (
        "variant bf16: built with other than the Neuron SDK: torch-neuronx is 2.8.0.2.12.22436+standin; accepted: "
        "2.8.0.2.12.22436, the build that AWS released with SDK 2.28"
    )


def test_what_the_sdk_built_is_admitted(line: Line) -> None:
    line.record(
        "bf16/compile",
        inputs=("bf16/lower",),
        outputs=line.inputs["bf16/compile"].outputs,
        toolchain={"torch-neuronx": "2.8.0.2.12.22436+0f1dac25", "neuronx-cc": "2.23.6484.0"},
    )
    assert admit("bf16", line.inputs, line.store).name == "bf16"
