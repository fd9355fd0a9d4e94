"""Stage package: the release folder of a checkpoint, in Hugging Face layout, for the variants that parity has passed.

The stage itself only decides and describes: its receipt names every file of the folder. Laying the folder out from
the receipt is a second step that also runs when the receipt was known, so a folder that was deleted or damaged
comes back. The folder is built aside and swapped in whole.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from cyclonedx.model.component import ComponentType
from pydantic import BaseModel, ConfigDict, Field

from config.geometry import Geometry, load_geometry
from config.models import Release
from config.sources import Source
from ledger.atomic import replacing_folder
from ledger.digest import sha256_file
from ledger.errors import GateFailed, run_cli
from ledger.flags import Parser, add_store, check_folder
from ledger.receipts import Receipt, Ref
from ledger.stage import Job, Outcome, run_stage, say
from ledger.store import Store, open_store
from publish.card import card
from publish.contents import contents, locks
from publish.gate import Admitted, admit
from publish.licence import licence_text, notice_text
from publish.trust.licences import Licence, licences
from publish.trust.lockfile import read_lock
from publish.trust.release import FORMAT, LIST, SBOM
from publish.trust.sbom import sbom
from publish.use import Published

# What writes the SBOM and knows SPDX expressions. The licences are those of the lock, which is part of the source.
PACKAGES = ("pydantic", "cyclonedx-python-lib", "license-expression")
# A file up to this size is copied: somebody may edit it in place, which must not reach the store.
_COPIED_BYTES = 1 << 20


class PackageRecipe(BaseModel):
    """What is released under which name; `variants` in the order of the configuration."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    checkpoint: str
    source: Source = Field(discriminator="kind")
    release: Release
    variants: tuple[str, ...] = Field(min_length=1)
    published: Published | None = None


def work(job: Job[PackageRecipe]) -> Outcome:
    """Admit every variant, write the texts, and name every file of the release."""
    recipe, fetch = job.recipe, job.inputs["fetch"]
    variants = [admit(name, job.inputs, job.store) for name in recipe.variants]
    revision, geometry = fetch.facts["revision"], _geometry(variants, fetch, job.store)
    texts = {
        "LICENSE": licence_text(fetch.facts["licence"], recipe.checkpoint),
        "NOTICE": notice_text(recipe.release.name, recipe.source, revision),
        "README.md": card(recipe.release, recipe.source, fetch.facts, variants, recipe.published, geometry),
    }
    legal = locked_licences(variant.manifest.variant.target for variant in variants)
    texts |= {one.path: one.text for one in legal}
    files = contents(variants, fetch, job.store, texts)
    files[SBOM] = job.store.put_bytes(
        sbom(
            recipe.release.name,
            ComponentType.APPLICATION,
            packages=legal,
            files={path: ref.sha256 for path, ref in files.items()},
        )
    )
    listed = {
        "format": FORMAT,
        "name": recipe.release.name,
        "checkpoint": recipe.checkpoint,
        "revision": revision,
        "latest": recipe.release.latest,
        "variants": list(recipe.variants),
        "files": {path: files[path].model_dump() for path in sorted(files)},
    }
    text = json.dumps(listed, indent=2, sort_keys=True) + "\n"
    return Outcome(
        outputs=files | {LIST: job.store.put_bytes(text.encode())},
        facts={"variants": list(recipe.variants), "latest": recipe.release.latest},
    )


def _geometry(variants: Sequence[Admitted], fetch: Receipt, store: Store) -> Geometry | None:
    """The checkpoint's shape, where a variant is for a device that it must fit."""
    if all(variant.manifest.variant.target == "cpu" for variant in variants):
        return None
    return load_geometry(store.verify(fetch.outputs["config.json"]))


def locked_licences(targets: Iterable[str]) -> list[Licence]:
    """The licence of every package that is needed to run on `targets`; GateFailed for one that has none."""
    packages = {(one.name, one.version): one for path in locks(targets).values() for one in read_lock(path)}
    return licences([packages[key] for key in sorted(packages)])


def lay_out(files: Mapping[str, Ref], store: Store, folder: Path) -> bool:
    """Make `folder` hold exactly `files`; False when it does already, byte for byte.

    Large files are hard links into the store, read-only as it is, or copies where the file system has none. Every
    object is read and checked first: BadInput names a damaged one, and leaves the folder as it was.
    """
    if _holds(folder, files):
        return False
    with replacing_folder(folder) as aside:
        for path, ref in files.items():
            destination = aside / path
            destination.parent.mkdir(parents=True, exist_ok=True)
            _place(store.verify(ref), destination)
    return True


def _holds(folder: Path, files: Mapping[str, Ref]) -> bool:
    """Whether `folder` has exactly `files`, none of them a link; sizes are compared before contents are read."""
    there = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    sizes = {path.relative_to(folder).as_posix(): path.lstat().st_size for path in there}
    return (
        sizes == {path: ref.bytes for path, ref in files.items()}
        and not any(path.is_symlink() for path in there)
        and all(sha256_file(folder / path) == ref.sha256 for path, ref in files.items())
    )


def _place(stored: Path, destination: Path) -> None:
    if stored.stat().st_size > _COPIED_BYTES:
        try:
            os.link(stored, destination)
        except OSError:
            # Another file system, or one without links.
            pass
        else:
            return
    shutil.copyfile(stored, destination)


def main() -> int:
    """The stage, then the folder; --release says where it is."""
    own = Parser("package", add_help=False)
    own.add_argument("--release", required=True, type=Path, metavar="DIR")
    options, rest = own.parse_known_args()
    check_folder("--release", options.release)
    shared = Parser("package", add_help=False)
    shared.add_argument("--input", action="append", default=[])
    add_store(shared)
    shared.add_argument("--out", type=Path)
    stage, _ = shared.parse_known_args(rest)
    refuse_failed(stage.input)
    code = run_stage("package", PackageRecipe, work, modules=("publish.package",), packages=PACKAGES, argv=rest)
    if code == 0 and lay_out(Receipt.read(stage.out).outputs, open_store(stage.store, stage.cache), options.release):
        say(f"package: {options.release}")
    return code


def refuse_failed(inputs: list[str]) -> None:
    """GateFailed for an --input whose receipt says failed, which the driver would call bad input."""
    for flag in inputs:
        name, _, path = flag.partition("=")
        if path and Receipt.read(Path(path)).verdict == "failed":
            raise GateFailed(f"--input {name}: {path} says failed; accepted for a release: passed")


if __name__ == "__main__":
    run_cli(main)
