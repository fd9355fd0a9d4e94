"""Stage stage: the signed folder and the images go where nobody looks for a release, under names of their own.

The Hub's branch `staging` and the image tags `staging-...` may move at any time, and so nothing after this stage reads
them: what goes on is the commit and the digests that the servers answered with. What is there already is not sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from ledger.errors import GateFailed, run_cli
from ledger.flags import Parser, check_folder
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome, run_stage, say
from publish.promotion.destination import Destination
from publish.promotion.live import connect
from publish.promotion.remote import Remotes, Sent


class StageRecipe(BaseModel):
    """Where to; what is staged are the receipts that come with it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    destination: Destination


def work(job: Job[StageRecipe], remotes: Remotes, release: Path, images: Path, attestations: Path) -> Outcome:
    """Send the images, then the release; GateFailed when a registry holds another digest than was built.

    `images` and `attestations` have a folder for each variant.
    """
    destination, registry = job.recipe.destination, remotes.registry
    check_built(destination, job.inputs)
    remotes.hub.refs()  # a repository or a token that is missing is told before anything is sent
    sent: list[Sent] = []
    staged: dict[str, Any] = {}
    for variant in destination.variants:
        built = job.inputs[f"{variant}/image"].facts["digest"]
        tag = destination.staging_tag(variant)
        image = registry.push(images / variant, tag)
        if image.digest != built:
            raise GateFailed(f"{destination.image}:{tag} is {image.digest} after the push; accepted: {built}, as built")
        attestation = registry.attach(attestations / variant)
        staged[variant] = {"digest": image.digest, "attestation": attestation.digest}
        sent += [image, attestation]
        _tell(f"{destination.image}:{tag}", image.digest, image, attestation)
    uploaded = remotes.hub.upload(release, f"Stage {destination.version}")
    _tell(destination.repo, uploaded.digest, uploaded)
    return Outcome(
        facts={"commit": uploaded.digest, "images": staged},
        measured={
            "blobs_sent": sum(one.count for one in sent),
            "files_sent": uploaded.count,
            "bytes_sent": sum(one.bytes for one in (*sent, uploaded)),
        },
    )


def check_built(destination: Destination, receipts: Mapping[str, Receipt]) -> None:
    """GateFailed for an image that was built to be called otherwise: its labels and the card say that name."""
    for variant, tag in destination.fixed.items():
        facts = receipts[f"{variant}/image"].facts
        if (found := f"{facts.get('reference')}:{facts.get('tag')}") != (accepted := f"{destination.image}:{tag}"):
            raise GateFailed(f"the image of {variant} was built as {found}; accepted: {accepted}, by running snakemake")


def _tell(name: str, digest: str, *sent: Sent) -> None:
    count, size = sum(one.count for one in sent), sum(one.bytes for one in sent)
    say(f"stage: {name} is {digest}; {count} sent, {size:,} bytes")


def main(argv: list[str] | None = None) -> int:
    """The stage; --release is the signed folder, --images and --attestations have a folder for each variant."""
    own = Parser("stage", add_help=False)
    folders = ("--release", "--images", "--attestations")
    for flag in folders:
        own.add_argument(flag, required=True, type=Path, metavar="DIR")
    options, rest = own.parse_known_args(argv)
    release, images, attestations = (getattr(options, flag[2:]) for flag in folders)
    for flag in folders:
        check_folder(flag, getattr(options, flag[2:]))
    return run_stage(
        "stage",
        StageRecipe,
        lambda job: work(job, connect(job.recipe.destination), release, images, attestations),
        modules=("publish.promotion.stage",),
        packages=("huggingface_hub",),
        fills_folder=True,
        argv=rest,
    )


if __name__ == "__main__":
    run_cli(main)
