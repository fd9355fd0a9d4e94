"""What snakemake compares: another SDK in reach, told without importing it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from recipes.neuron.presence import presence


def test_another_sdk_in_reach_is_another_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = presence()
    assert presence() == before
    package = tmp_path / "torch_neuronx"
    package.mkdir()
    (package / "__init__.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    found = presence()
    assert found != before
    assert f"torch_neuronx at {package / '__init__.py'}" in found
    assert "torch_neuronx" not in sys.modules


def test_another_compiler_in_reach_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "neuronx-cc"
    compiler.write_text("#!/bin/sh\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert f"neuronx-cc at {compiler}" in presence()
