"""The decision: may what was pulled back become public?

A pure function of facts, so that it can be asked everything. It believes no receipt by itself: each must name the ones
it was made from by digest, and the last of them must name what was pulled, file by file. What it hands out is a Ticket,
without which nothing here moves a public tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pydantic import ValidationError

from ledger.errors import GateFailed, explain
from ledger.receipts import Receipt, Ref
from publish.gate import STAGES, check_chain, check_figures
from publish.licence import ACCEPTED
from publish.promotion.pulled import Folder, Pulled, PulledImage
from publish.trust.release import IMAGES, LICENCES, LIST, PROVENANCE, REQUIRED, SBOM, SIGNATURE
from serve.manifest import MANIFEST

# Folders of what the sign receipt lists, and what each must have; the second travels with an image.
RELEASE, ATTESTED = "release", "images"
OF_RELEASE = (*REQUIRED, LIST, IMAGES, SIGNATURE)
OF_IMAGE = ("LICENSE", "NOTICE", "image.json", "config.json", SBOM, PROVENANCE, SIGNATURE)

Receipts = Mapping[str, Receipt]


@dataclass(frozen=True)
class Ticket:
    """What may become public: a commit of the Hub repository; the digests of each variant's image and attestation."""

    commit: str
    images: Mapping[str, str]
    attestations: Mapping[str, str]


def decide(variants: Iterable[str], receipts: Receipts) -> Ticket:
    """The ticket of a release of `variants`; `receipts` by stage, or variant/stage, all that `needed` names.

    Raises GateFailed with the first thing that does not hold.
    """
    names = tuple(variants)
    check_receipts(needed(names), receipts)
    try:
        pulled = Pulled.model_validate(receipts["verify"].facts.get("pulled"))
    except ValidationError as error:
        raise GateFailed(explain(error, "the verify receipt: pulled", Pulled)) from None
    judge(names, receipts, pulled)
    return Ticket(
        commit=pulled.commit,
        images={name: pulled.images[name].digest for name in names},
        attestations={name: pulled.images[name].attestation for name in names},
    )


def judge(variants: Iterable[str], receipts: Receipts, pulled: Pulled) -> None:
    """GateFailed unless `pulled` is, file by file, what the receipts of the stages before verify speak of."""
    names = tuple(variants)
    demanded = needed(names)
    del demanded["verify"]
    check_receipts(demanded, receipts)
    for name in names:
        of_variant = {stage: receipts[f"{name}/{stage}"] for stage in STAGES}
        check_chain(name, of_variant, of_variant["assemble"].outputs[MANIFEST].sha256)
        check_figures(name, of_variant["bench"])
    licence = receipts["fetch"].facts.get("licence")
    if licence != ACCEPTED:
        raise GateFailed(f"the fetch receipt: licence is {licence!r}; accepted for a release: {ACCEPTED!r}")
    _check_release(names, receipts, pulled)
    if pulled.images.keys() != set(names):
        raise GateFailed(f"images were pulled for {_list(pulled.images)}; accepted: one for each of {_list(names)}")
    for name in names:
        _check_image(name, receipts, pulled.images[name])


