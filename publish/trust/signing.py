"""Who signs, and the signing of a folder: every file but the signature itself, through the model-signing library.

ECDSA signatures are not deterministic, so a folder that its signer has signed as it is keeps its signature.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ledger.atomic import write_bytes
from ledger.errors import BadInput
from publish.trust.bundle import open_bundle
from publish.trust.compare import check_files
from publish.trust.kinds import Refused
from publish.trust.release import SIGNATURE, check_signable
from publish.trust.trusted import Identity, Trusted, fingerprint, read_private

if TYPE_CHECKING:
    from model_signing.signing import Config

__all__ = [
    "SIGNATURE",
    "KeySettings",
    "KeySigner",
    "KeylessSettings",
    "KeylessSigner",
    "Signer",
    "load_signer",
    "sign_folder",
]


class Signer(Protocol):
    """Somebody who signs folders."""

    @property
    def identity(self) -> str:
        """Who signs: "sha256:<hex>" of a public key, or "subject of issuer"."""

    @property
    def trusted(self) -> Trusted:
        """What a verifier of this signer alone trusts."""

    def sign(self, folder: Path, skip: tuple[str, ...]) -> bytes:
        """A Sigstore bundle over every file of `folder` that is not in `skip`."""


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class KeySettings(_Settings):
    """A key that the signer holds; needs no network."""

    kind: Literal["key"]
    key: Path = Field(description="PEM file of an EC private key without a password")


class KeylessSettings(_Settings):
    """An identity that an OpenID Connect issuer vouches for; Sigstore signs its certificate and logs the signature."""

    kind: Literal["keyless"]
    issuer: str = Field(description="URL of the OpenID Connect issuer")
    subject: str = Field(description="the e-mail address or workflow that the issuer vouches for")
    trust_config: Path | None = Field(
        default=None, description="Sigstore's client trust configuration, where not public"
    )


SignerSettings = Annotated[KeySettings | KeylessSettings, Field(discriminator="kind")]


class KeySigner:
    """Signs with the EC private key in a PEM file; BadInput when there is none in it."""

    def __init__(self, private_key: Path) -> None:
        public = read_private(private_key).public_key()
        self._path = private_key
        self.identity = f"sha256:{fingerprint(public)}"
        self.trusted = Trusted({fingerprint(public): public})

    def sign(self, folder: Path, skip: tuple[str, ...]) -> bytes:
        """The bundle; see Signer."""
        from model_signing.signing import Config

        config = Config()  # type: ignore[no-untyped-call]
        return _signed(config.use_elliptic_key_signer(private_key=self._path), folder, skip)


class KeylessSigner:
    """Signs with the ambient identity of a CI job or, where there is none, that of a person at a browser.

    Nothing here has reached Sigstore. A bundle of another identity than `settings` names is a BadInput.
    """

    def __init__(self, settings: KeylessSettings) -> None:
        one = Identity(settings.issuer, settings.subject)
        self._trust_config = settings.trust_config
        self.identity = str(one)
        self.trusted = Trusted({}, (one,), settings.trust_config)

    def sign(self, folder: Path, skip: tuple[str, ...]) -> bytes:
        """The bundle; see Signer."""
        from model_signing.signing import Config
        from sigstore.errors import Error

        try:
            config = Config()  # type: ignore[no-untyped-call]
            config.use_sigstore_signer(use_ambient_credentials=True, trust_config=self._trust_config)
            return _signed(config, folder, skip)
        except Error as error:
            raise BadInput(f"Sigstore cannot be asked to sign: {error}; accepted: a network, or a key") from None


def load_signer(settings: SignerSettings) -> Signer:
    """The signer that `settings` describe."""
    return KeySigner(settings.key) if isinstance(settings, KeySettings) else KeylessSigner(settings)


def sign_folder(folder: Path, signer: Signer) -> Path:
    """Sign every file of `folder` and return the path of the signature, which is written whole or not at all.

    A signature of this signer that holds for the files as they are stays. Raises BadInput for links, devices and names
    that are no text, and for a signature that is not of whom `signer` says it is.
    """
    path = folder / SIGNATURE
    check_signable(folder)
    try:
        check_files(folder, signer.trusted)
    except Refused:
        bundle = signer.sign(folder, (SIGNATURE,))
        _check_own(bundle, signer)
        write_bytes(path, bundle)
    return path


def _check_own(bundle: bytes, signer: Signer) -> None:
    """A person at a browser may have chosen another account than the one that verifiers are told to trust."""
    try:
        open_bundle(bundle, signer.trusted)
    except Refused as refused:
        raise BadInput(f"the new signature is of no use: {refused}; accepted: one of {signer.identity}") from None


def _signed(config: Config, folder: Path, skip: tuple[str, ...]) -> bytes:
    from model_signing import hashing

    # The library leaves out what belongs to git unless it is told not to.
    files = hashing.Config().use_file_serialization()  # type: ignore[no-untyped-call]
    config.set_hashing_config(files.set_ignored_paths(paths=skip, ignore_git_paths=False))
    with tempfile.TemporaryDirectory() as aside:
        path = Path(aside, SIGNATURE)
        config.sign(folder, path)
        return path.read_bytes()
