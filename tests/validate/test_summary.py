"""The summary of runs that finished, that failed half way, and that hold two checkpoints."""

import json
from pathlib import Path
from typing import Any

import pytest

from config.loading import load
from ledger.errors import BadInput
from ledger.receipts import Receipt, Ref
from ledger.store.remote import Bucket
from validate import summary, table
from validate.summary import grouped, rows, show

KEYS = {
    *(
        "foreign_sdk",
        "variant",
        "checkpoint",
        "target",
        "dtype",
        "tp",
        "kv_max",
        "kv_bucket",
        "slim",
        "parity",
        "ttft_ms",
    ),
    *("prefill_tok_s", "decode_tok_s", "transformers_decode_tok_s", "decode_vs_transformers", "load_s"),
    *("peak_rss_mb", "size_mb", "added_mb", "digests", "batch", "batch_tok_s", "transformers_batch_tok_s", "read_gb_s"),
}
EXEMPT = {"check": "oracle", "prompt": "chat-a", "position": 3, "expected": 7, "got": 8, "gap": 0.125}
CONFIG = """
name: run
checkpoints:
  tiny:
    source: {kind: tiny}
    geometry: tiny
    variants:
      - {name: one, kv_max: 256, kv_bucket: 32}
      - {name: two-bf16, kv_max: 512, kv_bucket: 64, dtype: bfloat16}
    release: {name: tiny, latest: one}
"""
POINT = {"kv": "device", "batch": 1, "target": "cpu", "dtype": "float32", "tp": 1, "slim": False}
ONE = POINT | {"name": "one", "kv_max": 256, "kv_bucket": 32}
MEASURED = {
    "seconds": 9.0,
    "ttft_ms": 3.21,
    "prefill_tok_s": 3000.0,
    "decode_tok_s": 1234.56,
    "transformers_decode_tok_s": 200.0,
    "decode_vs_transformers": 6.17,
    "batch_tok_s": 2500.0,
    "load_s": 1.5,
    "peak_rss_mb": 300.4,
}


