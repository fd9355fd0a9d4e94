"""The workflow as a whole, without running a stage: what is planned, what is refused, what reruns."""

import ast
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ledger.sources import PACKAGES, ROOT, source_files
from recipes.workflow import STAGES, STARTS

VARIANTS = ROOT / "config" / "variants.yaml"
SMOKE = ROOT / "config" / "smoke.yaml"


@dataclass
class Workflow:
    """A copy of the repository's code, with snakemake to run in it."""

    folder: Path

    def run(self, *flags: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "snakemake", *flags]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def planned(self, *flags: str) -> dict[str, int]:
        """Jobs by rule that a dry run plans, `all` left out."""
        done = self.run("--dry-run", *flags)
        assert done.returncode == 0, done.stderr
        said = done.stdout + done.stderr
        if "Nothing to be done" in said:
            return {}
        table = said.partition("Job stats:\n")[2].partition("\n\n")[0]
        jobs = {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", table, re.M)}
        assert jobs.pop("total") == sum(jobs.values())
        return {name: count for name, count in jobs.items() if name != "all"}

    def finish(self, config: Path) -> None:
        """Pretend that everything was built: empty outputs, and snakemake's records of how they were made."""
        listed = self.run("--configfile", str(config), "--summary")
        for line in listed.stdout.splitlines()[1:]:
            output = self.folder / line.split("\t")[0]
            output.parent.mkdir(parents=True, exist_ok=True)
            output.touch()
        done = self.run("--configfile", str(config), "--touch", "--forceall")
        assert done.returncode == 0, done.stderr


@pytest.fixture
def workflow(tmp_path: Path) -> Workflow:
    return copied(tmp_path / "repo")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    workflow = copied(tmp_path_factory.mktemp("built") / "repo")
    workflow.finish(SMOKE)
    return workflow.folder


@pytest.fixture
def finished(built: Path, tmp_path: Path) -> Workflow:
    """A copy in which everything was built, to edit."""
    return Workflow(shutil.copytree(built, tmp_path / "repo"))


def copied(folder: Path) -> Workflow:
    for name in (*PACKAGES, "envs", "profiles"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("Snakefile", "LICENSE"):
        shutil.copy(ROOT / name, folder / name)
    return Workflow(folder)


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The only sentence of a refusal; snakemake adds a line about the profile it found."""
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    said = [line for line in done.stderr.splitlines() if not line.startswith("Using workflow specific profile")]
    assert len(said) == 1, done.stderr
    return said[0]


def test_the_real_matrix_is_planned_whole_with_nothing_fetched(workflow: Workflow) -> None:
    assert workflow.planned("--configfile", str(VARIANTS)) == {
        "fetch": 1,
        "fetch_here": 2,  # a folder of this machine
        "tables": 3,
        "weights": 4,  # E2B at tp 1 and tp 2, the others at tp 2
        "prompts": 5,  # 512-128 and 2048-512 of E2B and E4B, 256-64 of 12B
        "oracle": 5,
        "lower": 13,
        "lint": 13,
        "compile": 13,
        "assemble": 13,
        "parity_inf2": 13,
        "bench_inf2": 13,
        "package": 3,
        "summary": 1,
        "report": 1,
    }


def test_two_checkpoints_are_two_lines_and_two_releases(workflow: Workflow) -> None:
    given = yaml.safe_load(SMOKE.read_text())
    given["checkpoints"]["other"] = given["checkpoints"]["demo"]
    config = workflow.folder / "two.yaml"
    config.write_text(yaml.safe_dump(given))
    counts = workflow.planned("--configfile", str(config))
    assert counts.pop("summary") == counts.pop("report") == 1
    assert set(counts.values()) == {2}


def test_no_configuration(workflow: Workflow) -> None:
    assert sentence(workflow.run("--dry-run")) == (
        "error: --configfile is missing; accepted: a configuration such as config/demo.yaml"
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (("kv_bucket: 32", "kv_bucket: 900"), r"kv_bucket is 900; accepted: 1 to 128"),
        (("kv_bucket: 32", "kv_bucket: 32\n        kv_bucket: 64"), r"key 'kv_bucket' is given twice"),
        (("name: smoke", "nam: smoke"), r"nam is not a known key; accepted: name, "),
        (("geometry: tiny", "geometry: small"), r"geometry is 'small'; accepted: .*tiny"),
    ],
    ids=["value", "twice", "unknown", "geometry"],
)
def test_a_bad_configuration_is_one_sentence(workflow: Workflow, change: tuple[str, str], found: str) -> None:
    config = workflow.folder / "bad.yaml"
    text = SMOKE.read_text()
    assert change[0] in text
    config.write_text(text.replace(*change, 1))
    said = sentence(workflow.run("--dry-run", "--configfile", str(config)))
    assert said.startswith(f"error: {config}: ")
    assert re.search(found, said), said


def test_config_on_the_command_line_is_checked_too(workflow: Workflow) -> None:
    said = sentence(workflow.run("--dry-run", "--configfile", str(SMOKE), "--config", "nmae=x"))
    assert "nmae is not a known key" in said


def test_an_unknown_variant_has_no_rule(workflow: Workflow) -> None:
    target = "results/smoke/receipts/demo/999-9/lower.json"
    done = workflow.run("--dry-run", target, "--configfile", str(SMOKE))
    assert done.returncode == 1
    assert "MissingRuleException" in done.stderr + done.stdout


def test_a_finished_line_has_nothing_to_do(finished: Workflow) -> None:
    assert finished.planned("--configfile", str(SMOKE)) == {}


@pytest.mark.parametrize(
    ("edited", "reruns"),
    [
        # The unchanged-looking followers run too: what they make is known only when the stage before is done.
        ("validate/bench/figures.py", {"bench", "package", "summary", "report"}),
        ("recipes/assemble.py", {"assemble", "parity", "bench", "package", "summary", "report"}),
        ("publish/card.py", {"package", "report"}),
        ("validate/report/page.css", {"report"}),
        ("envs/cpu.txt", set(STAGES) - {"lint"}),  # which target cpu has not
        ("config/schema.py", set()),
    ],
)
def test_an_edited_file_reruns_its_stage_and_what_follows(finished: Workflow, edited: str, reruns: set[str]) -> None:
    path = finished.folder / edited
    path.write_text(path.read_text() + "# edited\n")
    assert set(finished.planned("--configfile", str(SMOKE))) == reruns


def test_a_release_that_was_deleted_is_laid_out_again(finished: Workflow) -> None:
    shutil.rmtree(finished.folder / "results" / "smoke" / "release")
    assert set(finished.planned("--configfile", str(SMOKE))) == {"package", "report"}


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which two variants were built; its configuration is pair.yaml."""
    workflow = copied(tmp_path_factory.mktemp("pair") / "repo")
    given = yaml.safe_load(SMOKE.read_text())
    given["checkpoints"]["demo"]["variants"].append({"name": "other", "kv_max": 128, "kv_bucket": 32, "batch": 2})
    config = workflow.folder / "pair.yaml"
    config.write_text(yaml.safe_dump(given))
    workflow.finish(config)
    return workflow.folder


def test_another_flag_reruns_one_variant_from_its_compile_on(pair: Path) -> None:
    given = yaml.safe_load((pair / "pair.yaml").read_text())
    given["checkpoints"]["demo"]["variants"][1]["flags"] = ["xla_cpu_prefer_vector_width=256"]
    config = pair / "flag.yaml"
    config.write_text(yaml.safe_dump(given))
    assert Workflow(pair).planned("--configfile", str(config)) == dict.fromkeys(
        ("compile", "assemble", "parity", "bench", "package", "summary", "report"), 1
    )


def test_another_epsilon_reruns_parity_and_what_follows(finished: Workflow) -> None:
    given = yaml.safe_load(SMOKE.read_text())
    given["parity"]["bfloat16_epsilon"] = 0.25
    config = finished.folder / "epsilon.yaml"
    config.write_text(yaml.safe_dump(given))
    assert set(finished.planned("--configfile", str(config))) == {"parity", "bench", "package", "summary", "report"}


def test_a_rule_watches_all_that_its_stage_keys_on() -> None:
    """`run_stage(modules=...)` keys a stage, the plan reruns its rule: an edit that the first sees is seen by both."""
    for stage, module in STAGES.items():
        path = ROOT.joinpath(*module.split(".")).with_suffix(".py")
        calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        named = [
            ast.literal_eval(keyword.value)
            for call in calls
            if isinstance(call.func, ast.Name) and call.func.id == "run_stage"
            for keyword in call.keywords
            if keyword.arg == "modules"
        ]
        assert len(named) == (0 if stage in ("summary", "report") else 1), stage
        for modules in named:
            assert set(source_files(*modules)) <= set(source_files(module, *STARTS.get(stage, ()))), stage


def test_rules_are_short_and_in_one_order() -> None:
    order = ["input", "output", "log", "wildcard_constraints", "threads", "resources", "params", "message", "shell"]
    for path in ROOT.glob("*/*.smk"):
        for rule in re.split(r"^(?:use )?rule ", path.read_text(), flags=re.M)[1:]:
            assert len(rule.strip().splitlines()) <= 30, rule
            directives = re.findall(r"^    (\w+):", rule, re.M)
            assert directives == [name for name in order if name in directives], rule
