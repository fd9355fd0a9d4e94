"""The stage driver from its command line: hits, misses, verdicts, sentences."""

import hashlib
import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from ledger import stage
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.sources import ROOT, source_digest
from ledger.stage import Job, Outcome, run_stage
from ledger.store import Store
from tests.ledger.conftest import MakeReceipt


class Recipe(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    text: str
    shape: tuple[int, ...] = ()


@dataclass
class Bench:
    """A stage "lower" that stores its recipe's text, in a folder of its own."""

    folder: Path
    jobs: list[Job[Recipe]] = field(default_factory=list)
    outcome: dict[str, Any] = field(default_factory=dict)
    packages: tuple[str, ...] = ("pydantic",)

    @property
    def out(self) -> Path:
        return self.folder / "receipts" / "512-64.json"

    @property
    def failed(self) -> Path:
        return self.folder / "receipts" / "512-64.failed.json"

    @property
    def store(self) -> Store:
        return Store(self.folder / "store")

    def run(self, recipe: str = '{"text": "a"}', *more: str) -> int:
        flags = ["--recipe", recipe, "--store", str(self.folder / "store"), "--out", str(self.out), *more]
        return run_stage("lower", Recipe, self.work, modules=("ledger.stage",), packages=self.packages, argv=flags)

    def work(self, job: Job[Recipe]) -> Outcome:
        self.jobs.append(job)
        ref = job.store.put_bytes(job.recipe.text.encode())
        usual: dict[str, Any] = {"outputs": {"graph": ref}, "facts": {"letters": len(job.recipe.text)}}
        return Outcome(**usual | self.outcome)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


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


@pytest.mark.parametrize("label", ["fetch", "512-128/fetch", "fetch/cpu-float32-tp1"])
def test_a_label_names_the_stage_of_its_receipt(bench: Bench, make_receipt: MakeReceipt, label: str) -> None:
    make_receipt(stage="fetch").write(bench.folder / "one.json")
    assert bench.run('{"text": "a"}', "--input", f"{label}={bench.folder}/one.json") == 0
    assert list(bench.jobs[0].inputs) == [label]


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
