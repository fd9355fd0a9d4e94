"""Tags."""

from __future__ import annotations

import pytest

from config.models import Release
from ledger.errors import BadInput
from publish.image.tags import tags

RELEASE = Release(name="gemma-4-e2b", latest="512-128")


@pytest.mark.parametrize("variant", ["2048-512", "slim", "tp2-2048", "tp2-slim"])
def test_a_variant_has_a_fixed_tag_and_one_that_moves(variant: str) -> None:
    found = tags(RELEASE, variant, "inf2", "v1.2")
    assert (found.fixed, found.moving) == (f"v1.2-{variant}", (variant,))


def test_latest_follows_the_variant_that_the_release_names() -> None:
    assert tags(RELEASE, "512-128", "inf2", "v1").all == ("v1-512-128", "512-128", "latest")


def test_images_for_cpu_never_take_the_tag_of_another_target() -> None:
    assert tags(RELEASE, "512-128", "cpu", "v1").all == ("v1-512-128-cpu", "512-128-cpu", "latest-cpu")


@pytest.mark.parametrize("version", ["", "v 1", "-v1", "v/1", "v" * 128, "é"])
def test_what_no_registry_takes_is_refused(version: str) -> None:
    with pytest.raises(BadInput, match=r"^tag .* of release gemma-4-e2b; accepted: at most 128 letters, digits"):
        tags(RELEASE, "512-128", "inf2", version)
