"""Signing a folder: the library's own tool agrees, and what is signed stays signed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from model_signing import hashing, verifying

from ledger.digest import sha256_file
from ledger.errors import BadInput
from publish.trust.compare import check_files
from publish.trust.keys import PRIVATE, PUBLIC, make_keys
from publish.trust.kinds import Refused
from publish.trust.signing import KeySettings, Signer, load_signer, sign_folder
from publish.trust.trusted import load_trusted


@pytest.fixture
def signer(tmp_path: Path) -> Signer:
    make_keys(tmp_path / "keys")
    return load_signer(KeySettings(kind="key", key=tmp_path / "keys" / PRIVATE))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "folder"
    for name, text in {"a": "one", "sub/b": "two", ".gitignore": "x", "sub/ü": "three"}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def all_but_the_signature() -> hashing.Config:
    """What of a folder the library looks at: it leaves out what is git's unless it is told not to."""
    config = hashing.Config()  # type: ignore[no-untyped-call]
    return config.set_ignored_paths(paths=["model.sig"], ignore_git_paths=False)


def test_the_library_accepts_the_signature_and_refuses_a_change(folder: Path, signer: Signer, tmp_path: Path) -> None:
    """Its verifier shares nothing with our reading of a signature."""
    path = sign_folder(folder, signer)
    verifier = verifying.Config()  # type: ignore[no-untyped-call]
    verifier.use_elliptic_key_verifier(public_key=tmp_path / "keys" / PUBLIC)
    verifier.set_hashing_config(all_but_the_signature()).verify(folder, path)
    (folder / "sub/b").write_text("tow")
    with pytest.raises(ValueError, match=r"Hash mismatch for .*sub/b"):
        verifier.verify(folder, path)


def test_a_signature_of_the_librarys_own_tool_is_accepted(folder: Path, signer: Signer, tmp_path: Path) -> None:
    (folder / ".gitignore").unlink()
    flags = ["--signature", folder / "model.sig", "--private_key", tmp_path / "keys" / PRIVATE]
    command = [sys.executable, "-m", "model_signing", "sign", "key", folder, *flags]
    subprocess.run([str(part) for part in command], check=True, capture_output=True)
    statement = check_files(folder, signer.trusted)
    assert statement.files == {name: sha256_file(folder / name) for name in ("a", "sub/b", "sub/ü")}


def test_every_file_is_covered_and_the_signer_named(folder: Path, signer: Signer) -> None:
    sign_folder(folder, signer)
    statement = check_files(folder, signer.trusted)
    assert set(statement.files) == {"a", "sub/b", "sub/ü", ".gitignore"}
    assert statement.signer == signer.identity


def test_unchanged_files_keep_their_signature(folder: Path, signer: Signer) -> None:
    before = sign_folder(folder, signer).read_bytes()
    assert sign_folder(folder, signer).read_bytes() == before
    (folder / "a").write_text("other")
    assert sign_folder(folder, signer).read_bytes() != before
    check_files(folder, signer.trusted)


def test_another_signer_signs_anew(folder: Path, signer: Signer, tmp_path: Path) -> None:
    sign_folder(folder, signer)
    make_keys(tmp_path / "others")
    other = load_signer(KeySettings(kind="key", key=tmp_path / "others" / PRIVATE))
    sign_folder(folder, other)
    assert check_files(folder, other.trusted).signer == other.identity
    with pytest.raises(Refused) as refused:
        check_files(folder, signer.trusted)
    assert refused.value.kind == "unknown_signer"


@pytest.mark.parametrize("curve", [ec.SECP384R1(), ec.SECP521R1()])
def test_the_other_curves_of_the_bundle_format(folder: Path, tmp_path: Path, curve: ec.EllipticCurve) -> None:
    key = ec.generate_private_key(curve)
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    (tmp_path / "key").write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    (tmp_path / "pub").write_bytes(key.public_key().public_bytes(pem, serialization.PublicFormat.SubjectPublicKeyInfo))
    signer = load_signer(KeySettings(kind="key", key=tmp_path / "key"))
    sign_folder(folder, signer)
    assert check_files(folder, load_trusted([tmp_path / "pub"])).signer == signer.identity


def test_what_cannot_be_signed(folder: Path, signer: Signer) -> None:
    (folder / "link").symlink_to("a")
    with pytest.raises(BadInput, match="link' cannot be signed; accepted: regular files"):
        sign_folder(folder, signer)
    (folder / "link").unlink()
    Path(os.fsdecode(bytes(folder) + b"/\xff")).write_text("")
    with pytest.raises(BadInput, match="cannot be signed"):
        sign_folder(folder, signer)
    assert not (folder / "model.sig").exists()


def test_a_kill_while_signing_leaves_no_half_of_a_signature(
    folder: Path, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(*_: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(signer), "sign", killed)
    with pytest.raises(KeyboardInterrupt):
        sign_folder(folder, signer)
    assert not (folder / "model.sig").exists()
