"""A release, an image of it and its attestation, packaged and signed through the stages' command lines."""

import io
import json
import os
import sys
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.receipts import Receipt
from publish import package, sign
from publish.image.blobs import Blobs
from publish.image.layout import Image, write_layout
from publish.trust.attestation import ARTIFACT_LABEL, VARIANT_LABEL
from publish.trust.keys import PRIVATE, PUBLIC, make_keys
from publish.trust.source import Source
from publish.trust.trusted import Trusted, load_trusted
from tests.publish.conftest import Line, make_line

VARIANT = "512-128"
LAYER = "application/vnd.oci.image.layer.v1.tar"


@dataclass
class Publisher:
    """Somebody with a line, a key and folders; every method is one stage."""

    root: Path
    line: Line
    source: Source = field(default=Source("1" * 40, dirty=False))

    @property
    def release(self) -> Path:
        """What package lays out."""
        return self.root / "release"

    @property
    def signed(self) -> Path:
        """The signed release."""
        return self.root / "signed"

    @property
    def layout(self) -> Path:
        """The image of VARIANT."""
        return self.root / "images" / VARIANT

    @property
    def attestation(self) -> Path:
        """What it is signed by."""
        return self.root / "attestations" / VARIANT

    @property
    def key(self) -> Path:
        """The private key."""
        return self.root / "keys" / PRIVATE

    @property
    def trusted(self) -> Trusted:
        """Everybody who has the public key."""
        return load_trusted([self.root / "keys" / PUBLIC], environ={})

    def package(self, *variants: str) -> int:
        """Stage package."""
        recipe = {
            "checkpoint": "demo",
            "source": {"kind": "path", "path": "/home/someone/checkpoint"},
            "release": {"name": "demo", "latest": VARIANT},
            "variants": list(variants or (VARIANT, "bf16")),
        }
        flags = ["--recipe", json.dumps(recipe), "--release", str(self.release)]
        return self._run(package.main, "package", flags, [name for name in self.line.inputs if "image" not in name])

    def build(self) -> Image:
        """An image as stage image would leave it, whose one layer is a Debian of one package."""
        manifest = self.line.inputs[f"{VARIANT}/assemble"].outputs["manifest.json"]
        labels = {
            "org.opencontainers.image.title": f"demo {VARIANT}",
            VARIANT_LABEL: VARIANT,
            ARTIFACT_LABEL: f"sha256:{manifest.sha256}",
        }
        blobs = Blobs(self.root / "cache")
        data = _debian()
        layer = {"mediaType": LAYER, "digest": blobs.put(data), "size": len(data)}
        config = {"os": "linux", "architecture": "amd64", "config": {"Labels": labels}, "rootfs": {"diff_ids": []}}
        image = write_layout(self.layout, blobs, config, [layer])
        facts = {"digest": image.digest, "reference": "registry.example/demo", "tag": f"v1-{VARIANT}"}
        self.line.record(f"{VARIANT}/image", facts=facts)
        return image

    def sign(self, *who: str) -> int:
        """Stage sign, with the publisher's key unless the flags `who` say otherwise."""
        flags = ["--recipe", json.dumps({"checkpoint": "demo"}), *(who or ("--key", str(self.key)))]
        flags += ["--signed", str(self.signed), "--attestations", str(self.attestation.parent)]
        flags += ["--images", str(self.layout.parent)]
        names = [name for name in ("fetch", "package", f"{VARIANT}/image") if name in self.line.inputs]
        return self._run(sign.main, "sign", flags, names)

    def receipt(self, stage: str) -> Receipt:
        """The receipt that a stage left."""
        return Receipt.read(self.root / f"{stage}.json")

    def _run(self, main: Callable[[], int], stage: str, flags: list[str], names: list[str]) -> int:
        flags = [stage, *flags, "--store", str(self.line.store.root), "--out", str(self.root / f"{stage}.json")]
        for name in names:
            path = self.root / "receipts" / f"{name}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            self.line.inputs[name].write(path)
            flags += ["--input", f"{name}={path}"]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", flags)
            patch.setattr(sign, "read_source", lambda: self.source)
            # A power cut is no matter of these tests, and syncing hundreds of small files is most of their time.
            patch.setattr(os, "fsync", lambda _: None)
            code = main()
        if code == 0:
            self.line.inputs[stage] = self.receipt(stage)
        return code


def _debian() -> bytes:
    status = b"Package: libc6\nStatus: install ok installed\nVersion: 2.36-9+deb12u13\nArchitecture: amd64\n\n"
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        info = tarfile.TarInfo("var/lib/dpkg/status")
        info.size = len(status)
        tar.addfile(info, io.BytesIO(status))
    return packed.getvalue()


def publisher(root: Path) -> Publisher:
    """Somebody who has packaged nothing yet."""
    make_keys(root / "keys")
    return Publisher(root, make_line(root))
