"""Copies of an artifact beside it: with a known answer, or changed so that digests are right and numbers wrong."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from serve.service.start import SELFCHECK, SelfCheck
from tests.build import BOS, continuation

PROMPT = [BOS, 7, 300, 41, 250, 9, 77, 400, 123, 12, 31]
"""More than a chunk of the usual variant."""
TOKENS = 8


@contextmanager
def linked(artifact: Path, name: str) -> Iterator[Path]:
    """A copy whose files are the artifact's own until they are replaced."""
    copy = artifact.with_name(f"{artifact.name}-{name}")
    shutil.copytree(artifact, copy, copy_function=os.link)
    try:
        yield copy
    finally:
        shutil.rmtree(copy)


@contextmanager
def recorded(artifact: Path, model: Any) -> Iterator[Path]:
    """The artifact with the answer of transformers' `model` to PROMPT as the known one."""
    with linked(artifact, "recorded") as copy:
        known = SelfCheck(prompt=PROMPT, tokens=continuation(model, PROMPT, TOKENS))
        (copy / SELFCHECK).write_text(known.model_dump_json())
        yield copy


def change(copy: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    """Write the copy's manifest anew."""
    path = copy / "manifest.json"
    document = json.loads(path.read_bytes())
    edit(document)
    path.unlink()
    path.write_text(json.dumps(document))


def replace(copy: Path, ref: dict[str, Any], data: bytes) -> None:
    """Give the file that a manifest's `ref` names another content, in a place of its own."""
    digest = hashlib.sha256(data).hexdigest()
    (copy / digest).write_bytes(data)
    ref |= {"path": digest, "sha256": digest, "bytes": len(data)}
