"""What a promotion would change in public, in the order in which it is changed.

All of it is looked up before the first change: a tag of the release that is there with another content refuses the
whole. Each move leaves things so that the next look finds it done, so a promotion that was killed is finished by
running it again:

1. the image tags of the release, which never move;
2. main of the Hub repository, then the git tag of the release;
3. moving tags, and only while main is at this release: once a newer one is out, an old one run again moves nothing.

What belongs to a release is public before anything names the release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from ledger.errors import GateFailed
from ledger.stage import say
from publish.hub.repository import MAIN
from publish.promotion.decide import Ticket
from publish.promotion.destination import Destination
from publish.promotion.remote import Hub, Item, Registry, Remotes

_AT_ONCE = 8


@dataclass(frozen=True)
class Move:
    """One public change: what `name` will mean, and what it means before; `items` are sent for it."""

    name: str
    before: str | None
    after: str
    items: tuple[Item, ...]
    do: Callable[[], None]

    def __str__(self) -> str:
        return f"{self.name}: {self.before or 'new'} -> {self.after}"


@dataclass(frozen=True)
class Seen:
    """What the registry had when it was looked at: digests by tag or digest, attestations by image."""

    heads: Mapping[str, str | None]
    attested: Mapping[str, str | None]


def moves(ticket: Ticket, destination: Destination, remotes: Remotes) -> list[Move]:
    """The moves that are left to be made; none when the release is public. Nothing is changed here.

    Raises GateFailed when what was verified is no longer there, or a tag of this release names something else.
    """
    seen = _look(ticket, destination, remotes.registry)
    _check_staged(ticket, destination, seen)
    released = list(_release_tags(ticket, destination, remotes.registry, seen))
    main, newest = _hub(ticket, destination, remotes.hub)
    moving = _moving_tags(ticket, destination, remotes.registry, seen) if newest else ()
    return [*released, *main, *moving]


def _look(ticket: Ticket, destination: Destination, registry: Registry) -> Seen:
    images = list(ticket.images.values())
    names = [*images, *destination.fixed.values(), *destination.moving]
    # Each is a question of its own to a server that may be far away.
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        heads, attested = pool.map(registry.head, names), pool.map(registry.attached, images)
        return Seen(dict(zip(names, heads, strict=True)), dict(zip(images, attested, strict=True)))


def _check_staged(ticket: Ticket, destination: Destination, seen: Seen) -> None:
    for variant, digest in ticket.images.items():
        reference = f"{destination.image}@{digest}"
        if seen.heads[digest] != digest:
            raise GateFailed(f"{reference} of variant {variant} is not in the registry; accepted: what was verified")
        if (found := seen.attested[digest]) != ticket.attestations[variant]:
            raise GateFailed(
                f"{reference} has the attestation {found}; accepted: {ticket.attestations[variant]}, which was verified"
            )


def _release_tags(ticket: Ticket, destination: Destination, registry: Registry, seen: Seen) -> Iterator[Move]:
    for variant, digest in ticket.images.items():
        tag = destination.fixed[variant]
        found = seen.heads[tag]
        if found is None:
            yield _pointing(tag, found, digest, destination, registry)
        elif found != digest:
            raise GateFailed(
                f"{destination.image}:{tag} is {found} already; accepted: {digest}, or another publish.version, as the "
                f"tags of a release never move"
            )


def _hub(ticket: Ticket, destination: Destination, hub: Hub) -> tuple[list[Move], bool]:
    """The move of main and of the git tag, if it is left; and whether main is, or will be, at this release."""
    version = destination.version
    refs, staged = hub.refs(), hub.tree(ticket.commit)
    tagged, main = refs.tags.get(version), refs.branches.get(MAIN)
    if tagged is None:
        name = f"{destination.repo} {MAIN} and tag {version}"
        do = partial(hub.promote, ticket.commit, version, f"Release {version}")
        return [Move(name, main, f"the files of {ticket.commit}", hub.copied(ticket.commit, version), do)], True
    if hub.tree(tagged) != staged:
        raise GateFailed(
            f"{destination.repo} has the tag {version} on commit {tagged} with other files; accepted: those of "
            f"{ticket.commit}, or another publish.version, as the tag of a release never moves"
        )
    if main != tagged:
        say(f"promote: {destination.repo} {MAIN} has moved on since {version}: moving tags stay where they are")
    return [], main == tagged


def _moving_tags(ticket: Ticket, destination: Destination, registry: Registry, seen: Seen) -> Iterator[Move]:
    for tag, variant in destination.moving.items():
        digest = ticket.images[variant]
        if (found := seen.heads[tag]) != digest:
            yield _pointing(tag, found, digest, destination, registry)


def _pointing(tag: str, before: str | None, digest: str, destination: Destination, registry: Registry) -> Move:
    return Move(f"{destination.image}:{tag}", before, digest, (), partial(registry.point, tag, digest))
