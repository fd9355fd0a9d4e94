"""Licences of the packages that a release runs on: an SPDX expression and the full text of each, or no release.

Both come from the metadata of the installed distribution, which must be the locked version. Older metadata names a
licence loosely ("BSD License") or at length; what such a package is under was read from its licence text, and is said
in `SAID`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cyclonedx.spdx import fixup_id, is_expression

from ledger.errors import GateFailed
from publish.trust.lockfile import Package
from publish.trust.release import licence_path

DATA_FILES: tuple[str, ...] = ("../../LICENSE",)

# By normalized name: the licence that the text in the distribution is, where its metadata says none exactly.
SAID = {
    "jinja2": "BSD-3-Clause",
    "packaging": "Apache-2.0 OR BSD-2-Clause",
    "scipy": "BSD-3-Clause AND BSD-3-Clause-Open-MPI AND GPL-3.0-or-later WITH GCC-exception-3.1 AND LGPL-2.1-or-later",
    "uvloop": "Apache-2.0 OR MIT",
}
_CLASSIFIERS = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
# Texts without a holder's name in them, for a distribution that brings none.
_TEXTS = {"Apache-2.0": Path(__file__).parent.parent.parent / "LICENSE"}
_NAMES = ("licen", "copying", "notice", "authors")


@dataclass(frozen=True)
class Licence:
    """The licence of `package`: an SPDX expression, and the text of its licence files."""

    package: Package
    expression: str
    text: str

    @property
    def path(self) -> str:
        """Where the text is in a release."""
        return licence_path(self.package.name, self.package.version)


def licences(packages: Sequence[Package]) -> list[Licence]:
    """The licence of every package; GateFailed with the first that is not installed, or has no licence or no text."""
    return [_licence(one) for one in packages]


def _licence(package: Package) -> Licence:
    named = f"{package.name} {package.version}"
    try:
        found = metadata.distribution(package.name)
    except metadata.PackageNotFoundError:
        raise GateFailed(f"licence of {named}: the package is not installed; accepted: the locked version") from None
    if found.version != package.version:
        raise GateFailed(f"licence of {named}: version {found.version} is installed; accepted: the locked version")
    expression = _expression(package.name, found)
    if expression is None:
        raise GateFailed(f"licence of {named}: its metadata names none; accepted: an SPDX expression, there or in SAID")
    text = _text(found) or _standard(expression)
    if not text:
        raise GateFailed(f"licence of {named}: no licence text comes with it; accepted: a distribution with one")
    return Licence(package, expression, text)


def _expression(name: str, found: metadata.Distribution) -> str | None:
    """An SPDX expression: as the metadata has it, else as its one classifier says, else as somebody read it."""
    fields = found.metadata
    for said in (fields["License-Expression"], fields["License"], SAID.get(name)):
        if said and is_expression(said) and "\n" not in said:
            return fixup_id(said) or str(said)
    classified = [_CLASSIFIERS.get(one) for one in fields.get_all("Classifier", []) if one.startswith("License ::")]
    return classified[0] if len(classified) == 1 else None


def _text(found: metadata.Distribution) -> str:
    """The licence files in the distribution's metadata folder, one after the other, each under its name."""
    paths = [path for path in found.files or () if path.parts[0].endswith(".dist-info")]
    legal = [path for path in paths if any(name in path.name.lower() for name in _NAMES)]
    legal += [path for path in paths if path.parts[1:2] == ("licenses",) and path not in legal]
    texts = {"/".join(path.parts[1:]): Path(str(path.locate())) for path in legal}
    return "\n".join(f"=== {name}\n\n{_read(path)}" for name, path in sorted(texts.items()))


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n").rstrip("\n") + "\n"


def _standard(expression: str) -> str:
    path = _TEXTS.get(expression)
    return f"=== the text of {expression}; the distribution brings none\n\n{_read(path)}" if path else ""
