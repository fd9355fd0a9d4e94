"""Worlds that several tests begin from; built once, copied by whoever changes them."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.publish.promotion.world import World, build


@pytest.fixture(scope="session")
def no_power_cut() -> Iterator[None]:
    """Hundreds of small files are written, and each would wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        yield


@pytest.fixture(scope="session")
def signed(no_power_cut: None, tmp_path_factory: pytest.TempPathFactory) -> World:
    """Built and signed; nothing is staged."""
    return build(tmp_path_factory.mktemp("signed"))


@pytest.fixture(scope="session")
def staged(signed: World) -> World:
    """On staging, and not verified."""
    world = signed.copy()
    world.stage()
    return world


@pytest.fixture(scope="session")
def verified(staged: World) -> World:
    """Pulled back and found good."""
    world = staged.copy()
    world.verify()
    return world


@pytest.fixture(scope="session")
def other(signed: World, tmp_path_factory: pytest.TempPathFactory) -> World:
    """The next release of the same variants, as far as verified: its receipts are good ones, and of something else."""
    world = build(tmp_path_factory.mktemp("other"), signed, "v2")
    world.stage()
    world.verify()
    return world
