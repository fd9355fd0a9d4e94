"""The Debian packages of an image, as its own dpkg lists them: for the bill of materials."""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from email.parser import HeaderParser
from pathlib import Path

from publish.image.blobs import Blobs
from publish.image.layout import read_layout

_STATUS = "var/lib/dpkg/status"


@dataclass(frozen=True)
class DebianPackage:
    """A package that is installed; `source` is the name and version of what it was built from."""

    name: str
    version: str
    architecture: str
    source: str


def packages(layout: Path) -> tuple[DebianPackage, ...]:
    """The packages of the image in the `oci:` folder `layout`, by name; empty where no layer has a dpkg."""
    blobs = Blobs(layout)
    for layer in reversed(read_layout(layout).layers):
        with tarfile.open(blobs.path(layer["digest"]), mode="r|*") as tar:
            for info in tar:
                file = tar.extractfile(info) if info.name.removeprefix("./") == _STATUS else None
                if file is not None:
                    return tuple(sorted(_parse(file.read().decode()), key=lambda one: one.name))
    return ()


def _parse(status: str) -> list[DebianPackage]:
    found = []
    for stanza in filter(str.strip, status.split("\n\n")):
        fields = HeaderParser().parsestr(stanza)
        if fields["Status"] == "install ok installed":
            source = fields.get("Source", fields["Package"])
            found.append(DebianPackage(fields["Package"], fields["Version"], fields["Architecture"], source))
    return found
