"""Layers: the bytes depend on the files and on nothing else, and another program reads the files out of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ledger.digest import sha256_bytes, sha256_file
from ledger.errors import BadInput
from publish.image.blobs import Blobs
from publish.image.layer import File, Layer, Squeeze, layer_of
from tests.publish.image.small import noise, write

NAMES = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=60
)
PATHS = st.lists(NAMES.filter(lambda name: name not in (".", "..")), min_size=1, max_size=3).map("/".join)


def _file(path: Path, name: str, executable: bool = False) -> File:
    return File(name, sha256_file(path), path.stat().st_size, path, executable)


def _listed(layer: Layer, cache: Path) -> list[str]:
    """What GNU tar says is in the layer."""
    blob = Blobs(cache).path(layer.digest)
    command = ["tar", "--list", "--verbose", "--utc", "--full-time", "--numeric-owner", "--gzip", "--file", str(blob)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_tar_lists_what_was_put_in(tmp_path: Path) -> None:
    write(tmp_path / "a", b"12345")
    files = [_file(tmp_path / "a", "srv/deep/run", True), File.of("srv/a", b"x"), File("srv/link", link="deep/run")]
    assert [" ".join(line.split()) for line in _listed(layer_of(files, tmp_path), tmp_path)] == [
        "drwxr-xr-x 0/0 0 1980-01-01 00:00:00 srv/",
        "-rw-r--r-- 0/0 1 1980-01-01 00:00:00 srv/a",
        "drwxr-xr-x 0/0 0 1980-01-01 00:00:00 srv/deep/",
        "-rwxr-xr-x 0/0 5 1980-01-01 00:00:00 srv/deep/run",
        "lrwxrwxrwx 0/0 0 1980-01-01 00:00:00 srv/link -> deep/run",
    ]


@settings(max_examples=40)
@given(st.dictionaries(PATHS, st.binary(max_size=2000), min_size=1, max_size=6))
def test_tar_takes_out_what_was_put_in(tmp_path_factory: pytest.TempPathFactory, contents: dict[str, bytes]) -> None:
    # No name may be a folder and a file at once, nor differ from another only in what a file system leaves out.
    contents = {f"{number}/{path}"[:200]: data for number, (path, data) in enumerate(contents.items())}
    folder = tmp_path_factory.mktemp("layer")
    layer = layer_of([File.of(path, data) for path, data in contents.items()], folder / "cache")
    blob = Blobs(folder / "cache").path(layer.digest)
    (folder / "out").mkdir()
    subprocess.run(["tar", "--extract", "--gzip", "--file", blob, "--directory", folder / "out"], check=True)
    found = {
        path.relative_to(folder / "out").as_posix(): path.read_bytes()
        for path in (folder / "out").rglob("*")
        if path.is_file()
    }
    assert found == contents


def test_times_modes_and_places_of_sources_are_not_in_it(tmp_path: Path) -> None:
    made = set()
    for number, mask in enumerate((0o022, 0o077, 0o000)):
        before = os.umask(mask)
        try:
            source = tmp_path / f"place-{number}" / ("x" * number) / "file"
            write(source, b"same")
            os.utime(source, (number * 10**8, number * 10**8))
            made.add(layer_of([_file(source, "srv/file")], tmp_path / f"cache-{number}"))
        finally:
            os.umask(before)
    assert len(made) == 1


def test_the_order_that_files_are_given_in_is_not_in_it(tmp_path: Path) -> None:
    files = [File.of(f"srv/{name}", name.encode()) for name in ("b", "a", "a.b", "a-b")]
    assert layer_of(files, tmp_path / "one") == layer_of(files[::-1], tmp_path / "two")


@pytest.mark.parametrize("squeeze", list(Squeeze))
def test_the_digests_are_those_of_the_blob_and_of_the_tar_in_it(tmp_path: Path, squeeze: Squeeze) -> None:
    layer = layer_of([File.of("srv/file", noise(3_000_000, "big") + bytes(3_000_000))], tmp_path, squeeze)
    blob = Blobs(tmp_path).path(layer.digest)
    tar = subprocess.run(["gzip", "--decompress", "--stdout", blob], capture_output=True, check=True).stdout
    assert layer.digest == f"sha256:{sha256_file(blob)}" and layer.bytes == blob.stat().st_size
    assert layer.diff_id == f"sha256:{sha256_bytes(tar)}"


def test_a_mode_and_a_name_make_another_layer(tmp_path: Path) -> None:
    write(tmp_path / "a", b"same")
    layers = [
        layer_of([_file(tmp_path / "a", name, executable)], tmp_path)
        for name, executable in (("a", False), ("a", True), ("b", False))
    ]
    assert len({layer.diff_id for layer in layers}) == 3


@pytest.mark.parametrize("data", [b"other", b"longer than it was", b""])
def test_a_source_that_is_not_as_listed_is_refused_and_leaves_nothing(tmp_path: Path, data: bytes) -> None:
    write(tmp_path / "a", b"first")
    file = _file(tmp_path / "a", "srv/a")
    write(tmp_path / "a", data)
    with pytest.raises(BadInput, match=r"srv/a is not as it was listed; accepted: 5 bytes, sha256 [0-9a-f]{64}$"):
        layer_of([file], tmp_path / "cache")
    assert not list((tmp_path / "cache" / "blobs" / "sha256").iterdir())


def test_a_layer_is_made_once(tmp_path: Path) -> None:
    write(tmp_path / "a", b"first")
    file = _file(tmp_path / "a", "srv/a")
    layer = layer_of([file], tmp_path / "cache")
    (tmp_path / "a").unlink()
    assert layer_of([file], tmp_path / "cache") == layer


def test_a_damaged_layer_is_made_again(tmp_path: Path) -> None:
    layer = layer_of([File.of("a", b"first")], tmp_path)
    blob = Blobs(tmp_path).path(layer.digest)
    blob.write_bytes(bytes([blob.read_bytes()[0] ^ 1]) + blob.read_bytes()[1:])
    assert layer_of([File.of("a", b"first")], tmp_path) == layer and Blobs(tmp_path).intact(layer.digest)
