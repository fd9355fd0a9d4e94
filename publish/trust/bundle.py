"""A signature file: from the bytes of `model.sig` to the statement that a trusted signer made.

The file is a Sigstore bundle with a DSSE envelope, as the model-signing library writes it, and that library and any
other Sigstore tool can check it. Here the check is stricter in one way: every byte counts. Base64 and JSON have many
spellings of one value, so a damaged file can still say the same thing; the only spelling accepted is the one that the
library writes. With a key, the rest is one ECDSA signature over the statement, which `cryptography` checks;
importing the library would take two seconds and would hash every file of the folder to say yes or no.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Annotated, Any, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

from ledger.digest import parse_json
from ledger.errors import BadInput
from ledger.receipts import Sha256
from publish.trust.kinds import Refused
from publish.trust.release import SIGNATURE
from publish.trust.statement import PAYLOAD_TYPE, Statement, read_statement
from publish.trust.trusted import Trusted

_HASHES: dict[int, hashes.HashAlgorithm] = {256: hashes.SHA256(), 384: hashes.SHA384(), 521: hashes.SHA512()}


def _canonical(text: str) -> str:
    try:
        same = base64.b64encode(base64.b64decode(text, validate=True)).decode() == text
    except (binascii.Error, ValueError):
        same = False
    if not same:
        raise ValueError("found another spelling; accepted: canonical base64")
    return text


Base64 = Annotated[str, AfterValidator(_canonical)]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, alias_generator=to_camel)


class _PublicKey(_Strict):
    hint: Sha256


class _Material(_Strict):
    public_key: _PublicKey
    tlog_entries: list[Any] = Field(max_length=0)


class _Signature(_Strict):
    sig: Base64
    keyid: Literal[""]


class _Envelope(_Strict):
    payload: Base64
    payload_type: Literal["application/vnd.in-toto+json"]
    signatures: list[_Signature] = Field(min_length=1, max_length=1)


class _KeyBundle(_Strict):
    media_type: Literal["application/vnd.dev.sigstore.bundle.v0.3+json"]
    verification_material: _Material
    dsse_envelope: _Envelope


def open_bundle(data: bytes, trusted: Trusted) -> Statement:
    """The statement in `data`, once the signature over it holds and its signer is trusted.

    Raises Refused: bad_signature, or unknown_signer.
    """
    try:
        parsed = parse_json(data, SIGNATURE)
    except BadInput as error:
        raise Refused("bad_signature", str(error)) from None
    if not _as_written(parsed, data):
        raise Refused(
            "bad_signature", f"{SIGNATURE} is not spelt as its signer wrote it; accepted: every byte as signed"
        )
    material = parsed.get("verificationMaterial") if isinstance(parsed, dict) else None
    if isinstance(material, dict) and "publicKey" not in material:
        from publish.trust.keyless import open_keyless

        return open_keyless(data, trusted)
    try:
        bundle = _KeyBundle.model_validate(parsed)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "the document"
        where = where if where.isprintable() else ascii(where)
        raise Refused("bad_signature", f"{SIGNATURE}: {where} is damaged; accepted: a Sigstore bundle") from None
    return _checked(bundle, trusted)


def _checked(bundle: _KeyBundle, trusted: Trusted) -> Statement:
    hint = bundle.verification_material.public_key.hint
    if (key := trusted.keys.get(hint)) is None:
        raise Refused("unknown_signer", f"signed with the key sha256:{hint}; trusted: {trusted}")
    envelope = bundle.dsse_envelope
    payload = base64.b64decode(envelope.payload)
    try:
        key.verify(base64.b64decode(envelope.signatures[0].sig), encoded(payload), ec.ECDSA(_HASHES[key.key_size]))
    except InvalidSignature:
        raise Refused(
            "bad_signature", f"{SIGNATURE}: the signature is not one of sha256:{hint} over this statement"
        ) from None
    return read_statement(payload, f"sha256:{hint}")


def encoded(payload: bytes) -> bytes:
    """What a DSSE signature is over: the pre-authentication encoding of the specification, version 1."""
    return b"DSSEv1 %d %s %d %s" % (len(PAYLOAD_TYPE), PAYLOAD_TYPE.encode(), len(payload), payload)


def _as_written(parsed: Any, data: bytes) -> bool:
    # "replace": a lone surrogate, which JSON can spell and UTF-8 cannot, is no longer what was read.
    return json.dumps(parsed, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") == data
