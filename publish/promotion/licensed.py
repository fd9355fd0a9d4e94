"""Whether a bill of materials and the licence texts beside it are complete, as they were pulled."""

from __future__ import annotations

from pathlib import Path

from ledger.digest import parse_json
from ledger.errors import BadInput
from publish.trust.release import LICENCES, SBOM

_PYTHON = "pkg:pypi/"


def unlicensed(folder: Path) -> tuple[str, ...]:
    """Python packages in the bill of `folder` that name no licence, or whose text is not there; the bill itself if it
    cannot be read.

    Debian's packages have theirs inside of the image, in /usr/share/doc.
    """
    try:
        components = parse_json((folder / SBOM).read_bytes(), SBOM)["components"]
        packages = [one for one in components if one.get("purl", "").startswith(_PYTHON)]
        return tuple(
            f"{one['name']} {one['version']}"
            for one in packages
            if not one.get("licenses") or not _says_something(folder / LICENCES / f"{one['name']}-{one['version']}.txt")
        )
    except (OSError, BadInput, KeyError, TypeError, AttributeError):
        return (SBOM,)


def _says_something(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0
