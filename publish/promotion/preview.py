"""What publishing would move, thing by thing and with sizes, without moving it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ledger.errors import FoundryError
from ledger.receipts import Receipt
from publish.promotion.decide import decide
from publish.promotion.destination import Destination
from publish.promotion.moves import moves
from publish.promotion.remote import Item, Remotes


def staging(to: Destination, remotes: Remotes, release: Path, images: Path, attestations: Path) -> Iterator[str]:
    """What stage `stage` would send; the folders are its own."""
    for variant in to.variants:
        tag = to.staging_tag(variant)
        yield from _told(f"{to.image}:{tag}", remotes.registry.lacking(images / variant, tag))
        yield from _told(f"attestation of {variant}", remotes.registry.unattached(attestations / variant))
    yield from _told(f"{to.repo}, branch staging", remotes.hub.lacking(release))


def promotion(to: Destination, remotes: Remotes, receipts: Mapping[str, Receipt]) -> Iterator[str]:
    """What stage `promote` would change, in its order; of a release that is not verified yet, which tags.

    `receipts` are those that there are, by the names under which promotion asks for them.
    """
    try:
        ticket = decide(to.variants, receipts)
        left = moves(ticket, to, remotes)
    except FoundryError as error:
        yield f"promotion is refused as things are: {error}"
        yield from _tags(to, remotes, receipts)
        return
    for move in left:
        yield from _told(str(move), move.items)
    if not left:
        yield f"{to.version} is public: nothing would change"


def _tags(to: Destination, remotes: Remotes, receipts: Mapping[str, Receipt]) -> Iterator[str]:
    named = {tag: variant for variant, tag in to.fixed.items()} | to.moving
    for tag, variant in named.items():
        found, built = remotes.registry.head(tag), receipts[f"{variant}/image"].facts["digest"]
        if found != built:
            yield f"once it is verified, {to.image}:{tag}: {found or 'new'} -> {built}"
    if to.version not in remotes.hub.refs().tags:
        yield f"once it is verified, {to.repo} main and tag {to.version}"


def _told(name: str, items: Iterable[Item]) -> Iterator[str]:
    found = list(items)
    yield f"{name}: {len(found)} to send, {sum(item.bytes for item in found):,} bytes"
    yield from (f"    {item}" for item in found)
