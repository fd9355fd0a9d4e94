"""No path reaches a public tag but the whole one: whatever is dropped, altered or swapped, nothing public changes."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from ledger.errors import FoundryError, GateFailed
from ledger.receipts import Receipt
from publish.gate import STAGES
from publish.promotion.decide import OF_IMAGE, OF_RELEASE, decide, judge, needed
from publish.promotion.licensed import unlicensed
from publish.promotion.pulled import Pulled
from publish.trust.release import SBOM
from tests.publish.promotion.places import public, read, write
from tests.publish.promotion.world import NEEDED, VARIANTS, World

quietly = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
many, some = settings(quietly, max_examples=100), settings(quietly, max_examples=15)
receipts = st.sampled_from(NEEDED)


def refused(world: World, *steps: Callable[[], object]) -> str:
    """The one sentence that the steps end with, while nothing public changes."""
    before = public(world.registry, world.hub)
    with pytest.raises(FoundryError) as caught:
        for step in steps:
            step()
    assert public(world.registry, world.hub) == before
    said = str(caught.value)
    assert said and "\n" not in said
    return said


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to every leaf of a JSON value; an empty list or mapping is one."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    if not items:
        yield path
    for key, one in items:
        yield from leaves(one, (*path, key))


def altered(receipt: Receipt, path: tuple[Any, ...]) -> Receipt:
    """The receipt with another value at `path`, of the same kind where the model asks for one."""
    value = copy.deepcopy(receipt.model_dump(mode="json"))
    inner = value
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = _another(inner[path[-1]], path[0])
    return Receipt.model_validate(value)


def _another(old: Any, top: str) -> Any:
    """A value in place of `old`, of which a receipt can still be read; `top` is the key of the receipt it is below."""
    if old == {}:
        return {"x": {"sha256": "0" * 64, "bytes": 1} if top == "outputs" else "0" * 64}
    if top == "verdict":
        return "failed" if old != "failed" else "done"
    if isinstance(old, str):
        return f"{old[:-1]}{'0' if old[-1:] != '0' else '1'}"
    return ["x"] if old == [] else not old if isinstance(old, bool) else 1 if old is None else old + 1


@pytest.mark.parametrize("name", NEEDED)
def test_a_receipt_that_is_missing(verified: World, name: str) -> None:
    world = verified.copy()
    del world.receipts[name]
    assert f"the {name} receipt is missing" in refused(world, world.promote)


@given(name=receipts, data=st.data())
@many
def test_a_receipt_that_was_altered(verified: World, name: str, data: st.DataObject) -> None:
    world = verified.copy()
    # What was measured is held by its digest where it is told to people, and is no part of what a receipt vouches for.
    paths = [path for path in leaves(world.receipts[name].model_dump(mode="json")) if path[0] != "measured"]
    world.receipts[name] = altered(world.receipts[name], data.draw(st.sampled_from(paths)))
    assert name in refused(world, world.promote)


def without(world: World, path: str) -> dict[str, Receipt]:
    """Receipts of one release from which the file `path` of the sign receipt was left out from the start, in all."""
    found = copy.deepcopy({name: one.model_dump(mode="json") for name, one in world.receipts.items()})
    del found["sign"]["outputs"][path]
    folder, _, inner = path.partition("/")
    pulled = found["verify"]["facts"]["pulled"]
    if folder == "release":
        found["package"]["outputs"].pop(inner, None)
        del pulled["release"]["files"][inner]
    else:
        variant, _, inner = inner.partition("/")
        del pulled["images"][variant]["folder"]["files"][inner]
    receipts: dict[str, Receipt] = {}
    for name, earlier in needed(VARIANTS).items():
        found[name]["inputs"] |= {one: receipts[one].digest for one in earlier}
        receipts[name] = Receipt.model_validate(found[name])
    return receipts


def test_receipts_of_a_whole_release_are_accepted(verified: World) -> None:
    """Or the next test would prove nothing."""
    assert decide(VARIANTS, verified.receipts).images.keys() == set(VARIANTS)


@pytest.mark.parametrize(
    "path", [f"release/{name}" for name in OF_RELEASE] + [f"images/bf16/{name}" for name in OF_IMAGE]
)
def test_a_release_that_never_had_what_every_release_must_have(verified: World, path: str) -> None:
    with pytest.raises(GateFailed, match=f"^{re.escape(path.rpartition('/')[2])} is not among what was signed"):
        decide(VARIANTS, without(verified, path))


@pytest.mark.parametrize("stage", STAGES)
def test_a_release_or_image_without_a_receipt_in_it(verified: World, stage: str) -> None:
    for path in (f"release/variants/bf16/receipts/{stage}.json", f"images/bf16/receipts/{stage}.json"):
        with pytest.raises(GateFailed, match=f"receipts/{stage}.json is not among what was signed"):
            decide(VARIANTS, without(verified, path))


def test_a_package_without_a_licence(staged: World, tmp_path: Path) -> None:
    """The text of one is taken away, and the expression of another."""
    folder = tmp_path / "folder"
    write(read(staged.folder / "signed"), folder)
    assert unlicensed(folder) == ()
    bill = json.loads((folder / SBOM).read_text())
    libraries = [one for one in bill["components"] if one["type"] == "library"]
    del libraries[0]["licenses"]
    (folder / SBOM).write_text(json.dumps(bill))
    (folder / f"licences/{libraries[1]['name']}-{libraries[1]['version']}.txt").unlink()
    assert [name.split()[0] for name in unlicensed(folder)] == [libraries[0]["name"], libraries[1]["name"]]
    (folder / SBOM).unlink()
    assert unlicensed(folder) == (SBOM,)


def test_a_licence_that_is_missing_is_one_sentence(verified: World) -> None:
    pulled = Pulled.model_validate(verified.receipts["verify"].facts["pulled"])
    release = pulled.release.model_copy(update={"unlicensed": ("numpy 2.4.6",)})
    with pytest.raises(GateFailed, match=r"names no licence of numpy 2\.4\.6, or lacks its text"):
        judge(VARIANTS, verified.receipts, pulled.model_copy(update={"release": release}))


@given(one=receipts, two=receipts)
@many
def test_two_receipts_that_were_swapped(verified: World, one: str, two: str) -> None:
    world = verified.copy()
    # Two stages that made the same thing vouch for the same thing.
    assume(world.receipts[one].digest != world.receipts[two].digest)
    world.receipts[one], world.receipts[two] = world.receipts[two], world.receipts[one]
    refused(world, world.promote)


@pytest.mark.parametrize(
    "name", [name for name in NEEDED if name in ("package", "sign", "stage", "verify") or "/i" in name]
)
def test_a_receipt_of_another_release(verified: World, other: World, name: str) -> None:
    world = verified.copy()
    world.receipts[name] = other.receipts[name]
    refused(world, world.promote)


def test_all_receipts_of_another_release(verified: World, other: World) -> None:
    """Good ones, of one build; but what they speak of was staged elsewhere."""
    world = verified.copy()
    world.receipts = dict(other.receipts)
    assert "of another destination" in refused(world, world.promote)


RELEASE, ATTESTATION, IMAGE = "release", "attestation", "image"


@given(
    where=st.sampled_from((RELEASE, ATTESTATION, IMAGE)),
    how=st.sampled_from(("flip", "drop", "add", "swap")),
    data=st.data(),
)
@some
def test_a_file_that_is_not_what_was_staged(staged: World, where: str, how: str, data: st.DataObject) -> None:
    """The servers name it by the digest that was staged, and hand out something else."""
    world = staged.copy()
    place = {
        RELEASE: world.hub.commits,
        ATTESTATION: world.registry.attestations,
        IMAGE: world.registry.images,
    }[where]
    name = data.draw(st.sampled_from(sorted(set(place) - {"0" * 40})))
    place[name] = changed(dict(place[name]), how, data, images=where == IMAGE)
    refused(world, world.verify)
    refused(world, world.promote)


def changed(files: dict[str, bytes], how: str, data: st.DataObject, images: bool) -> dict[str, bytes]:
    """Other files than `files`, one or two of which were touched."""
    # What a layout says of itself is made by who pulls; what counts are its blobs.
    names = sorted(name for name in files if files[name] and (not images or name.startswith("blobs/")))
    one = data.draw(st.sampled_from(names))
    match how:
        case "flip":
            at = data.draw(st.integers(0, len(files[one]) - 1))
            bit = 1 << data.draw(st.integers(0, 7))
            files[one] = files[one][:at] + bytes([files[one][at] ^ bit]) + files[one][at + 1 :]
        case "drop":
            del files[one]
        case "add":
            assume(not images)
            files[data.draw(st.sampled_from(("extra", "variants/512-128/extra", "receipts/extra.json")))] = b"extra"
        case "swap":
            two = data.draw(st.sampled_from(names))
            assume(files[one] != files[two])
            files[one], files[two] = files[two], files[one]
    return files


@given(data=st.data())
@some
def test_digests_of_the_wrong_thing(staged: World, data: st.DataObject) -> None:
    """What was staged is named wrongly: each digest in the stage receipt, and each pair of them."""
    world = staged.copy()
    facts = copy.deepcopy(world.receipts["stage"].facts)
    places = [(variant, key) for variant in facts["images"] for key in ("digest", "attestation")]
    (v1, k1), (v2, k2) = data.draw(st.permutations(places))[:2]
    images = facts["images"]
    images[v1][k1], images[v2][k2] = images[v2][k2], images[v1][k1]
    world.receipts["stage"] = world.receipts["stage"].model_copy(update={"facts": facts})
    refused(world, world.verify)
    refused(world, world.promote)


@pytest.mark.parametrize("lost", ["image", "attestation", "commit"])
def test_what_was_verified_and_is_gone(verified: World, lost: str) -> None:
    world = verified.copy()
    if lost == "image":
        world.registry.images.pop(next(iter(world.registry.images)))
    elif lost == "attestation":
        world.registry.of_image.clear()
    else:
        del world.hub.commits[world.receipts["stage"].facts["commit"]]
    refused(world, world.promote)


def test_an_attestation_that_was_replaced_after_it_was_verified(verified: World) -> None:
    world = verified.copy()
    one, two = world.registry.of_image
    world.registry.of_image[one] = world.registry.of_image[two]
    assert "has the attestation" in refused(world, world.promote)


def test_a_key_that_nobody_trusts(staged: World, other: World) -> None:
    world = staged.copy()
    world.folder = other.folder
    said = refused(world, world.verify)
    assert "unknown_signer" in said


@pytest.mark.parametrize("taken", ["tag", "git tag"])
def test_a_version_that_is_taken(verified: World, other: World, taken: str) -> None:
    world = verified.copy()
    if taken == "tag":
        world.registry.tags["v1-bf16-cpu"] = other.receipts["bf16/image"].facts["digest"]
    else:
        world.hub.tags["v1"] = "0" * 40
    assert "never move" in refused(world, world.promote)
