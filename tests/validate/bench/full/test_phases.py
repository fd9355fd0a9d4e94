"""The phases with workers that are no models: who is asked what, and what becomes of the times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.validate.bench.artifacts import with_graph
from validate.bench import artifact_worker, read_probe
from validate.bench.full import phases

FAKE = "tests.validate.bench.fake_worker"


@pytest.fixture
def artifacts(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """A folder for each variant, and the fake worker in the place of those that would run it."""
    for module in (artifact_worker, read_probe):
        monkeypatch.setattr(module, "MODULE", FAKE)
    for name in phases.VARIANTS:
        with_graph(tmp_path / name, checkpoint)
    return {name: tmp_path / name for name in phases.VARIANTS}


def prompts(length: int) -> list[int]:
    return [2] * length


def asked(folder: Path) -> list[str]:
    return (folder / "log").read_text().splitlines()


def test_steps_are_medians_of_every_side(
    artifacts: dict[str, Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    found = phases.steps(artifacts, prompts, threads=1, rounds=2)
    assert found["step_bytes"] == 40 * 2 + 12 * 4
    # The fake's steps take half a second, of which an eighth outside the runtime; its probe reads 4e9 bytes in as long.
    assert {found[f"{name}_s"] for name in (*phases.CONTEXTS, phases.SLOTS)} == {0.5}
    assert (found["host_s"], found["dispatch_s"]) == (0.125, 0.375)
    assert found["probe_s"] == pytest.approx(0.5 * found["step_bytes"] / 4e9)
    assert asked(artifacts["8192-512"]) == ["subject 448 2"]
    assert asked(artifacts["batch8"]) == [f"subject {'+'.join(['128'] * 8)} 2"]


def test_transformers_counts_in_its_best_mode(artifacts: dict[str, Path], tmp_path: Path) -> None:
    log = tmp_path / "theirs"
    log.touch()
    found = phases.beside(artifacts, (FAKE, str(log), "none"), prompts, threads=1, rounds=2)
    assert found["ours"] == {"answer": 0.25, "slots": 0.25, "prefill": 1.0, "at_2048": 0.25}
    assert found["transformers"] == {"answer": 0.5, "slots": 0.5, "prefill": 2.0, "at_2048": 0.5}
    lines = log.read_text().splitlines()
    # The slowest mode is twice the best one: it had one round of each task.
    assert sum(line.startswith("eager") for line in lines) == 3
    assert asked(artifacts["2560-512"]) == ["subject 2048 9"] * 2


def test_load_is_a_fresh_process(artifacts: dict[str, Path]) -> None:
    found = phases.load(artifacts["512-128"], threads=1)
    assert found["load_s"] > 0
    assert found["above_weights"] > 1e6
