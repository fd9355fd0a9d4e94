"""Keys: a pair for its owner only, and one sentence for every file that is no key."""

import hashlib
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from ledger.errors import BadInput
from publish.trust.keys import PRIVATE, PUBLIC, make_keys
from publish.trust.trusted import KEYS_VARIABLE, load_trusted, read_private, read_public

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


def test_the_private_key_is_its_owners_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_keys(tmp_path)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / PRIVATE).stat().st_mode) == 0o600


def test_the_fingerprint_is_what_sha256sum_says(tmp_path: Path) -> None:
    found = make_keys(tmp_path)
    assert found == hashlib.sha256((tmp_path / PUBLIC).read_bytes()).hexdigest()
    assert list(load_trusted([tmp_path / PUBLIC]).keys) == [found]


def test_the_pair_belongs_together(tmp_path: Path) -> None:
    make_keys(tmp_path)
    assert read_private(tmp_path / PRIVATE).public_key() == read_public(tmp_path / PUBLIC)


@pytest.mark.parametrize("name", [PRIVATE, PUBLIC])
def test_nothing_is_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).symlink_to(tmp_path / "nowhere")
    with pytest.raises(BadInput, match=f"{name} is there already"):
        make_keys(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_command(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "publish.trust.keys", "--out", str(tmp_path / "new" / "keys")]
    first = subprocess.run(command, capture_output=True, text=True, check=True)
    assert hashlib.sha256((tmp_path / "new/keys" / PUBLIC).read_bytes()).hexdigest() in first.stdout
    second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 2
    assert second.stderr.startswith("error: ")
    assert second.stderr.count("\n") == 1


def test_the_folder_of_the_environment_counts_only_without_keys_of_ones_own(tmp_path: Path) -> None:
    for name in ("mine", "ours"):
        make_keys(tmp_path / name)
    environ = {KEYS_VARIABLE: str(tmp_path / "ours")}
    ours = list(load_trusted(environ=environ).keys)
    mine = list(load_trusted([tmp_path / "mine" / PUBLIC], environ=environ).keys)
    assert ours == [hashlib.sha256((tmp_path / "ours" / PUBLIC).read_bytes()).hexdigest()]
    assert mine == [hashlib.sha256((tmp_path / "mine" / PUBLIC).read_bytes()).hexdigest()]


def test_a_folder_of_the_environment_without_keys(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="holds no key; accepted: a folder with files"):
        load_trusted(environ={KEYS_VARIABLE: str(tmp_path)})


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def test_files_that_are_no_public_key(tmp_path: Path) -> None:
    other = rsa.generate_private_key(65537, 2048).public_key()
    curve = ec.generate_private_key(ec.SECP256K1()).public_key()
    spki = serialization.PublicFormat.SubjectPublicKeyInfo
    make_keys(tmp_path / "keys")
    files = {
        "none.pub": "cannot be read",
        _write(tmp_path / "text.pub", b"hello").name: "is no public key",
        _write(tmp_path / "private.pub", (tmp_path / "keys" / PRIVATE).read_bytes()).name: "is no public key",
        _write(tmp_path / "rsa.pub", other.public_bytes(PEM, spki)).name: "RSA",
        _write(tmp_path / "k1.pub", curve.public_bytes(PEM, spki)).name: "secp256k1",
    }
    for name, said in files.items():
        with pytest.raises(BadInput, match=f"{name}.* {said}.*; accepted: "):
            read_public(tmp_path / name)


def test_files_that_are_no_private_key(tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    locked = key.private_bytes(PEM, PKCS8, serialization.BestAvailableEncryption(b"secret"))
    make_keys(tmp_path / "keys")
    files = {
        _write(tmp_path / "locked.key", locked).name: "is no such private key",
        _write(tmp_path / "public.key", (tmp_path / "keys" / PUBLIC).read_bytes()).name: "is no such private key",
        _write(tmp_path / "rsa.key", _rsa()).name: "RSA",
    }
    for name, said in files.items():
        with pytest.raises(BadInput, match=f"{name}.* {said}.*; accepted: PEM of an EC private key .* without"):
            read_private(tmp_path / name)


def _rsa() -> bytes:
    return rsa.generate_private_key(65537, 2048).private_bytes(PEM, PKCS8, serialization.NoEncryption())
