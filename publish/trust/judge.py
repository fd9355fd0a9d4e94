"""What the small files of a release must say, each judged from its bytes, which a trusted signer has signed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from ledger.digest import parse_json
from ledger.errors import BadInput, GateFailed, explain
from ledger.receipts import Receipt
from publish.gate import STAGES, check_chain, check_figures
from publish.trust.compare import Reader
from publish.trust.kinds import Kind, Refused
from publish.trust.provenance import subjects
from publish.trust.release import FORMAT, LIST, PROVENANCE, SBOM, Listed, licence_path
from serve.manifest import FORMAT as MANIFEST_FORMAT
from serve.manifest import MANIFEST, Manifest


def judge_list(data: bytes) -> Listed:
    """The list of a release, in the format of this version."""
    found = parsed(data, LIST, "not_a_release")
    _check_format(found, FORMAT, LIST)
    try:
        return Listed.model_validate(found)
    except ValidationError as error:
        raise Refused("incompatible_runtime", explain(error, LIST, Listed)) from None


def judge_manifest(data: bytes, name: str) -> Manifest:
    """The manifest of the variant `name`, with nothing in it that this version's runtimes do not know."""
    origin = f"{MANIFEST} of variant {name}"
    found = parsed(data, origin, "incompatible_runtime")
    _check_format(found, MANIFEST_FORMAT, origin)
    try:
        manifest = Manifest.model_validate_json(data)
    except ValidationError as error:
        raise Refused("incompatible_runtime", explain(error, origin, Manifest)) from None
    if manifest.variant.name != name:
        raise Refused("parity_not_passed", f"{origin} is that of {manifest.variant.name}; accepted: its own")
    return manifest


def judge_receipts(name: str, place: str, files: Mapping[str, str], read: Reader) -> dict[str, Receipt]:
    """The receipts in the folder `place` by stage, one of each that a variant goes through."""
    receipts = {}
    for stage in STAGES:
        path = f"{place}/{stage}.json"
        if path not in files:
            raise Refused("receipt_missing", f"variant {name} has no {path}; accepted: a receipt of each stage")
        try:
            receipts[stage] = Receipt.model_validate(parsed(read(path), path, "receipt_missing"))
        except ValidationError as error:
            raise Refused("receipt_missing", explain(error, path, Receipt)) from None
        if receipts[stage].stage != stage:
            raise Refused("receipt_missing", f"{path} is of stage {receipts[stage].stage}; accepted: {stage}")
    try:
        check_figures(name, receipts["bench"])
    except GateFailed as error:
        raise Refused("receipt_missing", str(error)) from None
    return receipts


def judge_parity(name: str, receipts: Mapping[str, Receipt], artifact: str) -> None:
    """Parity passed, for the very artifact (sha256 of its manifest) that is here."""
    try:
        check_chain(name, receipts, artifact)
    except GateFailed as error:
        raise Refused("parity_not_passed", str(error)) from None


def judge_licences(data: bytes, files: Mapping[str, str]) -> None:
    """Every Python package of a bill of materials has a licence in it, and a text among `files`."""
    bill = parsed(data, SBOM, "licence_missing")
    components = bill.get("components") if isinstance(bill, dict) else None
    for one in components if isinstance(components, list) else ():
        if isinstance(one, dict) and str(one.get("purl")).startswith("pkg:pypi/"):
            named, text = f"{one.get('name')} {one.get('version')}", licence_path(one.get("name"), one.get("version"))
            if not one.get("licenses"):
                raise Refused("licence_missing", f"licence of {named}: {SBOM} names none; accepted: an SPDX expression")
            if text not in files:
                raise Refused("licence_missing", f"licence of {named}: {text} is missing; accepted: its text, signed")


def judge_provenance(data: bytes, files: Mapping[str, str]) -> None:
    """The provenance speaks of `files`, sha256 by name, and of no others."""
    try:
        spoken = subjects(parsed(data, PROVENANCE, "provenance_mismatch"))
    except ValidationError as error:
        raise Refused("provenance_mismatch", f"{PROVENANCE} is no provenance: {error.errors()[0]['msg']}") from None
    for name in sorted({*spoken, *files}):
        if spoken.get(name) != files.get(name):
            found, accepted = spoken.get(name, "nothing"), files.get(name, "nothing, as it is not here")
            raise Refused("provenance_mismatch", f"{PROVENANCE} says {found} of {name}; accepted: {accepted}")


def _check_format(value: Any, known: int, origin: str) -> None:
    found = value.get("format", known) if isinstance(value, dict) else "none"
    if found != known:
        raise Refused(
            "incompatible_runtime", f"{origin}: format is {json.dumps(found)}; accepted by this version: {known}"
        )


def parsed(data: bytes, origin: str, kind: Kind) -> Any:
    """The JSON value in `data`; Refused with `kind` when it is none."""
    try:
        return parse_json(data, origin)
    except BadInput as error:
        raise Refused(kind, str(error)) from None
