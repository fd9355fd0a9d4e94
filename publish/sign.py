"""Stage sign: the release with its provenance and signature, and for each image a signed folder that goes with it.

What package laid out stays as it is, a function of receipts and source. The signed release is a folder of its own: the
same files, `images.json` with the digests that people deploy, `provenance.json` and `model.sig`. Signatures differ each
time they are made, so what was signed is in the store, and is made again only when what it covers has changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, RootModel, ValidationError

from ledger.digest import parse_json
from ledger.errors import BadInput, explain, run_cli
from ledger.flags import Parser, add_store, check_folder
from ledger.receipts import Receipt, Ref
from ledger.stage import Job, Outcome, run_stage, say
from ledger.store import Store, open_store
from publish.gate import STAGES
from publish.image.contents import layer_files
from publish.image.layout import read_layout
from publish.image.packages import packages
from publish.package import lay_out, locked_licences
from publish.trust.attestation import attestation
from publish.trust.bundle import open_bundle
from publish.trust.kept import sign_once
from publish.trust.provenance import release_provenance
from publish.trust.release import IMAGES, LIST, SIGNATURE, Listed
from publish.trust.signing import KeySettings, Signer, SignerSettings, load_signer
from publish.trust.source import Source, read_source
from serve.manifest import MANIFEST, Manifest

RELEASE, ATTESTED = "release", "images"


class SignRecipe(BaseModel):
    """What is signed; by whom is no part of it, as the path of a key is the signer's own affair."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: str


@dataclass(frozen=True)
class Signing:
    """Who signs, where the images are (an `oci:` folder per variant), and what was signed before."""

    signer: Signer
    source: Source
    images: Path | None
    signed: Path
    attestations: Path

    def environment(self, _: SignRecipe) -> Mapping[str, str]:
        """What of this host shapes the result: another signer, or a tree that is clean at last, signs anew."""
        state = {True: "dirty", False: "clean", None: "unknown"}[self.source.dirty]
        return {"signer": self.signer.identity, "tree": state}

    def work(self, job: Job[SignRecipe]) -> Outcome:
        """Sign the release, then a folder for each image."""
        listed = Listed.model_validate(job.store.read_json(job.inputs["package"].outputs[LIST]))
        layouts = {name: self._layout(name, job) for name in listed.variants if f"{name}/image" in job.inputs}
        release = self._release(job, listed)
        outputs = {f"{RELEASE}/{path}": ref for path, ref in release.items()}
        for name, layout in layouts.items():
            folder = self._attestation(name, layout, listed, release, job.store)
            outputs |= {f"{ATTESTED}/{name}/{path}": ref for path, ref in folder.items()}
        statement = open_bundle(job.store.path(release[SIGNATURE]).read_bytes(), self.signer.trusted)
        facts = {
            "signer": self.signer.identity,
            "digest": statement.digest,
            "images": {name: job.inputs[f"{name}/image"].facts["digest"] for name in layouts},
        }
        return Outcome(outputs=outputs, facts=facts)

    def _layout(self, name: str, job: Job[SignRecipe]) -> Path:
        """Where the image of a variant is, once it is the one of its receipt."""
        if self.images is None:
            raise BadInput(f"--images DIR is missing; accepted: the folder with the image of {name}")
        layout, said = self.images / name, job.inputs[f"{name}/image"].facts["digest"]
        if (found := read_layout(layout).digest) != said:
            raise BadInput(f"image {layout} has digest {found}; accepted: {said}, as in its receipt")
        return layout

    def _release(self, job: Job[SignRecipe], listed: Listed) -> dict[str, Ref]:
        package, store = job.inputs["package"], job.store
        files = dict(package.outputs)
        told = {name: _told(job.inputs[f"{name}/image"]) for name in listed.variants if f"{name}/image" in job.inputs}
        if told:
            files[IMAGES] = store.put_bytes((json.dumps(told, indent=2, sort_keys=True) + "\n").encode())
        receipts = {"fetch": job.inputs["fetch"], "package": package}
        for name, stage in ((name, stage) for name in listed.variants for stage in STAGES):
            ref = files[f"variants/{name}/receipts/{stage}.json"]
            receipts[f"{name}/{stage}"] = Receipt.model_validate(store.read_json(ref))
        digests = {path: ref.sha256 for path, ref in files.items()}
        return sign_once(
            files, release_provenance(digests, receipts, self.source), self.signer, store, before=self.signed
        )

    def _attestation(
        self, name: str, layout: Path, listed: Listed, release: Mapping[str, Ref], store: Store
    ) -> dict[str, Ref]:
        image = read_layout(layout)
        manifest = Manifest.model_validate(store.read_json(release[f"variants/{name}/{MANIFEST}"]))
        held = [file for files in layer_files(Path(), listed, name, manifest).values() for file in files]
        files, provenance = attestation(
            image.manifest_bytes,
            image.config_bytes,
            release=lambda path: store.verify(release[path]).read_bytes(),
            files={file.path: file.sha256 for file in held},
            packages=locked_licences({manifest.variant.target}),
            debian=packages(layout),
        )
        refs = {path: store.put_bytes(data) for path, data in files.items()}
        return sign_once(refs, provenance, self.signer, store, before=self.attestations / name)


