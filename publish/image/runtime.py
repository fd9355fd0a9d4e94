"""What an image stands on: a base and the dependencies of the server, the same for every variant of a target.

Target cpu: made here, from Debian's packages and the wheels of a lock file. Target inf2: the stage `runtime` of
envs/Dockerfile, which needs AWS's package sources; built there with buildah or docker, pushed, and given by digest.
"""

from __future__ import annotations

import csv
import io
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from ledger.digest import digest_json, sha256_file
from ledger.errors import BadInput
from publish.image.base import make_base
from publish.image.blobs import Blobs
from publish.image.bytecode import PYTHON, compile_tree, unpack
from publish.image.layer import MEDIA_TYPE, File, layer_of
from publish.image.layout import CREATED, MADE_HERE, read_layout, write_layout
from publish.image.reference import parse
from publish.image.registry import pull
from publish.image.tools import must

LOCK = Path(__file__).parents[2] / "envs" / "serve-cpu.txt"
PLACE = f"/usr/local/lib/{PYTHON}/dist-packages"
_FORMAT = 1
# Programs carry the path of the interpreter that installed them; tests are nobody's dependency.
_LEFT_OUT = {"bin", "tests"}


@dataclass(frozen=True)
class Runtime:
    """An image without a release, as an `oci:` folder; digests are "sha256:<hex>"."""

    layout: Path
    digest: str
    base_digest: str


def make_runtime(cache: Path, lock: Path = LOCK) -> Runtime:
    """Base and dependencies for target cpu, below `cache`; seconds when both are there, minutes when not.

    Raises BadInput when a tool is missing or fails, or a wheel has not its hash.
    """
    base, image = make_base(cache)
    folder = cache / "runtimes" / digest_json([_FORMAT, image.digest, sha256_file(lock)])[:16]
    if not folder.exists():
        blobs = Blobs(cache)
        with tempfile.TemporaryDirectory(prefix="runtime-", dir=cache) as aside:
            layer = layer_of(dependencies(base, lock, Path(aside)), cache)
        config = image.config
        config["config"]["Labels"] = {"org.opencontainers.image.base.digest": image.digest}
        config["rootfs"]["diff_ids"].append(layer.diff_id)
        config["history"].append({"created": CREATED, "created_by": f"{MADE_HERE}dependencies"})
        described = {"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes}
        for below in image.layers:
            Blobs(base).lend(below["digest"], blobs)
        write_layout(folder, blobs, config, [*image.layers, described])
    return Runtime(folder, read_layout(folder).digest, image.digest)


def fetch_runtime(cache: Path, reference: str) -> Runtime:
    """Base and dependencies from a registry, below `cache`; `reference` names them by digest, as a tag may move.

    Raises BadInput for a tag, and when the registry has no such image.
    """
    name = parse(reference)
    if not name.digest:
        raise BadInput(f"runtime {name} names no digest; accepted: {name.repository}@sha256:<hex>")
    folder = cache / "runtimes" / name.digest.removeprefix("sha256:")[:16]
    if not folder.exists() or read_layout(folder).digest != name.digest:
        pull(reference, folder)
    return Runtime(folder, name.digest, name.digest)


def dependencies(base: Path, lock: Path, aside: Path) -> list[File]:
    """The files of the wheels in `lock`, compiled for the base; `aside` is an empty folder to work in."""
    if sys.version_info[:2] != (3, 11):
        raise BadInput(f"python is {sys.version.split()[0]}; accepted for an image: 3.11, as wheels are chosen by it")
    tree, root = aside / "tree", aside / "root"
    options = ("--no-deps", "--require-hashes", "--no-compile", "--only-binary", ":all:", "--quiet")
    must([sys.executable, "-m", "pip", "install", *options, "--target", tree, "--requirement", lock], f"{lock}")
    kept = sorted(path for path in _files(tree) if _LEFT_OUT.isdisjoint(path.relative_to(tree).parts[:-1]))
    for path in set(_files(tree)) - set(kept):
        path.unlink()
    unpack(base, root)
    compile_tree(root, tree, PLACE)
    names = {path.relative_to(tree).as_posix() for path in kept}
    return [_file(path, tree, names) for path in sorted(_files(tree))]


def _files(tree: Path) -> list[Path]:
    return [path for path in tree.rglob("*") if path.is_symlink() or not path.is_dir()]


def _file(path: Path, tree: Path, kept: set[str]) -> File:
    place = f"{PLACE[1:]}/{path.relative_to(tree).as_posix()}"
    if path.is_symlink():
        return File(place, link=str(path.readlink()))
    if path.name == "RECORD" and path.parent.suffix == ".dist-info":
        return File.of(place, record(path.read_text(encoding="utf-8"), kept))
    status = path.stat()
    return File(place, sha256_file(path), status.st_size, path, bool(status.st_mode & 0o111))


def record(text: str, kept: set[str]) -> bytes:
    """A wheel's list of files without those that were left out."""
    rows = sorted(row for row in csv.reader(io.StringIO(text)) if row[0] in kept)
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().encode()
