"""Stage verify: what was staged is pulled back by digest and judged, byte by byte and signature by signature.

Nothing of this machine is believed to be what a puller will get: files are read as the servers hand them out. What was
found is in the receipt, also when it is refused.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ledger.atomic import make_folder
from ledger.digest import sha256_file
from ledger.errors import BadInput, GateFailed, run_cli
from ledger.flags import Parser, check_folder
from ledger.receipts import Receipt, Ref
from ledger.stage import Job, Outcome, run_stage, say
from publish.image.blobs import Blobs
from publish.image.layout import check_layout
from publish.promotion.decide import judge
from publish.promotion.destination import Destination
from publish.promotion.licensed import unlicensed
from publish.promotion.live import connect
from publish.promotion.pulled import Folder, Pulled, PulledImage
from publish.promotion.remote import Remotes
from publish.trust.release import walk
from publish.trust.trusted import Identity, Trusted, load_trusted
from publish.trust.verdicts import Verdict, verify_folder


class VerifyRecipe(BaseModel):
    """Where from, and whose signatures count: files of public keys, and identities."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    destination: Destination
    trusted: tuple[Path, ...]
    identities: tuple[Identity, ...] = ()
    trust_config: Path | None = None

    def load(self) -> Trusted:
        """The keys and identities; BadInput for a file that is no key."""
        return load_trusted(self.trusted, self.identities, self.trust_config, environ={})


def work(job: Job[VerifyRecipe], remotes: Remotes, trusted: Trusted, scratch: Path) -> Outcome:
    """Pull into `scratch`, which is empty afterwards, and judge; the verdict is failed with the reason."""
    try:
        pulled = pull_back(job, remotes, trusted, scratch)
        judge(job.recipe.destination.variants, job.inputs, pulled)
    except GateFailed as error:
        return Outcome(verdict="failed", message=str(error))
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return Outcome(facts={"pulled": pulled.model_dump(mode="json")}, verdict="passed")


def pull_back(job: Job[VerifyRecipe], remotes: Remotes, trusted: Trusted, scratch: Path) -> Pulled:
    """The facts about what the stage receipt names, as both servers hand it out; GateFailed for what is damaged."""
    staged = job.inputs["stage"].facts
    make_folder(scratch)
    release = scratch / "release"
    remotes.hub.download(staged["commit"], release)
    say(f"verify: {job.recipe.destination.repo} at {staged['commit']} is here")
    folder = _folder(release, "variants/*/receipts/*.json", verify_folder(release, trusted))
    images = {}
    for variant, names in staged["images"].items():
        images[variant] = _image(names["digest"], names["attestation"], remotes, trusted, scratch)
        say(f"verify: {job.recipe.destination.image}@{names['digest']} is here")
    return Pulled(commit=staged["commit"], release=folder, images=images)


def _image(digest: str, attestation: str, remotes: Remotes, trusted: Trusted, scratch: Path) -> PulledImage:
    """Pull an image and what belongs to it; each blob comes once, whichever variants have it, and is read for each."""
    # It brings the libraries that write bills of materials, which a run that finds its answer in the store needs not.
    from publish.trust.attestation import verify_attestation

    layout, folder, seen = scratch / "image", scratch / "attestation", scratch / "seen"
    remotes.registry.pull(digest, layout, seen)
    try:
        found = check_layout(layout)
    except BadInput as error:
        raise GateFailed(f"the image {digest} that was pulled: {error}") from None
    for blob in found.blobs():
        Blobs(layout).lend(blob, Blobs(seen))
    remotes.registry.fetch(attestation, folder)
    pulled = _folder(folder, "receipts/*.json", verify_attestation(folder, trusted))
    for used in (layout, folder):
        shutil.rmtree(used)
    return PulledImage(digest=found.digest, attestation=attestation, folder=pulled)


def _folder(folder: Path, receipts: str, verdict: Verdict) -> Folder:
    return Folder(
        files={name: Ref(sha256=sha256_file(path), bytes=path.stat().st_size) for name, path in walk(folder).items()},
        receipts=dict(_receipts(folder, receipts)),
        unlicensed=unlicensed(folder),
        verdict=verdict.kind,
        sentence=verdict.sentence,
    )


def _receipts(folder: Path, pattern: str) -> Iterator[tuple[str, str]]:
    """Digest by stage, or variant/stage, of each receipt in the folder that can be read."""
    for path in sorted(folder.glob(pattern)):
        place = path.parent.parent.relative_to(folder).as_posix().removeprefix("variants/")
        try:
            receipt = Receipt.read(path)
        except BadInput:
            continue
        yield path.stem if place == "." else f"{place}/{path.stem}", receipt.digest


def _aside(scratch: Path) -> Path:
    make_folder(scratch.parent)
    return Path(tempfile.mkdtemp(prefix=f"{scratch.name}-", dir=scratch.parent))


def main(argv: list[str] | None = None) -> int:
    """The stage; beside --scratch a folder of its own is filled and removed, as two may verify at once."""
    own = Parser("verify", add_help=False)
    own.add_argument("--scratch", required=True, type=Path, metavar="DIR")
    options, rest = own.parse_known_args(argv)
    check_folder("--scratch", options.scratch)
    return run_stage(
        "verify",
        VerifyRecipe,
        lambda job: work(job, connect(job.recipe.destination), job.recipe.load(), _aside(options.scratch)),
        modules=("publish.promotion.verify",),
        packages=("huggingface_hub", "cryptography"),
        # A recorded receipt says nothing of what the servers hold now.
        fills_folder=True,
        environment=lambda recipe: {"trusted": str(recipe.load())},
        argv=rest,
    )


if __name__ == "__main__":
    run_cli(main)
