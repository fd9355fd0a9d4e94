"""Small parts: programs that are not there, what dpkg lists, lists of wheels, damaged layouts, names of layers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ledger.errors import BadInput
from publish.image.blobs import Blobs
from publish.image.layer import MEDIA_TYPE, File, layer_of
from publish.image.layout import MADE_HERE, Image, read_layout, write_layout
from publish.image.packages import DebianPackage, packages
from publish.image.runtime import fetch_runtime, record
from publish.image.tools import must, need
from tests.publish.image.small import make_runtime, write

_STATUS = b"""\
Package: libc6
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Source: glibc (2.36-9)
Version: 2.36-9+deb12u1
Description: GNU C Library
 with a second line

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1

Package: base-files
Status: install ok installed
Architecture: all
Version: 12.4
"""


def test_a_program_that_is_not_there_is_named() -> None:
    with pytest.raises(
        BadInput, match=r"^no-such-program is not installed; accepted: a machine with it, as `make system`"
    ):
        need("no-such-program")


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(BadInput, match=r"^a test: sh failed: second$"):
        must(["sh", "-c", "echo first >&2; echo second >&2; exit 3"], "a test")


def test_packages_are_read_from_the_topmost_list(tmp_path: Path) -> None:
    layers = [
        layer_of([File.of("var/lib/dpkg/status", b"")], tmp_path),
        layer_of([File.of("var/lib/dpkg/status", _STATUS)], tmp_path),
        layer_of([File.of("var/lib/other", b"x")], tmp_path),
    ]
    described = [{"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes} for layer in layers]
    write_layout(tmp_path / "layout", Blobs(tmp_path), {}, described)
    assert packages(tmp_path / "layout") == (
        DebianPackage("base-files", "12.4", "all", "base-files"),
        DebianPackage("libc6", "2.36-9+deb12u1", "amd64", "glibc (2.36-9)"),
    )


def test_an_image_without_dpkg_has_no_packages(tmp_path: Path) -> None:
    assert packages(make_runtime(tmp_path / "runtime", tmp_path)) == ()


def test_a_wheel_s_list_is_of_what_is_there() -> None:
    text = '../../bin/tool,sha256=a,1\nb.py,sha256=b,2\n"a, b.py",sha256=c,3\nx/tests/t.py,sha256=d,4\nx/RECORD,,\n'
    assert record(text, {"b.py", "a, b.py", "x/RECORD"}) == b'"a, b.py",sha256=c,3\nb.py,sha256=b,2\nx/RECORD,,\n'


def test_a_runtime_is_named_by_digest(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"^runtime ghcr\.io/x/y:z names no digest; accepted: ghcr\.io/x/y@sha256:<hex>$"
    ):
        fetch_runtime(tmp_path, "ghcr.io/x/y:z")


def test_layers_that_others_made_are_base_and_dependencies() -> None:
    made = [f"{MADE_HERE}{name}" for name in ("tables", "server")]
    history = [{"created_by": text} for text in ("FROM ubuntu", "RUN apt-get", "COPY venv", *made)]
    history.insert(2, {"created_by": "ENV x=y", "empty_layer": True})  # type: ignore[dict-item]
    manifest = {"layers": [{"digest": str(number), "size": number} for number in range(5)]}
    image = Image("", json.dumps(manifest).encode(), json.dumps({"history": history}).encode())
    assert [layer.name for layer in image.placed()] == ["base", "base", "dependencies", "tables", "server"]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("index.json", b"{}", r"index\.json: manifests: found none; accepted: one image$"),
        ("index.json", b'{"manifests": [{}, {}]}', r"index\.json: manifests: found 2; accepted: one image$"),
        ("index.json", b"{", r"index\.json"),
    ],
)
def test_a_layout_is_one_image(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    layout = make_runtime(tmp_path / "layout", tmp_path)
    write(layout / name, data)
    with pytest.raises(BadInput, match=words):
        read_layout(layout)


def test_a_folder_that_is_no_layout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        BadInput, match=r"index\.json cannot be read: No such file or directory; accepted: a folder in OCI"
    ):
        read_layout(tmp_path)