def needed(variants: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Every receipt that promotion demands, by name, with the names of those that it must have been made from."""
    names = tuple(variants)
    per_variant = tuple(f"{name}/{stage}" for name in names for stage in STAGES)
    images = tuple(f"{name}/image" for name in names)
    return {
        "fetch": (),
        **dict.fromkeys(per_variant, ()),
        "package": ("fetch", *per_variant),
        **dict.fromkeys(images, ("package",)),
        "sign": ("fetch", "package", *images),
        "stage": ("sign", *images),
        "verify": ("fetch", *per_variant, "package", "sign", *images, "stage"),
    }


def check_receipts(demanded: Mapping[str, tuple[str, ...]], receipts: Receipts) -> None:
    """GateFailed unless every receipt is there, of its stage, not failed, and made from the others.

    What the stages of one variant are made from is `publish.gate`'s to check.
    """
    for name, earlier in demanded.items():
        receipt, stage = receipts.get(name), name.rpartition("/")[2]
        if receipt is None or receipt.stage != stage:
            found = "none" if receipt is None else f"one of stage {receipt.stage}"
            raise GateFailed(f"the {name} receipt is missing, found {found}; accepted: a {stage} receipt")
        if receipt.verdict == "failed":
            raise GateFailed(f"the {name} receipt says failed; accepted: done or passed")
        for one in earlier:
            if receipt.inputs.get(one) != receipts[one].digest:
                raise GateFailed(f"the {name} receipt speaks of another {one} receipt; accepted: those of one release")


def _check_release(variants: tuple[str, ...], receipts: Receipts, pulled: Pulled) -> None:
    staged, what = receipts["stage"].facts, "the release that was pulled"
    if pulled.commit != staged.get("commit"):
        raise GateFailed(f"{what} is commit {pulled.commit}; accepted: {staged.get('commit')}, which was staged")
    accepted = _below(f"{RELEASE}/", receipts["sign"])
    packaged = {path: accepted[path] for path in receipts["package"].outputs if path in accepted}
    _check_files("the release that was signed", packaged, receipts["package"].outputs, ())
    inner = [f"variants/{name}/receipts/{stage}.json" for name in variants for stage in STAGES]
    _check_files(what, pulled.release.files, accepted, (*OF_RELEASE, *inner))
    _check_folder(what, pulled.release, {f"{name}/{stage}" for name in variants for stage in STAGES}, receipts)


def _check_image(variant: str, receipts: Receipts, pulled: PulledImage) -> None:
    what = f"the image of variant {variant} that was pulled"
    staged = receipts["stage"].facts.get("images", {}).get(variant, {})
    built = receipts[f"{variant}/image"].facts.get("digest")
    if not pulled.digest == staged.get("digest") == built:
        raise GateFailed(f"{what} is {pulled.digest}; accepted: {built}, which was built, and staged")
    if pulled.attestation != staged.get("attestation"):
        raise GateFailed(f"{what} has the attestation {pulled.attestation}; accepted: {staged.get('attestation')}")
    accepted = _below(f"{ATTESTED}/{variant}/", receipts["sign"])
    inner = [f"receipts/{stage}.json" for stage in STAGES]
    _check_files(f"the attestation of {variant} that was pulled", pulled.folder.files, accepted, (*OF_IMAGE, *inner))
    if pulled.digest != f"sha256:{accepted['image.json'].sha256}":
        raise GateFailed(
            f"{what} is {pulled.digest}; accepted: sha256:{accepted['image.json'].sha256}, which was signed"
        )
    of_variant = {stage: receipts[f"{variant}/{stage}"] for stage in STAGES}
    _check_folder(f"the attestation of {variant} that was pulled", pulled.folder, set(STAGES), of_variant)


def _below(prefix: str, sign: Receipt) -> dict[str, Ref]:
    """What was signed in one folder, by path there."""
    return {name.removeprefix(prefix): ref for name, ref in sign.outputs.items() if name.startswith(prefix)}


def _check_files(what: str, found: Mapping[str, Ref], accepted: Mapping[str, Ref], demanded: Iterable[str]) -> None:
    """`found` must be `accepted`, file by file, and hold what is `demanded` of every release."""
    for path in demanded:
        if path not in accepted:
            raise GateFailed(f"{path} is not among what was signed; accepted: a release with it")
        if not accepted[path].bytes:
            raise GateFailed(f"{path} was signed as an empty file; accepted: one that says something")
    for path in sorted({*found, *accepted}):
        here, there = found.get(path), accepted.get(path)
        if here != there:
            raise GateFailed(
                f"{what} has {path} with sha256 {here.sha256 if here else 'none'}; "
                f"accepted: {f'{there.sha256}, as signed' if there else 'no such file, as none was signed'}"
            )


def _check_folder(what: str, folder: Folder, demanded: set[str], receipts: Receipts) -> None:
    """The receipts inside of a folder are those at hand, every licence is there, and its signature was found good."""
    for name in sorted(demanded | folder.receipts.keys()):
        found, accepted = folder.receipts.get(name), receipts.get(name)
        if found is None or accepted is None or found != accepted.digest:
            raise GateFailed(
                f"{what} has the {name} receipt {found}; accepted: {accepted.digest if accepted else 'none'}"
            )
    if folder.unlicensed:
        raise GateFailed(
            f"{what} names no licence of {folder.unlicensed[0]}, or lacks its text; accepted: an SPDX expression in "
            f"{SBOM} and a text in {LICENCES}/ for every package"
        )
    if folder.verdict != "ok":
        raise GateFailed(f"{what} is {folder.verdict}: {folder.sentence}")


def _list(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
