"""Python modules compiled ahead, by the very interpreter that will read them.

Without them a start compiles everything it imports, each time, as nobody can write into an image. The interpreter of
the base is started through the base's own loader: no root, no container and no namespace is needed for that. The
compiled files say nothing of times (PEP 552, unchecked), so they are the same bytes wherever they are made.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

from publish.image.blobs import Blobs
from publish.image.layout import read_layout
from publish.image.tools import must

_LIBRARIES = "usr/lib/x86_64-linux-gnu"
PYTHON = "python3.11"


def unpack(layout: Path, root: Path) -> None:
    """Lay out the layers of an image without devices below `root`; owners are left out."""
    blobs = Blobs(layout)
    for layer in read_layout(layout).layers:
        with tarfile.open(blobs.path(layer["digest"])) as tar:
            tar.extractall(root, filter="tar")


def compile_tree(root: Path, tree: Path, place: str) -> None:
    """Compile every module below `tree`, which will be at `place` in the image, with the interpreter below `root`."""
    libraries = root / _LIBRARIES
    python: list[str | Path] = [
        libraries / "ld-linux-x86-64.so.2",
        "--library-path",
        libraries,
        root / "usr/bin" / PYTHON,
    ]
    options: list[str | Path] = [
        "-S",
        "-m",
        "compileall",
        "-q",
        "--invalidation-mode",
        "unchecked-hash",
        "-s",
        tree,
        "-p",
        place,
        tree,
    ]
    must([*python, *options], f"compiling {place}", env={"PYTHONHOME": str(root / "usr"), "PYTHONHASHSEED": "0"})
