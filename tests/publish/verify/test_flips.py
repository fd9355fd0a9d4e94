"""One byte, anywhere in what was published: no change passes, and nothing is asked of a network."""

import shutil
import socket
from pathlib import Path
from random import Random

import pytest

from ledger.errors import FoundryError
from publish.trust.trusted import Trusted
from publish.verify.reference import judge
from tests.publish.damage import flip

# Of a release and of an image: a thousand in all where there is time.
flips = pytest.mark.parametrize("flips", [80, pytest.param(500, marks=pytest.mark.soak)])


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """No socket can be opened."""

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("verification reached for the network")

    monkeypatch.setattr(socket, "socket", refused)


def detected(reference: str, root: Path, trusted: Trusted, times: int) -> dict[str, int]:
    """How often each verdict was given on `reference` with one byte of a file below `root` flipped.

    Every file is as likely as any other, so that small ones such as the signature get their share.
    """
    chance, verdicts = Random(6), dict[str, int]()
    files = sorted(path for path in root.rglob("*") if path.is_file())
    for _ in range(times):
        path = chance.choice(files)
        data = path.read_bytes()
        path.write_bytes(flip(data, chance))
        try:
            verdict = judge(reference, trusted).kind
        except FoundryError as error:
            pytest.fail(f"{path}: no verdict but {error}")
        assert verdict != "ok", f"a byte of {path} was changed and nobody saw it"
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        path.write_bytes(data)
    assert judge(reference, trusted).ok
    return verdicts


@flips
def test_in_a_release(release: Path, trusted: Trusted, flips: int) -> None:
    verdicts = detected(str(release), release, trusted, flips)
    assert verdicts.keys() <= {"file_changed", "bad_signature", "unknown_signer"}


@flips
def test_in_the_files_that_speak_of_others(release: Path, trusted: Trusted, tmp_path: Path, flips: int) -> None:
    """The signature alone, where a byte can be changed without changing what is decoded from it."""
    (tmp_path / "only").mkdir()
    shutil.move(release / "model.sig", tmp_path / "only" / "model.sig")
    (release / "model.sig").hardlink_to(tmp_path / "only" / "model.sig")
    verdicts = detected(str(release), tmp_path / "only", trusted, flips // 5)
    assert verdicts.keys() <= {"bad_signature", "unknown_signer"}


@flips
def test_in_the_blobs_of_an_image_and_of_its_attestation(both: Path, trusted: Trusted, flips: int) -> None:
    verdicts = detected(f"oci:{both}", both / "blobs", trusted, flips)
    assert verdicts.keys() == {"file_changed"}


@flips
def test_in_an_attestation(attestation: Path, trusted: Trusted, flips: int) -> None:
    verdicts = detected(str(attestation), attestation, trusted, flips // 5)
    assert verdicts.keys() <= {"file_changed", "bad_signature", "unknown_signer"}
