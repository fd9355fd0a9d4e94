"""A signed release and its image, made once; a test that damages one gets a copy."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from publish.trust.trusted import Trusted
from publish.trust.verdicts import Verdict, verify_folder
from tests.publish.signed import Publisher, publisher


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Publisher:
    """A release and the image of one variant, both signed. Nobody may write in its folders."""
    one = publisher(tmp_path_factory.mktemp("published"))
    one.package()
    one.build()
    one.sign()
    return one


@pytest.fixture(autouse=True)
def no_power_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Syncing many small files is most of the time of tests that are not about it."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def trusted(published: Publisher) -> Trusted:
    """Who trusts the publisher."""
    return published.trusted


@pytest.fixture
def release(published: Publisher, tmp_path: Path) -> Path:
    """A copy of the signed release."""
    return Path(shutil.copytree(published.signed, tmp_path / "release"))


@pytest.fixture
def attestation(published: Publisher, tmp_path: Path) -> Path:
    """A copy of the signed folder of an image."""
    return Path(shutil.copytree(published.attestation, tmp_path / "attestation"))


@pytest.fixture
def judged(release: Path, trusted: Trusted) -> Callable[[], Verdict]:
    """Judge the copy, which must say its verdict in one line."""

    def judge() -> Verdict:
        verdict = verify_folder(release, trusted)
        assert "\n" not in str(verdict)
        return verdict

    return judge
