"""Packages of a role: placeholders by name, traps by reason, the lock."""

from __future__ import annotations

from pathlib import Path

import pytest

from recipes.doctor import pins
from recipes.doctor.finding import Finding
from recipes.doctor.packages import is_placeholder, packages
from tests.recipes.doctor.conftest import Install

# As PyPI had them in December 2026, with what their metadata says.
_PLACEHOLDERS = {
    "torch-neuronx": "1.0",
    "neuronx-cc": "1.0.post1",
    "libneuronxla": "1.0",
    "neuronx-distributed": "0.1",
}
_SAYS = "WRONG PACKAGE. Please install the package from Neuron Repository - pip.repos.neuron.amazonaws.com"


def _found(role: str = "inf2-build") -> dict[str, Finding]:
    assert role in {"cpu", "inf2-build", "inf2-serve"}
    return {finding.name: finding for finding in packages(role)}  # type: ignore[arg-type]


@pytest.mark.parametrize("says", [_SAYS, ""])
@pytest.mark.parametrize("name", _PLACEHOLDERS)
def test_a_placeholder_is_refused_by_name(install: Install, name: str, says: str) -> None:
    install(name, _PLACEHOLDERS[name], says)
    finding = _found()[name]
    assert finding.state == "wrong" and finding.blocks
    assert finding.found == f"{_PLACEHOLDERS[name]}, the placeholder that PyPI holds under this name"
    assert finding.how.startswith(f"pip uninstall {name}; pip install --extra-index-url https://pip.repos.neuron")


def test_the_real_package_is_none_and_accepted_with_its_build(install: Install) -> None:
    install("torch-neuronx", "2.8.0.2.12.22436+0f1dac25", "PyTorch for Neuron")
    assert not is_placeholder("torch-neuronx")
    assert _found()["torch-neuronx"].state == "ok"


def test_another_sdk_is_wrong_and_no_placeholder(install: Install) -> None:
    install("torch-neuronx", "2.8.0.2.10.16998")
    finding = _found()["torch-neuronx"]
    assert (finding.state, finding.found, finding.accepted) == ("wrong", "2.8.0.2.10.16998", "2.8.0.2.12.22436")


@pytest.mark.parametrize(
    ("name", "version", "reason"),
    [("islpy", "2026.2.1", "NCC_ISMP902"), ("torch-xla", "2.8.0", "10 to 15 % slower")],
)
def test_a_trap_is_told_with_its_reason(install: Install, name: str, version: str, reason: str) -> None:
    install(name, version)
    finding = _found()[name]
    assert finding.blocks and reason in finding.how


def test_what_is_missing_says_how_to_get_it() -> None:
    finding = _found("inf2-serve")["torch-neuronx"]
    assert finding.state == "missing" and finding.how.endswith("-r envs/inf2-serve.in")


def test_a_bound_on_what_others_bring_asks_for_nothing() -> None:
    assert not _found()["islpy"].blocks


def test_the_cpu_role_is_content_with_this_environment() -> None:
    found = _found("cpu")
    assert {finding.state for finding in found.values()} == {"ok"}
    assert found["lock"].found.endswith("packages as locked")


def test_the_lock_names_what_is_not_as_locked(
    install: Install, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "inf2-build.in").write_text("one==1.0\nthree\n")
    (tmp_path / "inf2-build.txt").write_text("one==1.0 \\\n    --hash=x\ntwo==2.0\nthree==3.0\n")
    monkeypatch.setattr(pins, "ENVS", tmp_path)
    install("one", "1.0+local")
    install("three", "3.0.1")
    found = _found()
    assert found["lock"].state == "wrong" and found["lock"].found == "not as locked: two absent, three 3.0.1"
    assert found["lock"].how.endswith("-r envs/inf2-build.txt")
    assert found["one"].state == "ok"


def test_no_lock_is_a_note_that_says_where_one_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inf2-build.in").write_text("")
    monkeypatch.setattr(pins, "ENVS", tmp_path)
    lock = _found()["lock"]
    assert lock.state == "note" and "make lock-inf2 on a host that reaches" in lock.how
