"""The stage fetch from its command line, with sources on this machine; test_fetch_hub.py has the Hub."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store
from recipes import fetch
from recipes.checkpoint import opened
from recipes.tiny import build

Tiny = tuple[Path, dict[str, Any]]
Run = Callable[..., Receipt]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the stage with a recipe and read its receipt back."""

    def stage(**recipe: Any) -> Receipt:
        out = tmp_path / "fetch.json"
        whole = {"geometry": "tiny", "licence": "apache-2.0", "files": {}, "template_sha256": None} | recipe
        flags = ["--recipe", json.dumps(whole), "--store", str(tmp_path / "store"), "--out", str(out)]
        monkeypatch.setattr("sys.argv", ["fetch", *flags])
        assert fetch.main() == 0
        return Receipt.read(out)

    return stage


def path_source(folder: Path) -> dict[str, str]:
    return {"kind": "path", "path": str(folder)}


def digests(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_folder_is_copied_whole(tiny: Tiny, run: Run) -> None:
    receipt = run(source=path_source(tiny[0]))
    assert {name: ref.sha256 for name, ref in receipt.outputs.items()} == digests(tiny[0])
    geometry, revision = receipt.facts["geometry"], receipt.facts["revision"]
    assert receipt.facts == {
        "bos": 2,
        "stop_ids": [1, 106, 50],
        "suppress_tokens": [2045, 2044],
        "template_sha256": digests(tiny[0])["chat_template.jinja"],
        "licence": "apache-2.0",
        "revision": revision,
        "geometry": geometry,
        "tensors": tiny[1]["tensors"],
        "text_tensors": receipt.facts["text_tensors"],
    }
    assert len(geometry) == len(revision) == 64


def test_only_the_checkpoints_files_are_kept(copied: Callable[[], Path], run: Run) -> None:
    folder = copied()
    before = run(source=path_source(folder)).facts["revision"]
    (folder / "README.md").write_text("---\nlicense: apache-2.0\n---\n")
    (folder / "notes.txt").write_text("mine")
    receipt = run(source=path_source(folder))
    assert not {"README.md", "notes.txt"} & receipt.outputs.keys()
    assert receipt.facts["revision"] == before


def test_edited_folder_is_fetched_again_and_an_unchanged_one_is_not(
    copied: Callable[[], Path], run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied()
    first = run(source=path_source(folder))
    assert run(source=path_source(folder)) == first
    assert "unchanged" in capsys.readouterr().out
    with (folder / "chat_template.jinja").open("a") as file:
        file.write("\n")
    assert run(source=path_source(folder)).facts["template_sha256"] != first.facts["template_sha256"]


def test_pins_licence_template_and_geometry_are_enforced(tiny: Tiny, copied: Callable[[], Path], run: Run) -> None:
    source, found = path_source(tiny[0]), digests(tiny[0])
    run(source=source, files=found, template_sha256=found["chat_template.jinja"])
    with pytest.raises(BadInput, match=r"config\.json has sha256 .*; accepted: 0{64}, as pinned"):
        run(source=source, files={"config.json": "0" * 64})
    with pytest.raises(BadInput, match=r"chat_template\.jinja has sha256 .*; accepted: 0{64}, as pinned"):
        run(source=source, template_sha256="0" * 64)
    with pytest.raises(BadInput, match=r"text_config\..* as in geometry gemma-4-E2B-it"):
        run(source=source, geometry="gemma-4-E2B-it")
    folder = copied()
    (folder / "README.md").write_text("---\nlicense: gemma\n---\n")
    with pytest.raises(BadInput, match=r"license is 'gemma'; accepted: 'apache-2\.0'"):
        run(source=path_source(folder))


@pytest.mark.parametrize(
    ("name", "old", "new", "sentence"),
    [
        ("chat_template.jinja", "{", "{{ 1 // 0 }}{", r"chat_template\.jinja cannot render a plain turn"),
        ("generation_config.json", "2045", "1000000", r"suppress_tokens is 1000000; accepted: 0 to 2047"),
        ("config.json", '"image_token_id": 2040', '"image_token_id": "x"', r"image_token_id is 'x'; accepted"),
    ],
)
def test_what_later_stages_would_stumble_over_is_refused(
    copied: Callable[[], Path], run: Run, name: str, old: str, new: str, sentence: str
) -> None:
    folder = copied()
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(BadInput, match=sentence):
        run(source=path_source(folder))


def test_own_folder_needs_no_geometry(tiny: Tiny, run: Run) -> None:
    named, unnamed = (run(source=path_source(tiny[0]), geometry=name) for name in ("tiny", None))
    assert named.facts == unnamed.facts


def test_folder_that_is_not_there(run: Run, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"source\.path: found '.*nowhere', which is no folder; accepted: a checkpoint"):
        run(source=path_source(tmp_path / "nowhere"))
    assert not (tmp_path / "fetch.json").exists()


def test_tiny_is_built_with_the_recipes_numbers(tiny: Tiny, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def build_tiny(folder: Path, **options: Any) -> dict[str, Any]:
        asked.append((options.pop("geometry").name, options))
        shutil.copytree(tiny[0], folder, dirs_exist_ok=True)
        return dict(tiny[1])

    monkeypatch.setattr(build, "build_tiny", build_tiny)
    receipt = run(source={"kind": "tiny", "seed": 3, "steps": 20})
    assert asked == [("tiny.json", {"seed": 3, "steps": 20})]
    assert receipt.facts["tiny"]["heldout_loss"] == tiny[1]["heldout_loss"]
    assert "measured" not in receipt.facts["tiny"]
    assert receipt.measured["tiny_train_seconds"] == tiny[1]["measured"]["tiny_train_seconds"]
    assert {name: ref.sha256 for name, ref in receipt.outputs.items()} == digests(tiny[0])


def test_receipt_becomes_a_folder_again(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    receipt, store = run(source=path_source(tiny[0])), Store(tmp_path / "store")
    folder = tmp_path / "again"
    folder.mkdir()
    store.lay_out(receipt.outputs, folder)
    assert digests(folder) == digests(tiny[0])
    assert all(path.is_symlink() for path in folder.iterdir())
    with opened(receipt, store) as checkpoint:
        place = checkpoint.folder
        assert len(checkpoint.names()) == tiny[1]["tensors"]
        assert checkpoint.tensor("model.language_model.norm.weight").shape == (128,)
    assert not place.exists()


def test_receipt_whose_object_is_gone(tiny: Tiny, run: Run, tmp_path: Path) -> None:
    receipt, store = run(source=path_source(tiny[0])), Store(tmp_path / "store")
    store.path(receipt.outputs["config.json"]).unlink()
    with pytest.raises(BadInput, match="missing from the store"), opened(receipt, store):
        pass
