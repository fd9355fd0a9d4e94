"""`python -m publish.trust.keys --out DIR`: a key pair for signing releases.

The private key is written for its owner only and nothing is ever overwritten. What others need is the public key, by a
way of their own: a key that comes with what it signed proves nothing.
"""

from __future__ import annotations

import os
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ledger.atomic import make_folder, sync
from ledger.errors import BadInput, run_cli
from ledger.flags import Parser, check_folder
from ledger.stage import say
from publish.trust.trusted import fingerprint, public_pem

PRIVATE = "publisher.key"
PUBLIC = "publisher.pub"


def make_keys(folder: Path) -> str:
    """Write a new pair of P-256 keys into `folder` and return the public one's fingerprint, hex sha256.

    Raises BadInput when either file is there.
    """
    make_folder(folder)
    for name in (PRIVATE, PUBLIC):
        if os.path.lexists(folder / name):
            raise BadInput(f"{folder / name} is there already; accepted: a folder without {PRIVATE} and {PUBLIC}")
    key = ec.generate_private_key(ec.SECP256R1())
    text = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    _write(folder / PRIVATE, text, 0o600)
    _write(folder / PUBLIC, public_pem(key.public_key()), 0o644)
    sync(folder)
    return fingerprint(key.public_key())


def _write(path: Path, data: bytes, mode: int) -> None:
    # Not aside and renamed: a rename would replace what somebody else wrote in between.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(descriptor)


def main() -> int:
    """Make the keys and say where they are."""
    parser = Parser("publish.trust.keys", "Make a key pair for signing releases.")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="where the two files go")
    folder = parser.parse_args().out
    check_folder("--out", folder)
    found = make_keys(folder)
    say(f"{folder / PRIVATE}: keep it secret, and a copy of it elsewhere")
    say(f"{folder / PUBLIC}: for everybody who verifies; sha256 {found}")
    return 0


if __name__ == "__main__":
    run_cli(main)
