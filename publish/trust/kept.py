"""Signing of files in the store, once: content that its signer has signed before keeps signature and provenance."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger.digest import sha256_bytes
from ledger.receipts import Ref
from ledger.store import Store
from publish.trust.bundle import open_bundle
from publish.trust.kinds import Refused
from publish.trust.release import PROVENANCE, SIGNATURE
from publish.trust.signing import Signer, sign_folder


def sign_once(
    files: Mapping[str, Ref], provenance: bytes, signer: Signer, store: Store, before: Path
) -> dict[str, Ref]:
    """`files` with their provenance and signature, as objects of `store`.

    `before` is a folder that may hold what was signed the last time. Its provenance and signature stay if they are of
    this signer, over these files, and say the same but for the commit; unless the tree was dirty then and is not now.
    """
    if (kept := _kept(files, provenance, signer, before)) is None:
        kept = _signed({**files, PROVENANCE: store.put_bytes(provenance)}, provenance, signer, store)
    return {**files, **{name: store.put_bytes(data) for name, data in kept.items()}}


def _kept(files: Mapping[str, Ref], provenance: bytes, signer: Signer, before: Path) -> dict[str, bytes] | None:
    try:
        said = {name: (before / name).read_bytes() for name in (PROVENANCE, SIGNATURE)}
        statement = open_bundle(said[SIGNATURE], signer.trusted)
    except (OSError, Refused):
        return None
    digests = {name: ref.sha256 for name, ref in files.items()} | {PROVENANCE: sha256_bytes(said[PROVENANCE])}
    if statement.files != digests:
        return None
    (then, source_then), (now, source_now) = _parts(said[PROVENANCE]), _parts(provenance)
    cleaner = source_then["dirty"] is not False and source_now["dirty"] is False
    return said if then == now and not cleaner else None


def _parts(provenance: bytes) -> tuple[Any, dict[str, Any]]:
    """A statement without its source, and what it says of the tree."""
    statement = json.loads(provenance)
    build = statement["predicate"]["buildDefinition"]
    sources = [one for one in build["resolvedDependencies"] if one["name"] == "source"]
    build["resolvedDependencies"] = [one for one in build["resolvedDependencies"] if one["name"] != "source"]
    return statement, sources[0]["annotations"]


def _signed(files: Mapping[str, Ref], provenance: bytes, signer: Signer, store: Store) -> dict[str, bytes]:
    """Provenance and signature over `files`, which lie as hard links in a folder for as long as that takes."""
    with tempfile.TemporaryDirectory(prefix="sign-", dir=store.root / "tmp") as aside:
        for name, ref in files.items():
            path = Path(aside, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            os.link(store.verify(ref), path)
        return {PROVENANCE: provenance, SIGNATURE: sign_folder(Path(aside), signer).read_bytes()}
