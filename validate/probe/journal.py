"""The file of a run: whole under its name, or not there; what was answered before a kill is in FILE.part.

FILE.part has a JSON object a line: first when the run started and its host, then every answer as soon as it is known.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import IO, Any

from ledger.atomic import make_folder, write_json
from validate.probe.asking import Record


class Journal:
    """Records of one run, kept as they come."""

    def __init__(self, path: Path, started: str, host: dict[str, Any]) -> None:
        """Begin `path`.part anew."""
        make_folder(path.parent)
        self.path, self.part = path, path.with_name(f"{path.name}.part")
        self.records: list[Record] = []
        self._head = {"started": started, "host": host}
        self._file: IO[str] = self.part.open("w", encoding="utf-8")
        self._line(self._head)

    def add(self, record: Record) -> None:
        """Keep a record; it is on the disk when this returns."""
        self.records.append(record)
        self._line(record.as_json())

    def finish(self) -> None:
        """Write the file under its name and remove the part."""
        write_json(self.path, self._head | {"answers": [record.as_json() for record in self.records]})
        self._file.close()
        self.part.unlink()

    def _line(self, document: dict[str, Any]) -> None:
        self._file.write(json.dumps(document) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
