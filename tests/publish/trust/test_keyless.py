"""Keyless signing and checking: what is made of Sigstore's answers. Sigstore itself is out of reach and is faked here,
at the library's boundary: its client for signing and its verifier."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest
import sigstore.models
import sigstore.verify
from cryptography.x509 import Certificate
from sigstore.errors import TUFError, VerificationError
from sigstore.models import Bundle

from ledger.errors import BadInput
from publish.trust.compare import check_files
from publish.trust.kinds import Refused
from publish.trust.signing import KeylessSettings, load_signer, sign_folder
from publish.trust.trusted import Identity, Trusted
from tests.publish.trust.test_statement import FILES, statement

ISSUER = "https://accounts.example.com"
ME = Identity(ISSUER, "ci@example.com")
SETTINGS = KeylessSettings(kind="keyless", issuer=ISSUER, subject="ci@example.com")
PAYLOAD = json.dumps(statement(FILES)).encode()


def bundle(payload: bytes) -> str:
    """The shape of a keyless bundle; its certificate is one only to the fake."""
    encoded = base64.b64encode(payload).decode()
    envelope = {"payload": encoded, "payloadType": "application/vnd.in-toto+json", "signatures": [{"sig": "AAAA"}]}
    material = {"certificate": {"rawBytes": "AAAA"}, "tlogEntries": []}
    return json.dumps({"verificationMaterial": material, "dsseEnvelope": envelope}, separators=(",", ":"))


class FakeSigstore:
    """Stands for Sigstore's answers: who the certificate is of, and whether the signature holds."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.subject, self.issuer, self.holds, self.reachable = ME.subject, ME.issuer, True, True
        patch.setattr(sigstore.models.ClientTrustConfig, "production", self._production)
        patch.setattr(sigstore.verify, "Verifier", lambda trusted_root: self)
        patch.setattr(Bundle, "from_json", json.loads)
        patch.setattr("sigstore.verify.policy.Identity", lambda identity, issuer: _Named(self, identity, issuer))

    def _production(self) -> Any:
        if not self.reachable:
            raise TUFError("no route\nto host")
        return type("Config", (), {"trusted_root": None})

    def verify_dsse(self, bundle: Any, policy: Any) -> tuple[str, bytes]:
        policy.verify(None)
        if not self.holds:
            raise VerificationError("the log's promise\ndoes not hold")
        return bundle["dsseEnvelope"]["payloadType"], base64.b64decode(bundle["dsseEnvelope"]["payload"])


class _Named:
    def __init__(self, fake: FakeSigstore, identity: str, issuer: str) -> None:
        self._same = (fake.subject, fake.issuer) == (identity, issuer)

    def verify(self, _: Certificate) -> None:
        if not self._same:
            raise VerificationError("of somebody else")


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeSigstore:
    return FakeSigstore(monkeypatch)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.sig").write_text(bundle(PAYLOAD))
    return tmp_path


def refusal(folder: Path, trusted: Trusted) -> str:
    with pytest.raises(Refused) as refused:
        check_files(folder, trusted)
    assert "\n" not in str(refused.value)
    return refused.value.kind


def test_a_trusted_identity_is_asked_for_its_files(fake: FakeSigstore, folder: Path) -> None:
    """The signature is fine, so what is missed is the files that it speaks of."""
    assert refusal(folder, Trusted({}, (Identity(ISSUER, "other@example.com"), ME))) == "file_missing"


def test_an_identity_that_nobody_trusts(fake: FakeSigstore, folder: Path) -> None:
    assert refusal(folder, Trusted()) == "unknown_signer"
    fake.subject = "stranger@example.com"
    assert refusal(folder, Trusted({}, (ME,))) == "unknown_signer"
    fake.subject, fake.issuer = ME.subject, "https://accounts.example.org"
    assert refusal(folder, Trusted({}, (ME,))) == "unknown_signer"


def test_a_signature_that_sigstore_refuses(fake: FakeSigstore, folder: Path) -> None:
    fake.holds = False
    assert refusal(folder, Trusted({}, (ME,))) == "bad_signature"


def test_a_bundle_over_something_else(fake: FakeSigstore, folder: Path) -> None:
    text = bundle(PAYLOAD).replace("application/vnd.in-toto+json", "text/plain")
    (folder / "model.sig").write_text(text)
    assert refusal(folder, Trusted({}, (ME,))) == "bad_signature"


def test_sigstores_keys_out_of_reach(fake: FakeSigstore, folder: Path) -> None:
    fake.reachable = False
    with pytest.raises(BadInput, match="own keys cannot be used: no route to host; accepted: --trust-config"):
        check_files(folder, Trusted({}, (ME,)))


def test_a_trust_configuration_that_is_none(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "trust.json"
    path.write_text("{}")
    with pytest.raises((BadInput, Refused)):
        check_files(folder, Trusted({}, (ME,), path))


class FakeConfig:
    """`model_signing.signing.Config`, as far as it would call Sigstore."""

    def use_sigstore_signer(self, **options: Any) -> "FakeConfig":
        assert options["use_ambient_credentials"]
        return self

    def set_hashing_config(self, _: Any) -> "FakeConfig":
        return self

    def sign(self, folder: Path, path: Path) -> None:
        assert folder.is_dir()
        path.write_text(bundle(PAYLOAD))


def test_a_folder_is_signed_by_an_identity(fake: FakeSigstore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("model_signing.signing.Config", FakeConfig)
    signer = load_signer(SETTINGS)
    assert signer.identity == f"ci@example.com of {ISSUER}"
    assert sign_folder(tmp_path, signer).read_text() == bundle(PAYLOAD)


def test_another_account_than_the_one_that_is_trusted(
    fake: FakeSigstore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("model_signing.signing.Config", FakeConfig)
    fake.subject = "private@example.com"
    with pytest.raises(BadInput, match="is of no use: signed by another identity"):
        sign_folder(tmp_path, load_signer(SETTINGS))
    assert not (tmp_path / "model.sig").exists()


def test_no_sigstore_to_sign_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: Any, **__: Any) -> None:
        raise TUFError("no route to host")

    monkeypatch.setattr(FakeConfig, "use_sigstore_signer", unreachable)
    monkeypatch.setattr("model_signing.signing.Config", FakeConfig)
    with pytest.raises(BadInput, match=r"Sigstore cannot be asked to sign: .*; accepted: a network, or a key"):
        sign_folder(tmp_path, load_signer(SETTINGS))
