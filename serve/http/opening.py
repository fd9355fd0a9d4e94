"""What a server opens: an artifact's engine, its text side, and what people are told about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from serve.engine import Engine
from serve.errors import ServeError
from serve.manifest import MANIFEST, Manifest, locate
from serve.service.start import load
from serve.text.tokenizer import Text

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Opened:
    """Ready to serve; `facts` go to the status page and the info metric, `checkpoint` is the model's name."""

    engine: Engine
    text: Text
    facts: dict[str, str]


class Source(Protocol):
    """Where a server gets its model from."""

    def load(self, say: Say) -> Opened:
        """Load it, slowly, in the thread that owns the engine from then on; ServeError when it cannot be served."""
        ...


class Artifact:
    """An artifact folder."""

    def __init__(self, folder: Path) -> None:
        """Read the manifest; ServeError when the folder is none or its manifest is damaged."""
        self._folder, self._manifest = folder, Manifest.read(folder)

    def load(self, say: Say) -> Opened:
        """Check, load, warm up, self-check."""
        text = self._text()
        return Opened(load(self._folder, say), text, self._facts())

    def _text(self) -> Text:
        paths = {name: locate(self._folder, ref) for name, ref in self._manifest.tokenizer.items()}
        for name in ("tokenizer.json", "tokenizer_config.json"):
            if name not in paths:
                raise ServeError(f"{self._folder / MANIFEST}: tokenizer: found no {name}; it is needed to serve text")
        return Text.from_files(
            paths["tokenizer.json"],
            paths["tokenizer_config.json"],
            paths.get("chat_template.jinja"),
            paths.get("generation_config.json"),
        )

    def _facts(self) -> dict[str, str]:
        manifest, point = self._manifest, self._manifest.variant
        return {
            "checkpoint": manifest.checkpoint,
            "revision": manifest.revision,
            "variant": point.name,
            "digest": "sha256:" + hashlib.sha256((self._folder / MANIFEST).read_bytes()).hexdigest(),
            "context": f"{point.kv_max} tokens",
            "slots": str(point.batch),
            "target": point.target,
            "dtype": point.dtype,
            "tensor_parallel": str(point.tp),
            "licence": manifest.licence,
        }