def _told(image: Receipt) -> dict[str, Any]:
    """What a puller needs to know of an image; where it is published is known only where that was configured."""
    return {key: image.facts[key] for key in ("digest", "reference", "tag") if key in image.facts}


class _Settings(RootModel[SignerSettings]):
    """Either kind of signer."""


def main() -> int:
    """The stage, then the folders: --signed DIR, and --attestations DIR with one for each variant."""
    own = Parser("sign", add_help=False)
    who = own.add_mutually_exclusive_group(required=True)
    who.add_argument("--key", type=Path, metavar="PEM")
    who.add_argument("--signer", metavar="JSON")
    own.add_argument("--images", type=Path, metavar="DIR")
    own.add_argument("--signed", required=True, type=Path, metavar="DIR")
    own.add_argument("--attestations", required=True, type=Path, metavar="DIR")
    options, rest = own.parse_known_args()
    for flag in ("signed", "attestations"):
        check_folder(f"--{flag}", getattr(options, flag))
    signer = load_signer(_signer(options.signer) if options.signer else KeySettings(kind="key", key=options.key))
    signing = Signing(signer, read_source(), options.images, options.signed, options.attestations)
    shared = Parser("sign", add_help=False)
    add_store(shared)
    shared.add_argument("--out", type=Path)
    stage, _ = shared.parse_known_args(rest)
    code = run_stage(
        "sign",
        SignRecipe,
        signing.work,
        modules=("publish.sign",),
        packages=("model-signing", "cyclonedx-python-lib"),
        environment=signing.environment,
        argv=rest,
    )
    if code == 0:
        _lay_out(Receipt.read(stage.out), open_store(stage.store, stage.cache), options.signed, options.attestations)
    return code


def _signer(text: str) -> SignerSettings:
    try:
        return _Settings.model_validate(parse_json(text.encode(), "--signer")).root
    except ValidationError as error:
        raise BadInput(explain(error, "--signer", _Settings)) from None


def _lay_out(receipt: Receipt, store: Store, signed: Path, attestations: Path) -> None:
    """Make the folders of a receipt; one that is as it should be is left alone."""
    folders: dict[Path, dict[str, Ref]] = {}
    for name, ref in receipt.outputs.items():
        top, path = name.split("/", 1)
        variant, inner = path.split("/", 1) if top == ATTESTED else ("", path)
        folders.setdefault(attestations / variant if variant else signed, {})[inner] = ref
    for folder, files in folders.items():
        if lay_out(files, store, folder):
            say(f"sign: {folder}")


if __name__ == "__main__":
    run_cli(main)
