"""An artifact folder out of the store: links to all that its manifest names, and the manifest last.

Whoever runs an artifact lays it out anew: the links of one machine lead nowhere on another one, and the receipt of
stage assemble, which does travel, is enough.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import ValidationError

from ledger.atomic import make_folder, write_bytes
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Ref, Store
from serve.manifest import MANIFEST, Manifest


def lay_out(manifest: Ref, store: Store, build: Path) -> Path:
    """Fill build/variants/<variant>/, and beside it what variants share; returns the variant's folder.

    Raises BadInput for an object that is no manifest, and where the store lacks a file.
    """
    path = store.verify(manifest)
    data = path.read_bytes()
    try:
        made = Manifest.model_validate_json(data)
    except ValidationError:
        raise BadInput(f"object {path} is no manifest; accepted: what stage assemble of this version makes") from None
    folder = build / "variants" / made.variant.name
    for file in made.files():
        destination = _within(build, folder, file.path)
        make_folder(destination.parent)
        store.link(Ref(sha256=file.sha256, bytes=file.bytes), destination)
    make_folder(folder)
    write_bytes(folder / MANIFEST, data)
    return folder


@contextmanager
def laid_out(assembled: Receipt, store: Store) -> Iterator[Path]:
    """The variant's folder of `lay_out`, for as long as it is needed; BadInput for another stage's receipt too."""
    if (manifest := assembled.outputs.get(MANIFEST)) is None:
        raise BadInput(f"the receipt of {assembled.stage} names no {MANIFEST}; accepted: one of stage assemble")
    with TemporaryDirectory() as build:
        yield lay_out(manifest, store, Path(build))


def _within(build: Path, folder: Path, path: str) -> Path:
    """Where a file of the manifest goes; BadInput for a path that leads out of the build tree."""
    destination = Path(os.path.normpath(folder / path))
    if not destination.is_relative_to(os.path.normpath(build)):
        raise BadInput(f"{MANIFEST} names the file {path}; accepted: a path within the folder of its checkpoint")
    return destination
