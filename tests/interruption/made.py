"""What a run has left under final names, judged without the code that wrote it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# A release folder's receipts, card and list hold times and figures, which differ from run to run.
_MEASURED = ("receipts/", "README.md", "release.json", "sbom")
_FIGURES = ("bench", "package")


def final(folder: Path) -> Iterator[Path]:
    """Every file under a final name: what is being written is in a folder tmp, or is named .<name>.<random>.tmp."""
    for path in sorted((folder / "results").rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and "tmp" not in parts and not any(part.startswith(".") for part in parts):
            yield path


def digests(folder: Path) -> dict[str, str]:
    """What was made, by path; AssertionError for a file that is not whole, or a release that may not be there."""
    made = {}
    for path in final(folder):
        name, data = path.relative_to(folder).as_posix(), path.read_bytes()
        if "/objects/" in name:
            assert hashlib.sha256(data).hexdigest() == path.name, name
        elif path.suffix == ".json":
            document = json.loads(data)
            if "/release/" not in name and "/receipts/" in name and document["stage"] not in _FIGURES:
                made[name] = _outcome(document)
        if "/build/" in name or ("/release/" in name and not any(part in name for part in _MEASURED)):
            made[name] = hashlib.sha256(data).hexdigest()
    for release in folder.glob("results/*/release/*"):
        # Snakemake makes the folder of an output before the job that fills it.
        if not release.name.startswith(".") and any(release.iterdir()):
            _is_validated(release)
    return made


def _outcome(receipt: dict[str, Any]) -> str:
    """What a receipt says was made: all of it but key, inputs, toolchain and measurements."""
    said = {name: receipt[name] for name in ("stage", "outputs", "facts", "verdict")}
    return json.dumps(said, sort_keys=True)


def _is_validated(release: Path) -> None:
    """Whole by its own list, and each variant beside the receipt of a parity that passed for that very manifest."""
    listed = json.loads((release / "release.json").read_bytes())
    for name, entry in listed["files"].items():
        assert hashlib.sha256((release / name).read_bytes()).hexdigest() == entry["sha256"], name
    there = sorted(path.name for path in (release / "variants").iterdir())
    assert there == sorted(listed["variants"])
    for name in there:
        variant = release / "variants" / name
        parity = json.loads((variant / "receipts" / "parity.json").read_bytes())
        assert parity["verdict"] == "passed", name
        assert parity["facts"]["mismatches"] == [], name
        manifest = hashlib.sha256((variant / "manifest.json").read_bytes()).hexdigest()
        assert parity["facts"]["artifact"] == manifest, name
