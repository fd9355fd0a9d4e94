"""A release of two small variants, built and signed by the real stages, on its way to places that are dictionaries."""

from __future__ import annotations

import gzip
import io
import socket
import tarfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ledger.digest import digest_json, sha256_bytes
from ledger.errors import GateFailed
from ledger.receipts import Receipt
from ledger.stage import Inputs, Job, Outcome
from ledger.store import Store
from publish import package
from publish.image.blobs import Blobs
from publish.image.layout import write_layout
from publish.package import PackageRecipe
from publish.promotion import promote, stage, verify
from publish.promotion.decide import needed
from publish.promotion.destination import Destination
from publish.promotion.promote import PromoteRecipe
from publish.promotion.remote import Remotes
from publish.promotion.stage import StageRecipe
from publish.promotion.verify import VerifyRecipe
from publish.sign import Signing, SignRecipe
from publish.trust.keys import make_keys
from publish.trust.signing import KeySettings, load_signer
from publish.trust.source import Source
from serve.manifest import MANIFEST
from tests.publish.conftest import make_line
from tests.publish.image.loopback import HOST
from tests.publish.promotion.places import FakeHub, FakeRegistry

VARIANTS = ("512-128", "bf16")
NEEDED = tuple(needed(VARIANTS))
# What is built is called by where it goes, so a test that has a real registry has it here.
with socket.create_server((HOST, 0)) as _free:
    PORT: int = _free.getsockname()[1]


def destination(version: str = "v1") -> Destination:
    return Destination(
        image=f"{HOST}:{PORT}/demo",
        repo="me/demo",
        endpoint=None,
        version=version,
        fixed={name: f"{version}-{name}-cpu" for name in VARIANTS},
        moving={"512-128-cpu": "512-128", "latest-cpu": "512-128", "bf16-cpu": "bf16"},
    )


@dataclass(repr=False)
class World:
    """Receipts by the names that promotion asks for, the folders on this machine, and the two places."""

    folder: Path
    store: Store
    receipts: dict[str, Receipt]
    registry: FakeRegistry
    hub: FakeHub
    to: Destination

    def copy(self) -> World:
        """Another one on the same disk, whose receipts and places can be changed."""
        return replace(self, receipts=dict(self.receipts), registry=self.registry.copy(), hub=self.hub.copy())

    @property
    def remotes(self) -> Remotes:
        return Remotes(self.registry, self.hub)

    def job(self, recipe: Any, names: Iterable[str]) -> Job[Any]:
        return Job(recipe, Inputs({name: self.receipts[name] for name in names if name in self.receipts}), self.store)

    def record(self, name: str, job: Job[Any], outcome: Outcome) -> Receipt:
        """Leave the receipt of a run as the driver of the stages does; GateFailed with the sentence of a failed one."""
        if outcome.verdict == "failed":
            raise GateFailed(outcome.message)
        recipe: BaseModel = job.recipe
        inputs = {label: one.digest for label, one in job.inputs.items()}
        known: dict[str, Any] = {
            "stage": name.rpartition("/")[2],
            "inputs": inputs,
            "source": "0" * 64,
            "toolchain": {},
        }
        known["recipe"] = recipe.model_dump(mode="json")
        # What was made is in the key, as worlds that share a store do the same thing in different places.
        made = {"outputs": outcome.outputs, "facts": outcome.facts, "measured": outcome.measured}
        receipt = Receipt(**known, **made, key=digest_json({**known, "facts": outcome.facts}), verdict=outcome.verdict)
        self.store.record_action(receipt)
        self.receipts[name] = receipt
        return receipt

    def stage(self) -> Receipt:
        job = self.job(StageRecipe(destination=self.to), ("sign", *(f"{name}/image" for name in VARIANTS)))
        return self.record("stage", job, stage.work(job, self.remotes, self.folder / "signed", *self._folders()))

    def verify(self) -> Receipt:
        recipe = VerifyRecipe(destination=self.to, trusted=(self.folder / "publisher.pub",))
        job = self.job(recipe, (name for name in NEEDED if name != "verify"))
        return self.record("verify", job, verify.work(job, self.remotes, self.trusted(), self.folder / "scratch"))

    def promote(self, remotes: Remotes | None = None) -> Receipt:
        job = self.job(PromoteRecipe(destination=self.to), NEEDED)
        return self.record("promote", job, promote.work(job, remotes or self.remotes))

    def trusted(self) -> Any:
        return self.signer().trusted

    def signer(self) -> Any:
        return load_signer(KeySettings(kind="key", key=self.folder / "publisher.key"))

    def _folders(self) -> tuple[Path, Path]:
        return self.folder / "images", self.folder / "attestations"


def build(folder: Path, before: World | None = None, version: str = "v1") -> World:
    """A world up to the signed folders; nothing is staged. After `before` it is another release, in the same store."""
    line = make_line(before.folder if before else folder)
    title = "another" if before else "demo"
    make_keys(folder)
    world = World(folder, line.store, {}, FakeRegistry(), FakeHub(), destination(version))
    world.receipts.update(line.inputs)
    recipe = PackageRecipe.model_validate(
        {
            "checkpoint": "demo",
            "source": {"kind": "tiny", "seed": 0, "steps": 1},
            "release": {"name": title, "latest": "512-128"},
            "variants": VARIANTS,
        }
    )
    job = world.job(recipe, list(line.inputs))
    packaged = world.record("package", job, package.work(job))
    for name in VARIANTS:
        digest = _image(folder / "images" / name, f"{title} {name}", name, packaged)
        facts = {"digest": digest, "reference": world.to.image, "tag": world.to.fixed[name]}
        job = world.job(StageRecipe(destination=world.to), ("package",))
        world.record(f"{name}/image", job, Outcome(facts=facts))
    signing = Signing(
        world.signer(), Source("5" * 40, False), folder / "images", folder / "signed", folder / "attestations"
    )
    job = world.job(SignRecipe(checkpoint="demo"), ("fetch", "package", *(f"{name}/image" for name in VARIANTS)))
    signed = world.record("sign", job, signing.work(job))
    for inside, at in (("release/", "signed"), *((f"images/{name}/", f"attestations/{name}") for name in VARIANTS)):
        files = {path.removeprefix(inside): ref for path, ref in signed.outputs.items() if path.startswith(inside)}
        package.lay_out(files, world.store, folder / at)
    return world


def _image(folder: Path, title: str, variant: str, packaged: Receipt) -> str:
    """An image with one small layer and the labels that its attestation is held against."""
    blobs = Blobs(folder.with_name("cache"))
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        tar.addfile(tarfile.TarInfo(variant))
    data = gzip.compress(raw.getvalue(), mtime=0)
    layer = {
        "mediaType": "application/vnd.oci.image.layer.v1.tar+gzip",
        "digest": blobs.put(data),
        "size": len(data),
    }
    labels = {
        "neff-foundry.variant": variant,
        "neff-foundry.artifact": f"sha256:{packaged.outputs[f'variants/{variant}/{MANIFEST}'].sha256}",
        "org.opencontainers.image.title": title,
    }
    config = {
        "os": "linux",
        "architecture": "amd64",
        "config": {"Labels": labels},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256_bytes(raw.getvalue())}"]},
    }
    return write_layout(folder, blobs, config, [layer]).digest
