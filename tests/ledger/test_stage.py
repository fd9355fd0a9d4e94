"""The stage driver from its command line: hits, misses, verdicts, what is asked."""

import hashlib
import json
import os
import subprocess
import sys

import pytest

from ledger import stage
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.sources import ROOT, source_digest
from ledger.store import Store
from tests.ledger.bench import Bench
from tests.ledger.conftest import MakeReceipt


def test_a_first_run_works_and_a_second_finds_it(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    assert bench.run() == 0
    receipt = Receipt.read(bench.out)
    printed = capsys.readouterr().out.splitlines()
    assert printed[0] == f"lower: building ({receipt.key[:12]}) ..."
    assert printed[1].startswith("lower: done in ")
    assert bench.store.path(receipt.outputs["graph"]).read_bytes() == b"a"
    assert receipt.recipe == {"text": "a", "shape": []}
    assert receipt.facts == {"letters": 1}
    assert receipt.measured.keys() == {"stage_seconds"}
    assert receipt.toolchain == {
        "python": f"{sys.version_info.major}.{sys.version_info.minor}",
        "pydantic": sys.modules["pydantic"].__version__,
    }

    first = bench.out.read_bytes()
    bench.out.unlink()
    assert bench.run() == 0
    assert bench.out.read_bytes() == first
    assert capsys.readouterr().out == f"lower: unchanged ({receipt.key[:12]})\n"
    assert len(bench.jobs) == 1


def test_the_spelling_of_a_recipe_does_not_matter(bench: Bench) -> None:
    bench.run('{"text": "a", "shape": [1, 2]}')
    bench.run('{ "shape":[1,2],\n"text":"\\u0061"}')
    (bench.folder / "recipe.json").write_text('{"text": "a", "shape": [1, 2]}')
    bench.run(f"@{bench.folder}/recipe.json")
    assert len(bench.jobs) == 1
    assert bench.jobs[0].recipe.shape == (1, 2)


def test_another_recipe_is_another_run_and_the_first_is_still_known(bench: Bench) -> None:
    for text in ("a", "b", "a"):
        bench.run(json.dumps({"text": text}))
        assert bench.store.verify(Receipt.read(bench.out).outputs["graph"]).read_text() == text
    assert [job.recipe.text for job in bench.jobs] == ["a", "b"]


def test_another_source_is_another_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for turn, text in enumerate(("x = 1\n", "x = 2\n", "x = 1\n")):
        root = bench.folder / f"tree{turn}"
        (root / "ledger").mkdir(parents=True)
        (root / "ledger" / "stage.py").write_text(text)
        monkeypatch.setattr(stage, "source_digest", lambda *names, root=root: source_digest(*names, root=root))
        bench.run()
    assert len(bench.jobs) == 2


def test_another_package_version_is_another_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.packages = ("fake-compiler",)
    versions = []
    for turn, version in enumerate((None, "1.0", "2.0", "1.0")):
        site = bench.folder / f"site{turn}"
        info = site / f"fake_compiler-{version}.dist-info"
        info.mkdir(parents=True)
        if version:
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fake-compiler\nVersion: {version}\n")
        with monkeypatch.context() as patch:
            patch.setattr(sys, "path", [str(site), *sys.path] if version else sys.path)
            bench.run()
        versions.append(Receipt.read(bench.out).toolchain["fake-compiler"])
    assert versions == ["absent", "1.0", "2.0", "1.0"]
    assert len(bench.jobs) == 3


def test_a_missing_or_cut_object_is_made_again(bench: Bench) -> None:
    bench.run()
    path = bench.store.path(Receipt.read(bench.out).outputs["graph"])
    path.unlink()
    bench.run()
    path.chmod(0o644)
    path.write_bytes(b"")
    bench.run()
    bench.run()
    assert len(bench.jobs) == 3
    assert path.read_bytes() == b"a"


def test_inputs_count_by_what_they_hold(bench: Bench, make_receipt: MakeReceipt) -> None:
    fetch = bench.folder / "fetch.json"
    for change in (
        {},
        {"measured": {"stage_seconds": 99}, "key": "00" * 32},
        {"facts": {"layers": 5}},
        {"verdict": "passed"},
        {},
    ):
        make_receipt(**{"stage": "fetch"} | change).write(fetch)
        bench.run('{"text": "a"}', "--input", f"fetch={fetch}")
    assert [job.inputs["fetch"].facts["layers"] for job in bench.jobs] == [4, 5, 4]
    assert Receipt.read(bench.out).inputs == {"fetch": make_receipt(stage="fetch").digest}
    bench.run('{"text": "a"}', "--input", f"tables/fetch={fetch}")
    bench.run('{"text": "a"}')
    assert len(bench.jobs) == 5


def test_a_failed_verdict_is_kept_apart_and_never_recorded(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run()
    bench.outcome = {"verdict": "failed", "message": "parity: 3 tokens differ; accepted: 0"}
    capsys.readouterr()
    for _ in range(2):
        assert bench.run('{"text": "b"}') == 1
        captured = capsys.readouterr()
        assert captured.err == "error: parity: 3 tokens differ; accepted: 0\n"
        assert str(bench.failed) in captured.out.splitlines()[-1]
        assert not bench.out.exists()
        assert Receipt.read(bench.failed).verdict == "failed"
    assert len(bench.jobs) == 3

    bench.outcome = {"verdict": "passed"}
    assert bench.run('{"text": "b"}') == 0
    assert not bench.failed.exists()
    assert Receipt.read(bench.out).verdict == "passed"


def test_a_hit_removes_the_receipt_of_a_failure(bench: Bench) -> None:
    bench.run()
    bench.outcome = {"verdict": "failed"}
    bench.run('{"text": "b"}')
    assert bench.failed.exists()
    bench.run()
    assert not bench.failed.exists()


def test_work_that_raises_leaves_no_receipt_of_an_earlier_run(bench: Bench) -> None:
    bench.run()
    bench.outcome = {"unknown": 1}
    with pytest.raises(TypeError):
        bench.run('{"text": "b"}')
    assert not bench.out.exists()


def test_an_output_that_is_not_in_the_store_is_refused(bench: Bench) -> None:
    other = Store(bench.folder / "other").put_bytes(b"elsewhere")
    bench.outcome = {"outputs": {"graph": other}}
    with pytest.raises(BadInput, match="missing from the store"):
        bench.run()
    assert not bench.out.exists()


def test_the_driver_imports_nothing_heavy() -> None:
    code = "import sys; before = set(sys.modules); import ledger.stage; print(*set(sys.modules) - before)"
    environment = {"PATH": os.environ["PATH"], "PYDANTIC_DISABLE_PLUGINS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    packages = {name.split(".")[0] for name in run.stdout.split()} - sys.stdlib_module_names
    packages = {name for name in packages if not name.startswith("_sysconfigdata_")}
    light = {
        "ledger",
        "pydantic",
        "pydantic_core",
        "annotated_types",
        "typing_extensions",
        "typing_inspection",
    }
    assert packages <= light


def test_what_is_asked_is_kept_before_the_work(bench: Bench, make_receipt: MakeReceipt) -> None:
    fetch = make_receipt(stage="fetch")
    fetch.write(bench.folder / "fetch.json")
    bench.outcome = {"unknown": 1}
    with pytest.raises(TypeError):
        bench.run('{"text": "a"}', "--input", f"fetch={bench.folder}/fetch.json")
    (path,) = (bench.folder / "store/asked/lower").iterdir()
    asked = json.loads(path.read_text())
    assert asked["recipe"] == {"text": "a", "shape": []}
    assert (asked["inputs"], asked["input_keys"]) == ({"fetch": fetch.digest}, {"fetch": fetch.key})
    assert asked["files"]["ledger/stage.py"] == hashlib.sha256((ROOT / "ledger/stage.py").read_bytes()).hexdigest()
    assert asked["place"] == f"{bench.folder.name}/receipts/512-64.json"
    bench.outcome = {}
    bench.run('{"text": "a"}', "--input", f"fetch={bench.folder}/fetch.json")
    assert Receipt.read(bench.out).key == asked["key"] == path.stem
