"""Where the files of a release or an image come from: an in-toto Statement v1 with SLSA provenance v1.

https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md and https://slsa.dev/spec/v1.0/provenance.

It is written when a release is signed and not when it is packaged. The commit moves with every edit of a text, and what
package lays out is a function of receipts and source only: the same folder twice. What is signed says of which commit
it was. No clock is read, so that two signings of one folder at one commit make equal bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Literal
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, Field

from ledger.receipts import Receipt, Sha256
from publish.gate import STAGES
from publish.trust.source import Source

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
_BUILD = "urn:neff-foundry:build:v1"
_BUILDER = "urn:neff-foundry:builder:v1"
# What a receipt's toolchain holds of the host, beside versions of packages.
_HOST = ("cores", "cpu_features")


class _Digest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    sha256: Sha256


class _Subject(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    digest: _Digest


class _Statement(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["https://in-toto.io/Statement/v1"] = Field(alias="_type")
    subject: list[_Subject] = Field(min_length=1)
    predicate_type: Literal["https://slsa.dev/provenance/v1"] = Field(alias="predicateType")
    predicate: dict[str, Any]


def subjects(statement: Any) -> dict[str, str]:
    """Sha256 by name of what a parsed statement is about; pydantic's ValidationError when it is no provenance."""
    return {one.name: one.digest.sha256 for one in _Statement.model_validate(statement).subject}


def release_provenance(files: Mapping[str, str], receipts: Mapping[str, Receipt], source: Source) -> bytes:
    """The statement about `files`, sha256 by path: all of a release but the statement itself and the signature.

    `receipts` are "fetch", "package", and "variant/stage" of each variant and stage.
    """
    package, fetch = receipts["package"], receipts["fetch"]
    variants = {name: _asked(name, receipts) for name in package.recipe["variants"]}
    return _encoded(
        {
            "_type": STATEMENT,
            "subject": [{"name": name, "digest": {"sha256": files[name]}} for name in sorted(files)],
            "predicateType": PREDICATE,
            "predicate": {
                "buildDefinition": {
                    "buildType": _BUILD,
                    "externalParameters": {"release": _public(package.recipe), "variants": variants},
                    "internalParameters": {"host": _host(receipts)},
                    "resolvedDependencies": [
                        _source(source),
                        *_checkpoint(fetch),
                        *_packages(receipts),
                    ],
                },
                "runDetails": {
                    "builder": {"id": _BUILDER},
                    "byproducts": [_receipt(name, receipt) for name, receipt in sorted(receipts.items())],
                },
            },
        }
    )


def image_provenance(release: bytes, variant: str, image: str) -> bytes:
    """The statement about the image of `variant` with manifest digest `image` (hex), from that of its release."""
    statement = json.loads(release)
    parameters = statement["predicate"]["buildDefinition"]["externalParameters"]
    parameters["variants"] = {variant: parameters["variants"][variant]}
    parameters["image"] = {"variant": variant}
    statement["subject"] = [{"name": "image.json", "digest": {"sha256": image}}]
    details = statement["predicate"]["runDetails"]
    kept = ("fetch", "package", *(f"{variant}/{stage}" for stage in STAGES))
    details["byproducts"] = [one for one in details["byproducts"] if one["name"] in kept]
    return _encoded(statement)


def _asked(name: str, receipts: Mapping[str, Receipt]) -> dict[str, Any]:
    """What the configuration asked of a variant, by stage."""
    recipes = {stage: receipts[f"{name}/{stage}"].recipe for stage in STAGES}
    return {stage: recipe for stage, recipe in recipes.items() if recipe}


def _public(recipe: Mapping[str, Any]) -> dict[str, Any]:
    # The path of a checkpoint folder is the builder's own affair; the digests tell its files.
    source = {key: value for key, value in recipe["source"].items() if key != "path"}
    return {**recipe, "source": source}


def _source(source: Source) -> dict[str, Any]:
    known = {"digest": {"gitCommit": source.commit}} if source.dirty is not None else {}
    state = "unknown" if source.dirty is None else source.dirty
    return {"name": "source", "uri": "pkg:generic/neff-foundry", **known, "annotations": {"dirty": state}}


def _checkpoint(fetch: Receipt) -> Iterator[dict[str, Any]]:
    for name, ref in sorted(fetch.outputs.items()):
        yield {"name": f"checkpoint/{name}", "digest": {"sha256": ref.sha256}}


def _packages(receipts: Mapping[str, Receipt]) -> list[dict[str, Any]]:
    """The packages of all stages by purl; two versions of one are two entries."""
    found = {pair for receipt in receipts.values() for pair in receipt.toolchain.items() if pair[0] not in _HOST}
    kinds = {"python": "generic"}
    return [
        {"name": name, "uri": f"pkg:{kinds.get(name, 'pypi')}/{name.replace('_', '-')}@{quote(version, safe='')}"}
        for name, version in sorted(found)
        if version != "absent"
    ]


def _host(receipts: Mapping[str, Receipt]) -> list[dict[str, str]]:
    """What compiled bytes depended on of the hosts that compiled them, each host once."""
    hosts = [{key: one.toolchain[key] for key in _HOST if key in one.toolchain} for one in receipts.values()]
    return [host for index, host in enumerate(hosts) if host and host not in hosts[:index]]


def _receipt(name: str, receipt: Receipt) -> dict[str, Any]:
    # Not the digest of a file: the one that followers key on, which leaves out how long a stage took.
    return {"name": name, "digest": {"receipt": receipt.digest}, "annotations": {"verdict": receipt.verdict}}


def _encoded(statement: Mapping[str, Any]) -> bytes:
    return (json.dumps(statement, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()
