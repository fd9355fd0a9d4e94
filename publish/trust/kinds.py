"""The verdicts on a release or an image, and the exception by which a check ends with one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "ok",
    "not_a_release",
    "unsigned",
    "bad_signature",
    "unknown_signer",
    "file_missing",
    "file_changed",
    "extra_file",
    "licence_missing",
    "receipt_missing",
    "parity_not_passed",
    "provenance_mismatch",
    "incompatible_runtime",
]


@dataclass(frozen=True)
class Verdict:
    """What was found: `sentence` is for a person, `digest` ("sha256:<hex>") names what was judged.

    The digest of a release is the one that its signature covers, that of an image the digest of its OCI manifest; it
    is "" where the signature did not hold, as nothing is then known of what it was meant for.
    """

    kind: Kind
    sentence: str
    digest: str = ""

    @property
    def ok(self) -> bool:
        """Whether everything held."""
        return self.kind == "ok"

    def __str__(self) -> str:
        return f"{self.kind}: {self.sentence}"


class Refused(Exception):  # noqa: N818  (a verdict)
    """A check that did not hold, with its kind; `str()` is the sentence."""

    def __init__(self, kind: Kind, sentence: str) -> None:
        super().__init__(sentence)
        self.kind: Kind = kind
