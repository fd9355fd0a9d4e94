"""Whose signatures count: public keys that the verifier got by itself, and keyless identities that it named.

What travels with a release never counts: a key in the folder that it signs says nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from ledger.digest import sha256_bytes
from ledger.errors import BadInput

KEYS_VARIABLE = "NEFF_FOUNDRY_KEYS"
# The curves that Sigstore's bundle format knows, with their hashes in `bundle`.
CURVES = ("secp256r1", "secp384r1", "secp521r1")
_SUFFIXES = (".pub", ".pem")


@dataclass(frozen=True)
class Identity:
    """Somebody that an OpenID Connect issuer vouches for: an e-mail address or a workflow."""

    issuer: str
    subject: str

    def __str__(self) -> str:
        return f"{self.subject} of {self.issuer}"


@dataclass(frozen=True)
class Trusted:
    """Public keys by fingerprint, and keyless identities.

    `trust_config` is Sigstore's client trust configuration, which makes the check of a keyless signature work without
    a network; without it the library asks Sigstore for its own.
    """

    keys: Mapping[str, ec.EllipticCurvePublicKey] = field(default_factory=dict)
    identities: tuple[Identity, ...] = ()
    trust_config: Path | None = None

    def __str__(self) -> str:
        named = [*(f"sha256:{one}" for one in self.keys), *map(str, self.identities)]
        return ", ".join(named) or f"a key given with --key or in the folder {KEYS_VARIABLE}, and none is"


def load_trusted(
    keys: Sequence[Path] = (),
    identities: Iterable[Identity] = (),
    trust_config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Trusted:
    """The keys of the files `keys`, or else of the folder that NEFF_FOUNDRY_KEYS names, beside `identities`.

    Raises BadInput for a file that is no public key of an accepted kind, and for a folder without keys.
    """
    paths = list(keys)
    if not paths and (folder := environ.get(KEYS_VARIABLE)):
        paths = sorted(path for path in Path(folder).glob("*") if path.suffix in _SUFFIXES)
        if not paths:
            raise BadInput(f"{KEYS_VARIABLE}={folder} holds no key; accepted: a folder with files *.pub or *.pem")
    loaded = [read_public(path) for path in paths]
    return Trusted({fingerprint(key): key for key in loaded}, tuple(identities), trust_config)


def fingerprint(key: ec.EllipticCurvePublicKey) -> str:
    """Hex sha256 of the key's PEM text: what `sha256sum` says of the file, and the hint in a signature."""
    return sha256_bytes(public_pem(key))


def public_pem(key: ec.EllipticCurvePublicKey) -> bytes:
    """The key as PEM."""
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def read_public(path: Path) -> ec.EllipticCurvePublicKey:
    """The public key in the PEM file `path`; BadInput for anything else."""
    data = _read(path)
    try:
        key = serialization.load_pem_public_key(data)
    except (ValueError, UnsupportedAlgorithm):
        raise BadInput(f"{path} is no public key; accepted: PEM of an EC public key ({', '.join(CURVES)})") from None
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name not in CURVES:
        raise BadInput(f"{path} is a {_kind(key)} key; accepted: EC on {', '.join(CURVES)}")
    return key


def read_private(path: Path) -> ec.EllipticCurvePrivateKey:
    """The private key in the PEM file `path`; BadInput for anything else, an encrypted one too."""
    data = _read(path)
    accepted = f"PEM of an EC private key ({', '.join(CURVES)}) without a password"
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise BadInput(f"{path} is no such private key; accepted: {accepted}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or key.curve.name not in CURVES:
        raise BadInput(f"{path} is a {_kind(key)} key; accepted: {accepted}")
    return key


def _kind(key: object) -> str:
    curve = getattr(key, "curve", None)
    return f"{curve.name} EC" if curve else type(key).__name__.removesuffix("PublicKey").removesuffix("PrivateKey")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadInput(f"key {path} cannot be read: {error.strerror}; accepted: a PEM file") from None
