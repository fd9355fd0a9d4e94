"""Stage, verify, promote, by the real stages on places that are dictionaries: order, interruptions, second runs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from publish.promotion import preview
from publish.promotion.remote import Remotes
from tests.publish.promotion.places import public, read
from tests.publish.promotion.world import VARIANTS, World


class Killed(BaseException):
    """The end of the process."""


@dataclass(repr=False)
class Watched:
    """The two places of a world, with a log of public changes; the process ends before change number `last`."""

    world: World
    last: int = 1000
    done: list[str] = field(default_factory=list)

    @property
    def remotes(self) -> Remotes:
        registry, hub = self.world.registry, self.world.hub
        return Remotes(
            _Watching(registry, point=self._counted(registry.point)),
            _Watching(hub, promote=self._counted(hub.promote)),
        )

    def _counted(self, change: Callable[..., None]) -> Callable[..., None]:
        def run(name: str, *rest: str) -> None:
            if len(self.done) == self.last:
                raise Killed
            self.done.append(rest[0] if change.__name__ == "promote" else name)
            change(name, *rest)

        return run


class _Watching:
    """Another object, with some methods replaced."""

    def __init__(self, inner: object, **methods: Callable[..., None]) -> None:
        self.__dict__.update(methods, _inner=inner)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


ORDER = ["v1-512-128-cpu", "v1-bf16-cpu", "v1", "512-128-cpu", "latest-cpu", "bf16-cpu"]


def promoted(world: World, last: int = 1000) -> list[str]:
    """The public changes of a promotion, in order."""
    watched = Watched(world, last)
    with suppress(Killed):
        world.promote(watched.remotes)
    return watched.done


def test_nothing_is_public_before_the_end(signed: World) -> None:
    world = signed.copy()
    before = public(world.registry, world.hub)
    world.stage()
    world.verify()
    assert public(world.registry, world.hub) == before
    assert set(world.registry.tags) == {"staging-v1-512-128-cpu", "staging-v1-bf16-cpu"}


def test_a_good_release_becomes_public_as_it_was_signed(verified: World) -> None:
    world = verified.copy()
    assert promoted(world) == ORDER
    digests = {name: world.receipts[f"{name}/image"].facts["digest"] for name in VARIANTS}
    tags = {tag: digest for tag, digest in world.registry.tags.items() if not tag.startswith("staging-")}
    assert tags == {
        "v1-512-128-cpu": digests["512-128"],
        "v1-bf16-cpu": digests["bf16"],
        "512-128-cpu": digests["512-128"],
        "latest-cpu": digests["512-128"],
        "bf16-cpu": digests["bf16"],
    }
    assert world.hub.tags["v1"] == world.hub.branches["main"]
    assert world.hub.commits[world.hub.branches["main"]] == read(world.folder / "signed")


@pytest.mark.parametrize("last", range(len(ORDER)))
def test_a_promotion_that_was_killed_is_finished_by_the_next(verified: World, last: int) -> None:
    world, whole = verified.copy(), verified.copy()
    promoted(whole)
    assert promoted(world, last) == ORDER[:last]
    # Whatever a moving tag or main names is there under the names of its release.
    if "latest-cpu" in world.registry.tags or world.hub.branches["main"] != "0" * 40:
        assert {"v1-512-128-cpu", "v1-bf16-cpu"} <= world.registry.tags.keys()
    assert promoted(world) == ORDER[last:]
    assert public(world.registry, world.hub) == public(whole.registry, whole.hub)


def test_a_second_run_sends_and_moves_nothing(verified: World) -> None:
    world = verified.copy()
    promoted(world)
    before, commits = public(world.registry, world.hub), len(world.hub.commits)
    sent = world.stage().measured
    assert (sent["blobs_sent"], sent["files_sent"], sent["bytes_sent"]) == (0, 0, 0)
    world.verify()
    assert promoted(world) == []
    assert world.receipts["promote"].measured["moves"] == 0
    assert (public(world.registry, world.hub), len(world.hub.commits)) == (before, commits)


def test_an_old_release_run_again_moves_nothing_back(
    verified: World, other: World, capsys: pytest.CaptureFixture[str]
) -> None:
    old = verified.copy()
    promoted(old)
    new = replace(other.copy(), registry=old.registry, hub=old.hub)
    new.stage()
    new.verify()
    assert promoted(new) == [name.replace("v1", "v2") for name in ORDER]
    before = public(old.registry, old.hub)
    assert promoted(old) == []
    assert "me/demo main has moved on since v1: moving tags stay where they are" in capsys.readouterr().out
    assert public(old.registry, old.hub) == before
    assert old.registry.tags["latest-cpu"] == new.receipts["512-128/image"].facts["digest"]


def test_a_staging_tag_that_moves_after_it_was_verified_moves_nothing_else(verified: World, other: World) -> None:
    """What is promoted is the digest that was verified."""
    world = verified.copy()
    stray = other.receipts["bf16/image"].facts["digest"]
    world.registry.images[stray] = other.registry.images[stray]
    world.registry.tags["staging-v1-bf16-cpu"] = stray
    world.hub.branches["staging"] = "0" * 40
    promoted(world)
    assert stray not in {digest for tag, digest in world.registry.tags.items() if not tag.startswith("staging-")}
    assert world.hub.commits[world.hub.branches["main"]] == read(world.folder / "signed")


def told(world: World) -> list[str]:
    """What a dry run says."""
    folders = [world.folder / name for name in ("signed", "images", "attestations")]
    return [
        *preview.staging(world.to, world.remotes, *folders),
        *preview.promotion(world.to, world.remotes, world.receipts),
    ]


def test_a_dry_run_tells_what_would_move_with_sizes(signed: World) -> None:
    world = signed.copy()
    before = (public(world.registry, world.hub), dict(world.registry.images), dict(world.hub.commits))
    lines = told(world)
    files = read(world.folder / "signed")
    assert f"me/demo, branch staging: {len(files)} to send, {sum(map(len, files.values())):,} bytes" in lines
    assert f"    model.sig ({len(files['model.sig']):,} bytes)" in lines
    digest = world.receipts["bf16/image"].facts["digest"]
    assert f"once it is verified, {world.to.image}:bf16-cpu: new -> {digest}" in lines
    assert "promotion is refused as things are: the stage receipt is missing" in "\n".join(lines)
    assert before == (public(world.registry, world.hub), dict(world.registry.images), dict(world.hub.commits))


def test_a_dry_run_of_what_is_verified_names_every_move(verified: World) -> None:
    world = verified.copy()
    lines = told(world)
    assert "me/demo, branch staging: 0 to send, 0 bytes" in lines
    moves = [line for line in lines if " -> " in line]
    image = f"{world.to.image}:"
    tags = [line.removeprefix(image).split(":")[0] for line in moves if line.startswith(image)]
    assert tags == [name for name in ORDER if name != "v1"]
    promoted(world)
    assert told(world)[-1] == "v1 is public: nothing would change"
