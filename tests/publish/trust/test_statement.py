"""A statement is taken for what it is: sha256 of each file, and a digest over all of them."""

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest

from publish.trust.kinds import Refused
from publish.trust.statement import read_statement


def statement(files: dict[str, str]) -> Any:
    """A statement over `files` as model-signing 1.1 writes it (from its documentation)."""
    root = hashlib.sha256(b"".join(bytes.fromhex(digest) for digest in files.values())).hexdigest()
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "demo", "digest": {"sha256": root}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
            "resources": [{"name": name, "algorithm": "sha256", "digest": digest} for name, digest in files.items()],
        },
    }


FILES = {"a": "1" * 64, "b/c": "2" * 64}


def test_a_statement_as_documented() -> None:
    found = read_statement(json.dumps(statement(FILES)).encode(), "me")
    assert (found.files, found.signer) == (FILES, "me")
    assert found.digest == "sha256:" + statement(FILES)["subject"][0]["digest"]["sha256"]


def _twice(one: Any) -> None:
    one["predicate"]["resources"][1]["name"] = "a"


CHANGES: dict[str, Callable[[Any], None]] = {
    "another predicate": lambda one: one.update(predicateType="https://slsa.dev/provenance/v1"),
    "an older form": lambda one: one.update(predicateType="https://model_signing/Digests/v0.1"),
    "no subject": lambda one: one.update(subject=[]),
    "two subjects": lambda one: one["subject"].append(one["subject"][0]),
    "a digest of other files": lambda one: one["predicate"]["resources"].pop(),
    "a file twice": _twice,
    "shards": lambda one: one["predicate"]["serialization"].update(method="shards"),
    "another hash": lambda one: one["predicate"]["resources"][0].update(algorithm="blake3"),
    "links followed": lambda one: one["predicate"]["serialization"].update(allow_symlinks=True),
    "no predicate": lambda one: one.pop("predicate"),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_statement_that_is_signed_and_of_another_kind(change: Callable[[Any], None]) -> None:
    value = statement(FILES)
    change(value)
    with pytest.raises(Refused) as refused:
        read_statement(json.dumps(value).encode(), "me")
    assert refused.value.kind == "bad_signature"
    assert "\n" not in str(refused.value)
