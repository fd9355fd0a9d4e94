"""The artifact folder: links into the store, and a manifest that names each by digest."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.stage import Outcome
from ledger.store import Store
from recipes import artifact as artifacts
from recipes import assemble
from recipes.assemble import AssembleRecipe
from serve.manifest import GRAPHS, Manifest, verify
from tests.build import TEXT_CONFIG, job, point, receipt

SHARED = {
    "chat_template.jinja",
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "tables/tables.safetensors",
    "weights/cpu-float32/tp2-rank0.safetensors",
    "weights/cpu-float32/tp2-rank1.safetensors",
}
OWN = {f"{graph}.{end}" for graph in GRAPHS for end in ("stablehlo", "xla")} | {"manifest.json"}


def receipts(store: Store) -> dict[str, Receipt]:
    """Receipts of stages whose objects hold their own names."""
    signature = {"batch": 1, "tokens": 1, "parameters": [], "outputs": [], "aliases": {"1": 0}}
    names = {
        "fetch": ["model.safetensors", "README.md", *(name for name in SHARED if "/" not in name)],
        "lower": [f"{graph}.hlo.pb" for graph in GRAPHS],
        "compile": [f"{graph}.{end}" for graph in GRAPHS for end in ("stablehlo", "xla")],
        "weights": ["rank1.safetensors", "rank0.safetensors"],
        "tables": ["tables.safetensors"],
    }
    outputs = {stage: {name: store.put_bytes(name.encode()) for name in made} for stage, made in names.items()}
    outputs["fetch"]["config.json"] = store.put_json({"text_config": TEXT_CONFIG})
    for graph in GRAPHS:
        outputs["lower"][f"{graph}.signature.json"] = store.put_json(signature | {"graph": graph})
    facts: dict[str, dict[str, Any]] = {
        "fetch": {"bos": 2, "stop_ids": [1, 106], "suppress_tokens": [7], "revision": "abc", "licence": "apache-2.0"},
        "lower": {"ring": 20},
        "compile": {"cpu_features": ["avx2", "fma"]},
    }
    recipes: dict[str, dict[str, Any]] = {"compile": {"flags": ["xla_cpu_enable_fast_math=true"]}}
    return {
        stage: receipt(stage, Outcome(outputs=made, facts=facts.get(stage, {}))).model_copy(
            update={"recipe": recipes.get(stage, {})}
        )
        for stage, made in outputs.items()
    }


def build(folder: Path, name: str = "tp2") -> Path:
    """Assemble the variant `name` below `folder`; returns its folder."""
    store = Store(folder / "store")
    recipe = AssembleRecipe(checkpoint="gemma", variant=point(44, 8, tp=2, name=name))
    outcome = assemble.build(job(recipe, store, **receipts(store)), folder / "build")
    artifact = folder / "build" / "variants" / name
    assert store.path(outcome.outputs["manifest.json"]).read_bytes() == (artifact / "manifest.json").read_bytes()
    return artifact


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


def test_the_tree_has_the_shape_of_a_release(tmp_path: Path) -> None:
    build(tmp_path)
    build(tmp_path, "slim")
    variants = {f"variants/{name}/{file}" for name in ("tp2", "slim") for file in OWN}
    assert files(tmp_path / "build") == SHARED | variants


def test_the_manifest_says_what_the_stages_found(tmp_path: Path) -> None:
    manifest = Manifest.read(build(tmp_path))
    assert (manifest.checkpoint, manifest.revision, manifest.licence) == ("gemma", "abc", "apache-2.0")
    assert manifest.variant == point(44, 8, tp=2, name="tp2")
    assert manifest.model.model_dump() == {
        "hidden_size": 96,
        "layers": 5,
        "ple_width": 24,
        "vocab_size": 512,
        "sliding_window": 12,
    }
    assert (manifest.tokens.bos, manifest.tokens.stop, manifest.tokens.suppress) == (2, (1, 106), (7,))
    assert manifest.ring == 20
    assert manifest.toolchain == {"lower-tool": "1", "compile-tool": "1"}
    for name, graph in manifest.graphs.items():
        assert graph.signature.graph == name
        assert graph.signature.aliases == {1: 0}
        assert graph.cpu_features == ("avx2", "fma")
        assert graph.flags == ("xla_cpu_enable_fast_math=true",)
    # One file per rank, in the order of ranks.
    assert [ref.path[-5 - len(".safetensors") : -len(".safetensors")] for ref in manifest.weights] == ["rank0", "rank1"]


def test_every_file_is_named_by_path_and_digest(tmp_path: Path) -> None:
    artifact = build(tmp_path)
    manifest = Manifest.read(artifact)
    verify(artifact, manifest.files())
    for ref in manifest.files():
        content = (artifact / ref.path).read_bytes()
        assert (ref.sha256, ref.bytes) == (hashlib.sha256(content).hexdigest(), len(content))
        assert content.decode() in ref.path  # objects hold their own names
    paths = {os.path.normpath(Path("variants/tp2") / ref.path) for ref in manifest.files()}
    assert paths == files(tmp_path / "build") - {"variants/tp2/manifest.json"}


def test_links_are_relative_so_that_the_whole_can_move(tmp_path: Path) -> None:
    artifact = build(tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    moved = tmp_path / "there" / artifact.relative_to(tmp_path / "here")
    verify(moved, Manifest.read(moved).files())
    links = [path for path in moved.iterdir() if path.is_symlink()]
    assert len(links) == 4
    assert not any(path.readlink().is_absolute() for path in links)


def test_the_manifest_is_the_same_bytes_wherever_it_is_built(tmp_path: Path) -> None:
    first, second = (build(tmp_path / name) / "manifest.json" for name in ("one", "two"))
    again = build(tmp_path / "one") / "manifest.json"
    assert first.read_bytes() == second.read_bytes() == again.read_bytes()
    assert str(tmp_path) not in first.read_text()


def test_the_manifest_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def complete(path: Path, _: bytes) -> None:
        assert files(path.parent) == OWN - {"manifest.json"}
        raise KeyboardInterrupt

    monkeypatch.setattr(artifacts, "write_bytes", complete)
    with pytest.raises(KeyboardInterrupt):
        build(tmp_path)
    assert not (tmp_path / "build" / "variants" / "tp2" / "manifest.json").exists()


def command_line(store: Store, folder: Path) -> list[str]:
    """The stage with its inputs, which are written into the folder, and without what it fills."""
    recipe = AssembleRecipe(checkpoint="gemma", variant=point(44, 8, tp=2, name="tp2"))
    argv = ["assemble", "--recipe", recipe.model_dump_json(), "--store", str(store.root)]
    for name, given in receipts(store).items():
        given.write(folder / f"{name}.json")
        argv += ["--input", f"{name}={folder / name}.json"]
    return argv


def test_the_command_line_takes_the_build_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path / "store")
    argv = command_line(store, tmp_path)
    argv += ["--build", str(tmp_path / "build"), "--out", str(tmp_path / "out.json")]
    monkeypatch.setattr("sys.argv", argv)
    assert assemble.main() == 0
    assert Receipt.read(tmp_path / "out.json").stage == "assemble"
    manifest = tmp_path / "build" / "variants" / "tp2" / "manifest.json"
    manifest.unlink()
    # The key is known by now, and yet the folder must be filled again.
    assert assemble.main() == 0
    assert manifest.exists()


def test_without_a_build_folder_the_manifest_alone_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    artifact = build(tmp_path / "filled")
    store = Store(tmp_path / "store")
    argv = command_line(store, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [*argv, "--out", "out.json"])
    before = {path for path in tmp_path.iterdir() if path.is_dir()}
    assert assemble.main() == 0
    assert {path for path in tmp_path.iterdir() if path.is_dir()} == before
    made = Receipt.read(tmp_path / "out.json").outputs
    assert made.keys() == {"manifest.json"}
    assert store.path(made["manifest.json"]).read_bytes() == (artifact / "manifest.json").read_bytes()


def test_a_wrong_build_flag_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    monkeypatch.setattr("sys.argv", ["assemble", "--build", "file"])
    with pytest.raises(BadInput, match="--build: file is a file"):
        assemble.main()
