"""The legal files of a release.

Apache-2.0 section 4 asks of a derivative: a copy of the licence, a statement of changes, and the attributions of the
source. The official Gemma 4 repositories carry neither LICENSE nor NOTICE, so the attribution is written here. The
sentence about the Gemma Terms of Use that releases of Gemma 1 to 3 carry does not belong to Gemma 4.
"""

from __future__ import annotations

from pathlib import Path

from config.sources import GeometrySource, HubSource, Source, TinySource
from ledger.errors import GateFailed

DATA_FILES: tuple[str, ...] = ("../LICENSE",)
ACCEPTED = "apache-2.0"
_TEXT = Path(__file__).parent.parent / "LICENSE"

_CHANGES = """\
Changes made to it:
- the weights of the text model were cast to the dtype of each variant and laid out anew as device weights, one file
  per rank; numbers that the model multiplies by at every step (layer scalars) were kept with them;
- the embedding tables were written to a file of their own in their original dtype;
- the vision and audio towers, their projectors, and key/value tensors that the text model never uses were left out;
- the computation of the text model was lowered to HLO and compiled, at the sizes named in each manifest;
- config.json, generation_config.json, the tokenizer files and the chat template are unchanged."""

_SERVE = """\
The folder serve/ is code of neff-foundry, Copyright 2026 the neff-foundry authors, licensed under the Apache
License, Version 2.0."""

_TRADEMARKS = """\
Gemma is a trademark of Google LLC; AWS, Inferentia and Neuron are trademarks of Amazon.com, Inc. or its affiliates.
They are used to say what this is made from and made for. This release is not affiliated with, sponsored or endorsed
by Google or AWS."""


def licence_text(licence: str, origin: str) -> str:
    """The full text of LICENSE for weights under `licence`; GateFailed for one that this version has no text of."""
    if licence != ACCEPTED:
        raise GateFailed(f"checkpoint {origin}: licence is {licence!r}; accepted for a release: {ACCEPTED!r}")
    return _TEXT.read_text(encoding="utf-8")


def notice_text(name: str, source: Source, revision: str) -> str:
    """The text of NOTICE for a release called `name`, built from `source` at `revision`."""
    return "\n\n".join((name, origin(source, revision), _SERVE, _TRADEMARKS)) + "\n"


def origin(source: Source, revision: str) -> str:
    """What the release was made from, who holds the rights, and what was changed."""
    match source:
        case TinySource():
            return (
                "The weights and compiled graphs in this release derive from no model of Google's: the checkpoint was "
                "trained from\nscratch by neff-foundry on documentation strings of the Python standard library "
                "(Python Software Foundation\nLicense), to exercise the build. Only its architecture is that of Gemma "
                f"4, as published in transformers. Its digest\nis {revision}."
            )
        case GeometrySource():
            return (
                "The weights and compiled graphs in this release derive from no model of Google's: the weights are "
                "random numbers, written\nby neff-foundry to measure at full size. Only the architecture is that of "
                f"Gemma 4, as published in transformers. Their\ndigest is {revision}."
            )
        case HubSource():
            model = f"the model {source.repo} at revision {revision}, (c) Google"
        case _:
            # The folder's path is the builder's own affair; the digest tells the files.
            model = f"a Gemma 4 checkpoint with digest {revision}, (c) Google where it is Google's or derives from it"
    return (
        f"The compiled graphs and converted weights in this release derive from\n{model},\nlicensed under the Apache "
        f"License, Version 2.0 (see LICENSE).\n\n{_CHANGES}"
    )
