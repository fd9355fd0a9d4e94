"""A release and a runtime in small, with the proportions of real ones: what every variant shares is most of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

from ledger.digest import sha256_file
from ledger.receipts import Ref
from publish.image.base import ARCHITECTURE
from publish.image.blobs import Blobs
from publish.image.build import ImageSpec
from publish.image.layer import MEDIA_TYPE, File, layer_of
from publish.image.layout import CREATED, MADE_HERE, write_layout
from publish.trust.release import Listed
from serve.manifest import FileRef, Graph, GraphName, Manifest, Model, Output, Parameter, Point, Signature, Tokens

VARIANTS = ("512-128", "slim")


def noise(size: int, seed: str) -> bytes:
    """Bytes that do not compress, the same for a seed."""
    return random.Random(seed).randbytes(size)


def make_release(folder: Path, variants: tuple[str, ...] = VARIANTS, server: str = "") -> Path:
    """A release folder; `server` is a change of the code that ships with it."""
    texts = {
        "LICENSE": b"licence\n",
        "NOTICE": b"notice\n",
        "README.md": b"figures\n",
        "tokenizer.json": noise(5000, "tokenizer"),
        "tables/tables.safetensors": noise(400_000, "tables"),
        "weights/cpu-float32/tp1-rank0.safetensors": noise(600_000, "weights"),
        "serve/__init__.py": b"",
        "serve/__main__.py": f"print('serving'){server}\n".encode(),
        "serve/requirements.txt": b"numpy==1\n",
        "licences/numpy-1.txt": b"BSD\n",
    }
    for path, data in texts.items():
        write(folder / path, data)
    for name in variants:
        home = folder / "variants" / name
        for graph in ("prefill", "decode"):
            write(home / f"{graph}.stablehlo", noise(4000, name + graph))
        write(home / "selfcheck.json", b'{"prompt": [2], "tokens": [3]}\n')
        write(home / "receipts/parity.json", b"{}\n")
        write(home / "manifest.json", manifest_of(folder, name).model_dump_json().encode())
    return list_release(folder, variants)


def list_release(folder: Path, variants: tuple[str, ...]) -> Path:
    """Write release.json over what is in `folder`."""
    files = {
        path.relative_to(folder).as_posix(): Ref(sha256=sha256_file(path), bytes=path.stat().st_size)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "release.json"
    }
    listed = Listed(
        name="demo", checkpoint="demo", revision="5" * 64, latest=variants[0], variants=variants, files=files
    )
    write(folder / "release.json", listed.model_dump_json().encode())
    return folder


def manifest_of(release: Path, name: str) -> Manifest:
    """Of a variant whose files are in place."""

    def file(path: str) -> FileRef:
        place = release / "variants" / name / path
        return FileRef(path=path, sha256=sha256_file(place), bytes=place.stat().st_size)

    def graph(which: GraphName) -> Graph:
        parameter = Parameter(name="x", role="input", shape=(1,), dtype="float32")
        output = Output(name="logits", role="logits", shape=(1, 9), dtype="float32")
        signature = Signature(graph=which, batch=1, tokens=1, parameters=(parameter,), outputs=(output,), aliases={})
        return Graph(signature=signature, modules=(file(f"{which}.stablehlo"),))

    return Manifest(
        checkpoint="demo",
        revision="5" * 64,
        licence="apache-2.0",
        variant=Point(
            name=name, kv_max=512, kv_bucket=128, tp=1, batch=1, slim=False, dtype="float32", kv="device", target="cpu"
        ),
        model=Model(hidden_size=8, layers=2, ple_width=0, vocab_size=9, sliding_window=4),
        tokens=Tokens(bos=2, stop=(1,), suppress=()),
        ring=20,
        graphs={"prefill": graph("prefill"), "decode": graph("decode")},
        weights=(file("../../weights/cpu-float32/tp1-rank0.safetensors"),),
        tables=file("../../tables/tables.safetensors"),
        tokenizer={"tokenizer.json": file("../../tokenizer.json")},
        toolchain={"jaxlib": "0"},
    )


def make_runtime(folder: Path, cache: Path) -> Path:
    """Two layers, as base and dependencies are."""
    parts = {
        "base": [File.of("etc/os-release", b"ID=debian\n"), File.of("usr/lib/libc.so", noise(900_000, "libc"))],
        "dependencies": [File.of("usr/local/lib/numpy.py", noise(300_000, "numpy"))],
    }
    layers = [layer_of(files, cache) for files in parts.values()]
    config = {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": CREATED,
        "config": {"Env": ["PATH=/usr/bin", "LANG=C.UTF-8"]},
        "rootfs": {"type": "layers", "diff_ids": [layer.diff_id for layer in layers]},
        "history": [{"created": CREATED, "created_by": MADE_HERE + name} for name in parts],
    }
    described = [{"mediaType": MEDIA_TYPE, "digest": layer.digest, "size": layer.bytes} for layer in layers]
    write_layout(folder, Blobs(cache), config, described)
    return folder


def make_spec(root: Path, variant: str = VARIANTS[0], **changes: object) -> ImageSpec:
    """Everything below `root`, made where it is not there."""
    release, runtime, cache = root / "release", root / "runtime", root / "cache"
    if "release" not in changes and not release.exists():
        make_release(release)
    if "runtime" not in changes and not runtime.exists():
        make_runtime(runtime, cache)
    known = {"release": release, "runtime": runtime, "cache": cache, "layout": root / "images" / variant}
    return ImageSpec(variant=variant, **({"version": "v1", "revision": "0" * 40} | known | changes))  # type: ignore[arg-type]


def write(path: Path, data: bytes) -> None:
    """Make a file and the folders that lead to it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def read_json(path: Path) -> dict[str, object]:
    """A JSON file."""
    return dict(json.loads(path.read_bytes()))
