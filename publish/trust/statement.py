"""What a signature says: the files of a folder by digest, in the predicate of the model-signing library."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ledger.digest import parse_json
from ledger.errors import BadInput
from ledger.receipts import Sha256
from publish.trust.kinds import Refused
from publish.trust.release import SIGNATURE

PAYLOAD_TYPE = "application/vnd.in-toto+json"


@dataclass(frozen=True)
class Statement:
    """Sha256 by path, the digest over all of them ("sha256:<hex>"), and who signed."""

    files: Mapping[str, str]
    digest: str
    signer: str


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class _Digest(_Strict):
    sha256: Sha256


class _Subject(_Strict):
    name: str
    digest: _Digest


class _Resource(_Strict):
    name: str
    algorithm: Literal["sha256"]
    digest: Sha256


class _Serialization(_Strict):
    method: Literal["files"]
    hash_type: Literal["sha256"]
    allow_symlinks: Literal[False]
    # Whatever the signer left out is an extra file here, unless it is the signature itself.
    ignore_paths: list[str] = []


class _Predicate(_Strict):
    serialization: _Serialization
    resources: list[_Resource]


class _Signed(_Strict):
    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1, max_length=1)
    predicate_type: Literal["https://model_signing/signature/v1.0"] = Field(alias="predicateType")
    predicate: _Predicate


def read_statement(payload: bytes, signer: str) -> Statement:
    """The statement in `payload`, which `signer` has signed; Refused when it is not one over the files of a folder."""
    try:
        parsed: Any = parse_json(payload, f"statement in {SIGNATURE}")
        signed = _Signed.model_validate(parsed)
    except BadInput as error:
        raise Refused("bad_signature", str(error)) from None
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"]))
        raise Refused(
            "bad_signature",
            f"statement in {SIGNATURE}: {where} is not known; accepted: sha256 of each file of a folder",
        ) from None
    resources, digest = signed.predicate.resources, signed.subject[0].digest.sha256
    files = {one.name: one.digest for one in resources}
    root = hashlib.sha256(b"".join(bytes.fromhex(one.digest) for one in resources)).hexdigest()
    if root != digest or len(files) != len(resources):
        raise Refused("bad_signature", f"statement in {SIGNATURE}: the digest over all files is not that of its files")
    return Statement(files, f"sha256:{digest}", signer)
