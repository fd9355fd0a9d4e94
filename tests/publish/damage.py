"""What goes wrong with signed folders: bytes that change, and publishers who sign what they should not."""

import base64
import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

from ledger.digest import sha256_file
from publish.trust.signing import KeySettings, load_signer, sign_folder

Edit = Callable[[Any], None]


def flip(data: bytes, chance: Random) -> bytes:
    """`data` with one byte of it changed to another."""
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ chance.randrange(1, 256)]) + data[place + 1 :]


def edit(path: Path, change: Edit) -> None:
    """Change the JSON in a file; a file that is read-only is written all the same, and its links stay as they are."""
    value = json.loads(path.read_bytes())
    change(value)
    path.unlink()
    path.write_text(json.dumps(value))


def sign_again(folder: Path, key: Path) -> None:
    """List, describe and sign a release as it now is, as a careless publisher would."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()]
    said = {name: sha256_file(folder / name) for name in names if name not in ("provenance.json", "model.sig")}
    if "release.json" in said:
        unlisted = ("release.json", "images.json")
        files = {name: {"sha256": said[name], "bytes": (folder / name).stat().st_size} for name in said}
        listed = {name: ref for name, ref in files.items() if name not in unlisted}
        edit(folder / "release.json", lambda value: value.update(files=listed))
        said["release.json"] = sha256_file(folder / "release.json")
    if (folder / "provenance.json").exists():
        subject = {name: said[name] for name in said if name == "image.json"} or said
        subjects = [{"name": name, "digest": {"sha256": digest}} for name, digest in subject.items()]
        edit(folder / "provenance.json", lambda value: value.update(subject=subjects))
    sign_as_it_is(folder, key)


def sign_as_it_is(folder: Path, key: Path) -> None:
    """Sign a folder anew, whatever is in it."""
    (folder / "model.sig").unlink(missing_ok=True)
    sign_folder(folder, load_signer(KeySettings(kind="key", key=key)))


def edit_signature(folder: Path, change: Edit) -> None:
    """Change the bundle of a folder, spelt again as its signer would."""
    path = folder / "model.sig"
    bundle = json.loads(path.read_bytes())
    change(bundle)
    path.unlink()
    path.write_text(json.dumps(bundle, separators=(",", ":")))


def edit_statement(folder: Path, change: Edit) -> None:
    """Change what the signature is over, and keep the signature."""

    def inner(bundle: Any) -> None:
        statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
        change(statement)
        bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()

    edit_signature(folder, inner)