class Run:
    """A run's folder of receipts."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.paths: list[Path] = []
        self.toolchain: dict[str, str] = {}
        (root / "run.yaml").write_text(CONFIG)

    def write(self, place: str, stage: str, **fields: Any) -> None:
        common: dict[str, Any] = {
            "recipe": {},
            "inputs": {},
            "facts": {},
            "measured": {},
            "toolchain": {},
            "source": "s",
        }
        values = common | {"outputs": {}, "verdict": "done"} | fields
        receipt = Receipt(stage=stage, key="0" * 64, **values)
        suffix = ".failed.json" if receipt.verdict == "failed" else ".json"
        self.paths.append(self.root / "run" / "receipts" / f"{place}{suffix}")
        receipt.write(self.paths[-1])

    def variant(self, point: dict[str, Any], checkpoint: str = "tiny", **parity: Any) -> None:
        """Everything a finished variant has."""
        place = f"{checkpoint}/{point['name']}"
        manifest = {"manifest.json": Ref(sha256="a" * 64, bytes=1)}
        self.write(f"{place}/compile", "compile", toolchain=self.toolchain)
        self.write(f"{place}/assemble", "assemble", recipe={"variant": point}, outputs=manifest)
        facts = {"prompts": 74, "tokens": 8960, "mismatches": [], "exemptions": []} | parity
        verdict = "failed" if facts["mismatches"] else "passed"
        self.write(f"{place}/parity", "parity", facts=facts, verdict=verdict, inputs={"oracle": "b" * 64})
        self.write(f"{place}/bench", "bench", facts={"size_mb": 9.5, "added_mb": 1.25}, measured=MEASURED)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    made = Run(tmp_path)
    made.write("tiny/fetch", "fetch")
    return made


def test_a_finished_variant_for_machines(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run.variant(ONE, exemptions=[EXEMPT])
    out = run.root / "run" / "summary.json"
    monkeypatch.setattr("sys.argv", ["summary", "--out", str(out), *map(str, run.paths)])
    assert summary.main() == 0
    (made,) = json.loads(out.read_text())
    assert made.keys() == KEYS
    assert made["parity"] == {"prompts": 74, "tokens": 8960, "mismatches": 0, "exemptions": 1, "verdict": "passed"}
    assert {key: made[key] for key in ONE if key not in ("name", "kv", "batch")} == {
        key: value for key, value in ONE.items() if key not in ("name", "kv", "batch")
    }
    assert (made["decode_tok_s"], made["decode_vs_transformers"], made["added_mb"]) == (1234.56, 6.17, 1.25)
    assert made["digests"]["artifact"] == "a" * 64
    assert made["digests"]["oracle"] == "b" * 64
    assert made["digests"]["fetch"] == Receipt.read(run.paths[0]).digest


def test_the_table_of_a_finished_run(run: Run) -> None:
    run.variant(ONE)
    two = ONE | {"name": "two-bf16", "dtype": "bfloat16"}
    run.variant(two, exemptions=[EXEMPT, EXEMPT | {"position": 9}])
    (run.root / "run" / "release" / "tiny").mkdir(parents=True)
    head, first, second, *notes, release = show(load(run.root / "run.yaml"), results=run.root).splitlines()
    assert head.split("  ")[0] == "variant"
    figures = ["3.2", "1234.6", "6.2", "2500.0", "1.50", "300", "9.5", "1.25"]
    assert first.split() == ["one", "passed", *figures]
    assert second.split() == ["two-bf16", "passed,", "2", "exempt", *figures]
    assert len({len(line) for line in (head, first, second)}) == 1
    assert notes == [
        f"exempt: two-bf16, oracle, prompt chat-a, position {n}: expected 7, got 8, oracle's gap 0.1250" for n in (3, 9)
    ]
    assert release == f"release: {run.root / 'run' / 'release' / 'tiny'}"


def test_what_stand_ins_built_is_not_taken_for_a_neuroncores(run: Run) -> None:
    run.toolchain = {"torch-neuronx": "2.8.0.2.12.22436+standin"}
    run.variant(ONE)
    lines = show(load(run.root / "run.yaml"), results=run.root).splitlines()
    note = next(line for line in lines if line.startswith("no release: "))
    assert "torch-neuronx is 2.8.0.2.12.22436+standin" in note
    assert note.endswith("times are not a NeuronCore's, and it cannot be packaged")


def test_the_table_of_a_run_that_failed(run: Run) -> None:
    run.write("tiny/one/assemble", "assemble", recipe={"variant": ONE})
    failed = {"prompts": 74, "tokens": 20, "mismatches": [EXEMPT], "exemptions": []}
    run.write("tiny/one/parity", "parity", facts=failed, verdict="failed")
    head, first, second, release = show(load(run.root / "run.yaml"), results=run.root).splitlines()
    assert head.startswith("variant   parity")
    assert first.split() == ["one", "FAILED,", "1", "differ", *"--------"]
    assert second.split() == ["two-bf16", "missing", *"--------"]
    assert release == f"release: none yet ({run.root / 'run' / 'release' / 'tiny'})"


def test_the_table_of_receipts_that_travel_through_a_bucket(
    run: Run, bucket: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run.variant(ONE)
    wanted = show(load(run.root / "run.yaml"), results=run.root).splitlines()
    there = Bucket(bucket, "files")
    for path in run.paths:
        there.put(str(Path("results") / path.relative_to(run.root)), path.read_bytes())
        path.unlink()
    monkeypatch.chdir(run.root)
    travelling = ["--default-storage-provider", "s3", "--default-storage-prefix", f"s3://{bucket}/files"]
    for flags, verdict in ((["--snakemake", "built"], "missing"), (["--snakemake", *travelling], "passed")):
        monkeypatch.setattr("sys.argv", ["summary", "--show", "run.yaml", *flags])
        assert summary.main() == 0
        said = capsys.readouterr().out.splitlines()
        assert said[1].split()[:2] == ["one", verdict]
    assert said[:-1] == wanted[:-1]


def test_many_exemptions_are_counted_under_the_table(run: Run) -> None:
    run.variant(ONE, exemptions=[EXEMPT] * 50)
    lines = show(load(run.root / "run.yaml"), results=run.root).splitlines()
    assert lines[-2] == f"and 10 more exempt, see {run.root / 'run'}/receipts"
    assert sum(line.startswith("exempt: ") for line in lines) == 40


def test_transformers_that_did_not_run_leaves_dashes(run: Run) -> None:
    run.variant(ONE)
    bench = Receipt.read(run.paths[-1])
    nothing = {"transformers_decode_tok_s": None, "decode_vs_transformers": None}
    bench.model_copy(update={"measured": bench.measured | nothing}).write(run.paths[-1])
    assert show(load(run.root / "run.yaml"), results=run.root).splitlines()[1].split()[4] == "-"
    assert rows(grouped(run.paths))[0]["decode_vs_transformers"] is None


def test_two_checkpoints_keep_their_own_facts(run: Run) -> None:
    run.write("other/fetch", "fetch", facts={"n": 2})
    run.variant(ONE)
    run.variant(ONE | {"kv_max": 1024}, checkpoint="other")
    first, second = rows(grouped(run.paths))
    assert (first["checkpoint"], first["kv_max"]) == ("tiny", 256)
    assert (second["checkpoint"], second["kv_max"]) == ("other", 1024)
    assert first["digests"]["fetch"] != second["digests"]["fetch"]
    assert "tiny/one" in table.table([first, second])


@pytest.mark.parametrize("argv", [[], ["--out", "x"], ["--show"], ["--show", "a", "--out", "b"], ["a"]])
def test_flags_that_do_not_go_together(argv: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["summary", *argv])
    with pytest.raises(BadInput, match=r"accepted: either --out FILE RECEIPT\.\.\. or --show CONFIG"):
        summary.main()


def test_a_variant_without_its_assembly(run: Run) -> None:
    run.write("tiny/one/compile", "compile")
    with pytest.raises(BadInput, match="receipt assemble of tiny/one is missing"):
        rows(grouped(run.paths))
    with pytest.raises(BadInput, match=r"gone\.json cannot be read"):
        grouped([run.root / "gone.json"])


def test_a_receipt_of_another_stage_or_with_other_content_is_named(run: Run) -> None:
    run.variant(ONE)
    folder = run.root / "run" / "receipts" / "tiny" / "one"
    bench = Receipt.read(folder / "bench.json")
    for name, receipt, said in (
        ("parity", bench, r"one/parity\.json: stage is 'bench'; accepted: 'parity', as the file is called"),
        (
            "bench",
            bench.model_copy(update={"measured": {"decode_tok_s": "fast"}}),
            "bench.json: measured: decode_tok_s",
        ),
        (
            "assemble",
            Receipt.read(folder / "assemble.json").model_copy(update={"recipe": {}}),
            "recipe: variant is miss",
        ),
    ):
        before = (folder / f"{name}.json").read_bytes()
        receipt.write(folder / f"{name}.json")
        with pytest.raises(BadInput, match=said):
            rows(grouped(run.paths))
        with pytest.raises(BadInput, match=said):
            show(load(run.root / "run.yaml"), results=run.root)
        (folder / f"{name}.json").write_bytes(before)
