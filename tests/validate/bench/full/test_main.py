"""The command on configurations that it cannot measure, and the share that a further variant adds."""

from __future__ import annotations

from pathlib import Path

import pytest

from config.loading import load
from ledger.errors import BadInput
from tests.validate.bench.artifacts import with_graph
from validate.bench.full import phases
from validate.bench.full.__main__ import added_bytes_ratio, built, main

ROOT = Path(__file__).parents[4]


def run(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr("sys.argv", ["full", *flags])
    return main()


def test_variants_that_are_not_built_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="512-128 is not built; accepted: what `make bench-full` builds first"):
        run(monkeypatch, str(ROOT / "config/full.yaml"), "--out", "summary.json")
    assert not (tmp_path / "summary.json").exists()


def test_a_configuration_without_the_variants_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="variants: found no 8192-512; accepted by the full bench: 512-128, 8192-512"):
        run(monkeypatch, str(ROOT / "config/demo.yaml"), "--out", "summary.json")


def test_rounds_are_at_least_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="argument --rounds: found '0'; accepted: a whole number, 1 or more"):
        run(monkeypatch, str(ROOT / "config/full.yaml"), "--out", "summary.json", "--rounds", "0")


def test_full_yaml_has_every_variant_that_is_timed(tmp_path: Path) -> None:
    checkpoint = load(ROOT / "config/full.yaml").checkpoints["e2b"]
    for name in phases.VARIANTS:
        (tmp_path / "build/e2b/variants" / name).mkdir(parents=True)
        (tmp_path / "build/e2b/variants" / name / "manifest.json").touch()
    assert set(built(checkpoint, tmp_path)) == set(phases.VARIANTS)
    variants = {variant.name: variant for variant in checkpoint.variants}
    variant = variants["512-128"]
    assert (variant.dtype, variant.slim, variant.batch) == ("bfloat16", True, 1)
    assert variants[phases.SLOTS].batch == 8


def test_what_a_further_variant_adds_is_a_share_of_the_first(tmp_path: Path, checkpoint: Path) -> None:
    folders = {name: tmp_path / name for name in phases.VARIANTS}
    for folder in folders.values():
        manifest = with_graph(folder, checkpoint)
        weights = manifest.tables.model_copy(update={"bytes": 10_000_000})
        (folder / "manifest.json").write_text(manifest.model_copy(update={"weights": (weights,)}).model_dump_json())
    own = (folders["512-128"] / "manifest.json").stat().st_size
    assert added_bytes_ratio(folders) == pytest.approx(own / (own + 10_000_000))
