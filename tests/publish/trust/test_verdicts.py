"""Verdicts on the signature of a release and on its files, each from one cause."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.errors import BadInput
from publish.trust.keys import PRIVATE, PUBLIC, make_keys
from publish.trust.release import walk
from publish.trust.trusted import Trusted, load_trusted
from publish.trust.verdicts import Verdict, verify_folder
from tests.publish.damage import edit_signature, edit_statement, sign_again, sign_as_it_is
from tests.publish.signed import VARIANT, Publisher

RECEIPTS = f"variants/{VARIANT}/receipts"


def test_a_release_as_it_was_signed(published: Publisher, trusted: Trusted) -> None:
    verdict = verify_folder(published.signed, trusted)
    assert verdict.ok
    assert verdict.digest == published.receipt("sign").facts["digest"]
    assert f"parity passed for {VARIANT}, bf16" in verdict.sentence


def test_a_folder_by_another_name_is_the_same_release(published: Publisher, trusted: Trusted, tmp_path: Path) -> None:
    moved = shutil.copytree(published.signed, tmp_path / "elsewhere")
    assert verify_folder(moved, trusted) == verify_folder(published.signed, trusted)


def test_what_package_laid_out_is_unsigned(published: Publisher, trusted: Trusted) -> None:
    assert verify_folder(published.release, trusted).kind == "unsigned"


def test_any_other_folder(tmp_path: Path, trusted: Trusted) -> None:
    assert verify_folder(tmp_path, trusted).kind == "not_a_release"
    with pytest.raises(BadInput, match="accepted: a release folder"):
        verify_folder(tmp_path / "none", trusted)


def test_any_other_folder_with_a_good_signature(tmp_path: Path, published: Publisher) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"beach")
    sign_as_it_is(tmp_path, published.key)
    assert verify_folder(tmp_path, published.trusted).kind == "not_a_release"


def test_a_key_that_nobody_trusts(published: Publisher, release: Path, tmp_path: Path) -> None:
    make_keys(tmp_path)
    stranger = load_trusted([tmp_path / PUBLIC], environ={})
    verdict = verify_folder(release, stranger)
    assert verdict.kind == "unknown_signer"
    assert published.receipt("sign").facts["signer"] in verdict.sentence
    assert next(iter(stranger.keys)) in verdict.sentence


def test_a_key_that_travels_with_what_it_signed_proves_nothing(release: Path, trusted: Trusted, tmp_path: Path) -> None:
    make_keys(tmp_path)
    shutil.copy(tmp_path / PUBLIC, release)
    sign_again(release, tmp_path / PRIVATE)
    assert verify_folder(release, trusted).kind == "unknown_signer"
    assert verify_folder(release, load_trusted(environ={})).kind == "unknown_signer"


def test_a_strangers_signature_with_the_name_of_a_trusted_key(
    release: Path, trusted: Trusted, judged: Callable[[], Verdict], tmp_path: Path
) -> None:
    make_keys(tmp_path)
    sign_as_it_is(release, tmp_path / PRIVATE)
    hint = next(iter(trusted.keys))
    edit_signature(release, lambda bundle: bundle["verificationMaterial"]["publicKey"].update(hint=hint))
    assert judged().kind == "bad_signature"


def test_a_statement_that_was_edited(release: Path, judged: Callable[[], Verdict]) -> None:
    """The folder and the statement agree on a changed file; only the signature says no."""
    (release / "LICENSE").write_text("do as you like")

    def agree(statement: Any) -> None:
        for one in statement["predicate"]["resources"]:
            if one["name"] == "LICENSE":
                one["digest"] = "5" * 64

    edit_statement(release, agree)
    assert judged().kind == "bad_signature"


BUNDLES: dict[str, Callable[[Any], None]] = {
    "another media type": lambda bundle: bundle.update(mediaType="application/json"),
    "no signature": lambda bundle: bundle["dsseEnvelope"].update(signatures=[]),
    "two signatures": lambda bundle: bundle["dsseEnvelope"]["signatures"].append(
        bundle["dsseEnvelope"]["signatures"][0]
    ),
    "a key name": lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(keyid="me"),
    "another payload type": lambda bundle: bundle["dsseEnvelope"].update(payloadType="text/plain"),
    "a key beside": lambda bundle: bundle["verificationMaterial"].update(rawBytes="AAAA"),
    "no envelope": lambda bundle: bundle.pop("dsseEnvelope"),
    "an empty signature": lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(sig=""),
}


@pytest.mark.parametrize("change", BUNDLES.values(), ids=BUNDLES.keys())
def test_a_bundle_that_is_not_as_written(
    release: Path, judged: Callable[[], Verdict], change: Callable[[Any], None]
) -> None:
    edit_signature(release, change)
    assert judged().kind == "bad_signature"


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"7", b"\xff", b"{}", b"[" * 100_000, b'"\\ud800"'])
def test_a_signature_file_with_anything_in_it(release: Path, judged: Callable[[], Verdict], data: bytes) -> None:
    (release / "model.sig").write_bytes(data)
    assert judged().kind == "bad_signature"


def test_another_spelling_of_a_good_signature(release: Path, judged: Callable[[], Verdict]) -> None:
    """The same value, so that any other tool would say yes; but not the bytes that were signed and shipped."""
    path = release / "model.sig"
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))
    assert judged().kind == "bad_signature"


def test_unused_bits_of_base64(release: Path, judged: Callable[[], Verdict], published: Publisher) -> None:
    """The last letter before the padding has bits that no byte is made of."""
    letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    # A signature of 72 bytes needs no padding.
    while not (sig := _signature(release)).endswith("="):
        sign_as_it_is(release, published.key)
    body = sig.rstrip("=")
    other = body[:-1] + letters[letters.index(body[-1]) + 1] + sig[len(body) :]
    assert base64.b64decode(other) == base64.b64decode(sig)
    edit_signature(release, lambda bundle: bundle["dsseEnvelope"]["signatures"][0].update(sig=other))
    assert judged().kind == "bad_signature"


def _signature(release: Path) -> str:
    return str(json.loads((release / "model.sig").read_bytes())["dsseEnvelope"]["signatures"][0]["sig"])


@pytest.mark.parametrize("name", ["README.md", "LICENSE", "release.json", "serve/engine.py", "provenance.json"])
def test_a_changed_file(release: Path, judged: Callable[[], Verdict], name: str) -> None:
    data = (release / name).read_bytes()
    (release / name).unlink()
    (release / name).write_bytes(data.swapcase())
    verdict = judged()
    assert (verdict.kind, name in verdict.sentence) == ("file_changed", True)


@pytest.mark.parametrize("name", ["NOTICE", "release.json", f"{RECEIPTS}/parity.json", "sbom.cdx.json"])
def test_a_missing_file(release: Path, judged: Callable[[], Verdict], name: str) -> None:
    (release / name).unlink()
    verdict = judged()
    assert (verdict.kind, name in verdict.sentence) == ("file_missing", True)


@pytest.mark.parametrize("name", ["run.sh", "serve/engine.so", ".git/config", "weights/a\nb", "model.sig2"])
def test_an_extra_file(release: Path, judged: Callable[[], Verdict], name: str) -> None:
    (release / name).parent.mkdir(exist_ok=True)
    (release / name).write_text("")
    assert judged().kind == "extra_file"


def test_what_the_hub_and_its_client_leave_behind_is_no_extra_file(
    release: Path, judged: Callable[[], Verdict]
) -> None:
    (release / ".gitattributes").write_text("*.safetensors filter=lfs")
    (release / ".cache/huggingface/download").mkdir(parents=True)
    (release / ".cache/huggingface/download/README.md.metadata").write_text("")
    assert judged().ok
    (release / ".cache/pip").write_text("")
    assert judged().kind == "extra_file"


def test_a_link_to_the_very_content_is_not_the_file(release: Path, judged: Callable[[], Verdict]) -> None:
    outside = release.parent / "NOTICE"
    (release / "NOTICE").rename(outside)
    (release / "NOTICE").symlink_to(outside)
    assert judged().kind == "file_changed"


def test_a_folder_that_is_a_link_is_not_followed(release: Path, judged: Callable[[], Verdict]) -> None:
    (release / "serve").rename(release.parent / "serve")
    (release / "serve").symlink_to(release.parent / "serve")
    assert judged().kind == "file_missing"


def test_a_pipe_is_not_waited_for(release: Path, judged: Callable[[], Verdict]) -> None:
    (release / "NOTICE").unlink()
    os.mkfifo(release / "NOTICE")
    assert judged().kind == "file_changed"


def test_a_folder_deeper_than_the_stack(tmp_path: Path) -> None:
    deep = os.open(tmp_path, os.O_RDONLY)
    try:
        for _ in range(1200):
            os.mkdir("d", dir_fd=deep)
            inner = os.open("d", os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = inner
        os.close(os.open("x", os.O_CREAT, dir_fd=deep))
        assert list(walk(tmp_path)) == ["d/" * 1200 + "x"]
    finally:
        os.close(deep)
        # Python's own removal is not up to it either.
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)
