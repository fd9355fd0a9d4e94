"""The files of a folder against what was signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from ledger.digest import sha256_bytes, sha256_file
from publish.trust.bundle import open_bundle
from publish.trust.kinds import Refused
from publish.trust.release import SIGNATURE, is_plain, walk
from publish.trust.statement import Statement
from publish.trust.trusted import Trusted

Reader = Callable[[str], bytes]

_LARGEST_SIGNATURE = 64 << 20
# What the Hub adds to a repository, and its client to a folder that it downloads; nothing here or in serve/ reads them.
_HUBS_OWN, _HUBS_NOTES = ".gitattributes", ".cache/huggingface/"


def check_files(folder: Path, trusted: Trusted) -> Statement:
    """What a trusted signer says of `folder`, once its files are exactly those; Refused otherwise."""
    path = folder / SIGNATURE
    if not path.exists():
        raise Refused("unsigned", f"{folder} has no {SIGNATURE}; accepted: a signed folder")
    if not is_plain(path) or path.stat().st_size > _LARGEST_SIGNATURE:
        raise Refused("bad_signature", f"{path} is no signature file; accepted: a Sigstore bundle")
    statement = open_bundle(path.read_bytes(), trusted)
    there = {name: path for name, path in walk(folder).items() if name in statement.files or not _is_note(name)}
    compare({name: _digest(path) for name, path in there.items()}, statement.files, "signed")
    return statement


def compare(found: Mapping[str, str], accepted: Mapping[str, str], said: str) -> None:
    """Refused with the first file that is missing, changed or extra; `said` is what `accepted` is: "signed"."""
    if missing := sorted(accepted.keys() - found.keys()):
        raise Refused("file_missing", f"{_first(missing)} missing; accepted: every file as {said}")
    if changed := [name for name in sorted(accepted) if found[name] != accepted[name]]:
        here, there = found[changed[0]], accepted[changed[0]]
        raise Refused("file_changed", f"{_first(changed)} changed, sha256 {here}; accepted: {there}, as {said}")
    if extra := sorted(found.keys() - accepted.keys()):
        raise Refused("extra_file", f"{_first(extra)} not {said}; accepted: the files that are and no other")


def reader(folder: Path, files: Mapping[str, str]) -> Reader:
    """A function that reads a file of `folder` and raises Refused unless its bytes are as in `files`."""

    def read(name: str) -> bytes:
        if name not in files:
            raise Refused("file_missing", f"{name} is not among the signed files; accepted: a folder with it")
        data = (folder / name).read_bytes()
        if sha256_bytes(data) != files[name]:
            raise Refused("file_changed", f"{name} changed while it was judged; accepted: {files[name]}, as signed")
        return data

    return read


def _is_note(name: str) -> bool:
    return name in (SIGNATURE, _HUBS_OWN) or name.startswith(_HUBS_NOTES)


def _digest(path: Path) -> str:
    # A link could point elsewhere a moment later, and a pipe would never end.
    return sha256_file(path) if is_plain(path) else "of a link or device"


def _first(names: list[str]) -> str:
    first = names[0] if names[0].isprintable() else ascii(names[0])
    return f"{first} is" if len(names) == 1 else f"{first} (and {len(names) - 1} more) is"
