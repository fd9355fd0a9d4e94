"""The judge of a release folder: offline, and one verdict per cause.

The order makes a single cause give its own verdict. First the signature over the statement, which needs no other file
of the folder; then every file against the statement; then, of files that are now known to be the signer's, whether
they are a release at all: its list, its receipts, its provenance, and whether this version can run it.
"""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from pathlib import Path

from ledger.errors import BadInput
from publish.trust.compare import Reader, check_files, compare, reader
from publish.trust.judge import (
    judge_licences,
    judge_list,
    judge_manifest,
    judge_parity,
    judge_provenance,
    judge_receipts,
)
from publish.trust.kinds import Kind, Refused, Verdict
from publish.trust.release import ADDED_BY_SIGNING, LIST, PROVENANCE, REQUIRED, SBOM, SIGNATURE, Listed
from publish.trust.trusted import Identity, Trusted, load_trusted
from serve.manifest import MANIFEST

__all__ = ["Identity", "Kind", "Refused", "Trusted", "Verdict", "load_trusted", "verify_folder"]


def verify_folder(folder: Path, trusted: Trusted) -> Verdict:
    """Judge the release in `folder`; BadInput when there is no such folder."""
    if not folder.is_dir():
        raise BadInput(f"{folder} is no folder; accepted: a release folder")
    digest = ""
    try:
        if not (folder / LIST).exists() and not (folder / SIGNATURE).exists():
            raise Refused("not_a_release", f"{folder} has no {LIST}; accepted: a release folder")
        statement = check_files(folder, trusted)
        digest = statement.digest
        listed = _judge(folder, statement.files)
    except Refused as refused:
        return Verdict(refused.kind, str(refused), digest)
    variants = ", ".join(listed.variants)
    said = f"{listed.name}: {len(statement.files)} files as signed by {statement.signer}; parity passed for {variants}"
    return Verdict("ok", said, digest)


def _judge(folder: Path, files: Mapping[str, str]) -> Listed:
    """The list of a release that is complete, passed, and one that this version can run."""
    if LIST not in files:
        raise Refused("not_a_release", f"{folder} is signed and has no {LIST}; accepted: a release folder")
    read = reader(folder, files)
    listed = judge_list(read(LIST))
    compare(
        {name: digest for name, digest in files.items() if name not in (LIST, *ADDED_BY_SIGNING)},
        {name: ref.sha256 for name, ref in listed.files.items()},
        f"listed in {LIST}",
    )
    for name in REQUIRED:
        read(name)
    for name in listed.variants:
        _judge_variant(name, files, read)
    judge_licences(read(SBOM), files)
    judge_provenance(read(PROVENANCE), {name: digest for name, digest in files.items() if name != PROVENANCE})
    _check_strays(listed)
    return listed


def _judge_variant(name: str, files: Mapping[str, str], read: Reader) -> None:
    place = f"variants/{name}"
    manifest = judge_manifest(read(f"{place}/{MANIFEST}"), name)
    for file in manifest.files():
        path = posixpath.normpath(f"{place}/{file.path}")
        if files.get(path) != file.sha256:
            kind: Kind = "file_changed" if path in files else "file_missing"
            raise Refused(kind, f"{path} is not what {place}/{MANIFEST} names; accepted: sha256 {file.sha256}")
    judge_parity(name, judge_receipts(name, f"{place}/receipts", files, read), files[f"{place}/{MANIFEST}"])


def _check_strays(listed: Listed) -> None:
    """What lies under variants/ could be served, so nothing may lie there that no parity has judged."""
    for path in listed.files:
        top, _, rest = path.partition("/")
        if top == "variants" and rest.partition("/")[0] not in listed.variants:
            raise Refused(
                "extra_file", f"{path} is of no variant of the release; accepted: {', '.join(listed.variants)}"
            )
