"""Verdicts on releases that are signed as they are, and should not have been: each from one cause."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from publish.trust.verdicts import Verdict
from tests.publish.damage import edit, sign_again, sign_as_it_is
from tests.publish.signed import VARIANT, Publisher

RECEIPTS = f"variants/{VARIANT}/receipts"


@pytest.mark.parametrize("stage", ["lower", "compile", "assemble", "parity", "bench"])
def test_a_receipt_that_was_never_there(
    release: Path, judged: Callable[[], Verdict], published: Publisher, stage: str
) -> None:
    (release / RECEIPTS / f"{stage}.json").unlink()
    sign_again(release, published.key)
    verdict = judged()
    assert (verdict.kind, stage in verdict.sentence) == ("receipt_missing", True)


def _figure(bench: Any) -> None:
    bench["measured"]["decode_tok_s"] = 99999.0


RECEIPTS_EDITED: dict[str, tuple[str, Callable[[Any], None], str]] = {
    "no parity": ("parity", lambda one: one.update(verdict="done"), "parity_not_passed"),
    "parity failed": ("parity", lambda one: one.update(verdict="failed"), "parity_not_passed"),
    "a mismatch": ("parity", lambda one: one["facts"].update(mismatches=[{}]), "parity_not_passed"),
    "of other bytes": ("parity", lambda one: one["facts"].update(artifact="2" * 64), "parity_not_passed"),
    "of another build": ("assemble", lambda one: one["facts"].update(more=1), "parity_not_passed"),
    "by a stand-in": ("compile", lambda one: one["toolchain"].update({"neuronx-cc": "2+standin"}), "parity_not_passed"),
    "figures": ("bench", _figure, "receipt_missing"),
    "no receipt": ("bench", lambda one: one.pop("key"), "receipt_missing"),
    "of another stage": ("lower", lambda one: one.update(stage="fetch"), "receipt_missing"),
}


@pytest.mark.parametrize(("stage", "change", "kind"), RECEIPTS_EDITED.values(), ids=RECEIPTS_EDITED.keys())
def test_a_signed_receipt_that_says_no(
    release: Path,
    judged: Callable[[], Verdict],
    published: Publisher,
    stage: str,
    change: Callable[[Any], None],
    kind: str,
) -> None:
    edit(release / RECEIPTS / f"{stage}.json", change)
    sign_again(release, published.key)
    assert judged().kind == kind


MANIFESTS: dict[str, Callable[[Any], None]] = {
    "format": lambda one: one.update(format=2),
    "target": lambda one: one["variant"].update(target="tpu"),
    "builder": lambda one: one["variant"].update(builder="mlir"),
    "a feature": lambda one: one.update(vision={"patch": 14}),
    "a role": lambda one: one["graphs"]["decode"]["signature"]["parameters"][0].update(role="image"),
}


@pytest.mark.parametrize("change", MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_manifest_that_this_version_does_not_know(
    release: Path, judged: Callable[[], Verdict], published: Publisher, change: Callable[[Any], None]
) -> None:
    edit(release / f"variants/{VARIANT}/manifest.json", change)
    sign_again(release, published.key)
    assert judged().kind == "incompatible_runtime"


@pytest.mark.parametrize("change", [{"format": 2}, {"tokens_per_second": 9}])
def test_a_list_that_this_version_does_not_know(
    release: Path, judged: Callable[[], Verdict], published: Publisher, change: dict[str, Any]
) -> None:
    sign_again(release, published.key)
    edit(release / "release.json", lambda one: one.update(change))
    sign_as_it_is(release, published.key)
    assert judged().kind == "incompatible_runtime"


def test_a_manifest_that_names_another_file(release: Path, judged: Callable[[], Verdict], published: Publisher) -> None:
    """Weights were changed and signed again; the manifest that parity judged names those before."""
    weights = release / "weights/cpu-float32/tp1-rank0.safetensors"
    weights.unlink()
    weights.write_bytes(b"other weights")
    sign_again(release, published.key)
    assert judged().kind == "file_changed"


def test_a_manifest_of_another_variant(release: Path, judged: Callable[[], Verdict], published: Publisher) -> None:
    (release / f"variants/{VARIANT}/manifest.json").unlink()
    shutil.copy(release / "variants/bf16/manifest.json", release / f"variants/{VARIANT}/manifest.json")
    sign_again(release, published.key)
    assert judged().kind == "parity_not_passed"


def test_a_variant_that_the_list_does_not_name(
    release: Path, judged: Callable[[], Verdict], published: Publisher
) -> None:
    """Its files are signed, and anybody can serve the folder; but no parity is asked of it."""
    edit(release / "release.json", lambda one: one.update(variants=[VARIANT]))
    sign_again(release, published.key)
    verdict = judged()
    assert (verdict.kind, "variants/bf16/" in verdict.sentence) == ("extra_file", True)


@pytest.mark.parametrize("name", ["LICENSE", "NOTICE", "README.md", "sbom.cdx.json", "provenance.json"])
def test_a_release_that_was_signed_without(
    release: Path, judged: Callable[[], Verdict], published: Publisher, name: str
) -> None:
    (release / name).unlink()
    sign_again(release, published.key)
    verdict = judged()
    assert (verdict.kind, name in verdict.sentence) == ("file_missing", True)


def test_a_package_without_its_licence(release: Path, judged: Callable[[], Verdict], published: Publisher) -> None:
    path = next((release / "licences").glob("numpy-*"))
    path.unlink()
    sign_again(release, published.key)
    verdict = judged()
    assert (verdict.kind, path.name in verdict.sentence) == ("licence_missing", True)


def _unlicensed(bill: Any) -> None:
    for one in bill["components"]:
        one.pop("licenses", None)


def test_a_bill_that_names_no_licence(release: Path, judged: Callable[[], Verdict], published: Publisher) -> None:
    edit(release / "sbom.cdx.json", _unlicensed)
    sign_again(release, published.key)
    assert judged().kind == "licence_missing"


def test_a_list_that_differs_from_what_was_signed(
    release: Path, judged: Callable[[], Verdict], published: Publisher
) -> None:
    edit(release / "release.json", lambda one: one["files"].pop("NOTICE"))
    sign_as_it_is(release, published.key)
    assert judged().kind == "extra_file"


@pytest.mark.parametrize("change", [lambda one: one["subject"].pop(), lambda one: one.pop("predicate")])
def test_provenance_of_something_else(
    release: Path, judged: Callable[[], Verdict], published: Publisher, change: Callable[[Any], None]
) -> None:
    edit(release / "provenance.json", change)
    sign_as_it_is(release, published.key)
    assert judged().kind == "provenance_mismatch"
