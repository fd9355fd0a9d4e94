"""An artifact laid out of nothing but a receipt and the store."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from ledger.receipts import Receipt, Ref
from ledger.stage import Outcome
from ledger.store import Store
from recipes.artifact import laid_out, lay_out
from recipes.assemble import AssembleRecipe, work
from serve.manifest import MANIFEST, Manifest, verify
from tests.build import job, point, receipt
from tests.recipes.test_assemble import receipts


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "store")


def assembled(store: Store) -> Receipt:
    recipe = AssembleRecipe(checkpoint="gemma", variant=point(44, 8, tp=2, name="tp2"))
    return receipt("assemble", work(job(recipe, store, **receipts(store))))


def test_the_receipt_is_enough_on_another_machine(store: Store, tmp_path: Path) -> None:
    made = assembled(store)
    shutil.move(store.root, tmp_path / "another" / "store")
    moved = Store(tmp_path / "another" / "store")
    with laid_out(made, moved) as folder:
        assert folder.parts[-2:] == ("variants", "tp2")
        verify(folder, Manifest.read(folder).files())
    assert not folder.exists()


def test_what_is_there_is_put_right(store: Store, tmp_path: Path) -> None:
    manifest = assembled(store).outputs[MANIFEST]
    folder = lay_out(manifest, store, tmp_path / "build")
    (folder / "decode.xla").unlink()
    (folder / "prefill.xla").unlink()
    (folder / "prefill.xla").symlink_to("nowhere")
    (folder / MANIFEST).write_text("{}")
    assert lay_out(manifest, store, tmp_path / "build") == folder
    verify(folder, Manifest.read(folder).files())


def test_a_receipt_of_another_stage(store: Store) -> None:
    with (
        pytest.raises(BadInput, match=r"the receipt of fetch names no manifest\.json"),
        laid_out(receipt("fetch", Outcome()), store),
    ):
        pass


def test_an_object_that_is_no_manifest(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is no manifest; accepted: what stage assemble of this version makes"):
        lay_out(store.put_bytes(b"{}"), store, tmp_path / "build")


def test_a_file_that_the_store_lacks(store: Store, tmp_path: Path) -> None:
    manifest = assembled(store).outputs[MANIFEST]
    lacking = Manifest.model_validate_json(store.path(manifest).read_bytes()).tables
    store.path(Ref(sha256=lacking.sha256, bytes=lacking.bytes)).unlink()
    with pytest.raises(BadInput, match=f"{lacking.sha256} is missing from the store"):
        lay_out(manifest, store, tmp_path / "build")
    assert not list((tmp_path / "build").rglob(MANIFEST))


@pytest.mark.parametrize("path", ["../../../outside", "/outside", "../../x/../../../outside"])
def test_a_path_that_leads_out_of_the_tree(store: Store, tmp_path: Path, path: str) -> None:
    told: dict[str, Any] = json.loads(store.path(assembled(store).outputs[MANIFEST]).read_bytes())
    told["tables"]["path"] = path
    with pytest.raises(BadInput, match=r"accepted: a path within the folder of its checkpoint"):
        lay_out(store.put_json(told), store, tmp_path / "build")
    assert not (tmp_path / "outside").is_symlink()
