"""The command: against the stand-ins in both of their answers, and where nothing is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from tests.standins import environment
from validate.probe.__main__ import main
from validate.probe.questions import QUESTIONS

ROOT = Path(__file__).parents[3]
SOAK = pytest.mark.soak
Done = subprocess.CompletedProcess[str]


def _probe(out: Path, *arguments: str, **switches: str) -> tuple[Done, dict[str, dict[str, Any]]]:
    """The run, and its answers by name."""
    variables = environment() | {"STANDIN_ROOT": str(out.parent / "host")} | switches
    command = [sys.executable, "-m", "validate.probe", "--out", str(out), *arguments]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    document = json.loads(out.read_text()) if out.exists() else {"answers": []}
    return done, {one["id"]: one for one in document["answers"]}


@pytest.mark.parametrize(
    ("outputs", "writes", "copied"),
    [("stripped", "lost", "lost"), pytest.param("returned", "reach", "reaches the graph", marks=pytest.mark.soak)],
)
def test_both_answers_of_a_host_are_told_apart(tmp_path: Path, outputs: str, writes: str, copied: str) -> None:
    """A quarter of a minute each: a child of its own imports torch for every question."""
    names = ("aliased-outputs", "host-writes-copy")
    switches = {"STANDIN_ALIASED_OUTPUTS": outputs, "STANDIN_HOST_WRITES": writes}
    done, answers = _probe(tmp_path / "probe.json", "--only", *names, **switches)
    assert done.returncode == 0, done.stderr
    assert list(answers) == ["tiny", *names]
    assert answers["tiny"]["answer"] == "yes" and answers["tiny"]["evidence"]["found"] == [1, 2, 3, 4]
    assert answers["aliased-outputs"]["answer"] == outputs
    assert answers["aliased-outputs"]["evidence"]["first_values"] == [2, 4, 6]
    assert answers["host-writes-copy"]["answer"] == copied


def test_a_graph_is_loaded_where_there_is_no_compiler(tmp_path: Path) -> None:
    done, answers = _probe(tmp_path / "probe.json", "--only", "serve-without-compiler", "driver-version")
    assert done.returncode == 0, done.stderr
    assert answers["serve-without-compiler"]["answer"] == "yes"
    assert answers["serve-without-compiler"]["evidence"]["compiler_imported"] is False
    farm = tmp_path / "probe.json.work/serve-without-compiler/bin"
    assert list(farm.rglob("libneuronpjrt-path")) and not list(farm.rglob("neuronx-cc"))
    assert answers["driver-version"]["answer"].startswith("not answerable here: no version is told of the driver")


def test_a_host_without_a_device_is_one_sentence_and_exit_code_1(tmp_path: Path) -> None:
    done, answers = _probe(tmp_path / "probe.json", STANDIN_DEVICES="0")
    assert done.returncode == 1 and list(answers) == ["tiny"]
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: the smallest graph (x + 1) does not work here: failed, ")
    assert "aws-neuronx-dkms" in line and "--only cpu-trace fx-import" in line


@pytest.mark.parametrize(
    ("behaviour", "devices", "answer"),
    [
        ("works", "0", "yes"),
        ("needs-device", "0", "no"),
        pytest.param("works", "1", "yes, as far as a host with a driver tells: the device was not opened", marks=SOAK),
        pytest.param(
            "needs-device", "1", "not answerable here: it works, and opened the device of this host", marks=SOAK
        ),
    ],
)
def test_a_trace_without_a_driver(tmp_path: Path, behaviour: str, devices: str, answer: str) -> None:
    switches = {"STANDIN_CPU_TRACE": behaviour, "STANDIN_DEVICES": devices}
    done, answers = _probe(tmp_path / "probe.json", "--only", "cpu-trace", "capacity-providers", **switches)
    assert done.returncode == 0, done.stderr
    assert answers["cpu-trace"]["answer"] == answer
    assert answers["capacity-providers"]["answer"] == "not answerable here"
    assert "aws batch create-compute-environment" in " ".join(answers["capacity-providers"]["evidence"]["run"])


@pytest.mark.soak
@pytest.mark.parametrize("outputs", ["stripped", "returned"])
def test_every_question_gets_an_answer_within_the_budget(tmp_path: Path, outputs: str) -> None:
    """Three minutes each."""
    done, answers = _probe(tmp_path / "probe.json", STANDIN_ALIASED_OUTPUTS=outputs)
    assert done.returncode == 0, done.stderr
    assert list(answers) == ["tiny", *(question.id for question in QUESTIONS)]
    told = {name: one["answer"] for name, one in answers.items()}
    assert not [name for name, answer in told.items() if answer in {"crashed", "timed out", "not reached"}], told
    for name in ("operator-while", "operator-conditional", "operator-sort"):
        assert answers[name]["answer"] in {"compiles and runs", "refused"}, answers[name]
    assert told["builder-buffers"].startswith("a constant"), answers["builder-buffers"]
    assert told["fx-import"] == "no; with a stub it does", answers["fx-import"]
    assert told["saved-weights"] == "yes" and told["bf16-archive"] == "yes"


def test_nothing_installed_is_one_sentence_and_exit_code_2(tmp_path: Path) -> None:
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r}); {_MAIN}"]
    done = subprocess.run([*command, str(tmp_path / "p.json")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: torch-neuronx is not installed for ") and "recipes.doctor --role inf2-build" in line
    assert not list(tmp_path.iterdir())


_MAIN = (
    "from validate.probe.__main__ import main; from ledger.errors import run_cli;"
    "run_cli(lambda: main(['--out', sys.argv[1]]))"
)


def test_a_placeholder_is_refused_by_name(tmp_path: Path) -> None:
    info = tmp_path / "site/torch_neuronx-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-neuronx\nVersion: 1.0\n\nWRONG PACKAGE.\n")
    variables = dict(os.environ) | {"PYTHONPATH": str(tmp_path / "site")}
    command = [sys.executable, "-m", "validate.probe", "--out", str(tmp_path / "p.json")]
    done = subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: torch-neuronx is the placeholder that PyPI holds under this name; accepted: ")


def test_a_placeholder_without_metadata_is_refused_by_what_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/torch_neuronx.py").touch()
    done, _ = _probe(tmp_path / "p.json", PYTHONPATH=str(tmp_path / "site"))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: torch-neuronx has no trace: it is a placeholder of that name; accepted: ")
    assert not list(tmp_path.glob("p.json*"))


def test_a_program_that_the_sdk_lacks_is_named(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/neuronx-cc").symlink_to(ROOT / "tests/standins/bin/neuronx-cc")
    done, _ = _probe(tmp_path / "p.json", PATH=os.pathsep.join([str(tmp_path / "bin"), "/usr/bin", "/bin"]))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: torch_neuronx cannot be imported (libneuronpjrt-path is not on PATH")
    assert not list(tmp_path.glob("p.json*"))


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        ([], "validate.probe: the following arguments are required: --out; see --help"),
        (
            ["--out", "p.json", "--only", "tiny"],
            "--only tiny is not known; accepted: aliased-outputs, host-writes-copy",
        ),
        (
            ["--out", "p.json", "--budget", "0"],
            "validate.probe: argument --budget: found '0'; accepted: a whole number",
        ),
        (["--out", "config"], "--out config is a folder; accepted: the path of a file"),
    ],
)
def test_what_is_not_accepted_is_one_sentence(monkeypatch: pytest.MonkeyPatch, argv: list[str], sentence: str) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises(BadInput) as caught:
        main(argv)
    assert str(caught.value).startswith(sentence)


def test_all_ten_open_points_are_asked() -> None:
    asked = {section for question in QUESTIONS for section in question.section.replace(" ", "").split(",")}
    assert {f"11.{number}" for number in range(1, 11)} <= asked
    assert len({question.id for question in QUESTIONS}) == len(QUESTIONS)
