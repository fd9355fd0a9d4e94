"""The bill of materials holds by CycloneDX's own schema, is complete, and is the same twice."""

import json
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.component import ComponentType
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from ledger.digest import sha256_file
from ledger.sources import ROOT
from publish.image.packages import DebianPackage
from publish.trust.licences import licences
from publish.trust.lockfile import read_lock
from publish.trust.sbom import sbom
from tests.publish.signed import VARIANT, Publisher

LOCK = ROOT / "envs" / "serve-cpu.txt"
LIBC = DebianPackage("libc6", "2.36-9+deb12u13", "amd64", "glibc")


def components(path: Path) -> dict[str, Any]:
    return {one["bom-ref"]: one for one in json.loads(path.read_bytes())["components"]}


def test_both_hold_by_the_schema(published: Publisher) -> None:
    validator = JsonStrictValidator(SchemaVersion.V1_6)
    for folder in (published.signed, published.attestation):
        text = (folder / "sbom.cdx.json").read_text()
        assert validator.validate_str(text) is None
        assert json.loads(text)["specVersion"] == "1.6"
    assert validator.validate_str(text.replace('"library"', '"libary"')) is not None


def test_every_file_of_a_release_is_in_its_bill(published: Publisher) -> None:
    found = components(published.release / "sbom.cdx.json")
    left = {"release.json", "sbom.cdx.json"}
    for path in (path for path in published.release.rglob("*") if path.is_file()):
        name = path.relative_to(published.release).as_posix()
        if name not in left:
            assert found[f"file:{name}"]["hashes"] == [{"alg": "SHA-256", "content": sha256_file(path)}]
    assert found["file:weights/cpu-float32/tp1-rank0.safetensors"]["type"] == "machine-learning-model"
    assert found[f"file:variants/{VARIANT}/decode.stablehlo"]["type"] == "machine-learning-model"
    assert found["file:tokenizer.json"]["type"] == "file"
    assert found[f"file:variants/{VARIANT}/manifest.json"]["type"] == "file"


def test_every_package_of_the_lock_is_in_both_with_its_licence_and_hashes(published: Publisher) -> None:
    for folder in (published.signed, published.attestation):
        found = components(folder / "sbom.cdx.json")
        for one in read_lock(LOCK):
            component = found[f"pkg:pypi/{one.name}@{one.version}"]
            assert component["purl"] == f"pkg:pypi/{one.name}@{one.version}"
            assert {entry["content"] for entry in component["hashes"]} == set(one.hashes)
            assert component["licenses"]


def test_an_image_has_its_debian_packages_and_its_own_variant_only(published: Publisher) -> None:
    found = components(published.attestation / "sbom.cdx.json")
    assert found["pkg:deb/debian/libc6@2.36-9%2Bdeb12u13?arch=amd64"]["version"] == "2.36-9+deb12u13"
    assert f"file:release/variants/{VARIANT}/manifest.json" in found
    assert not [name for name in found if "bf16" in name]
    assert found["file:release/weights/cpu-float32/tp1-rank0.safetensors"]["type"] == "machine-learning-model"


def test_the_same_things_make_the_same_bytes_in_any_order() -> None:
    packages, files = licences(read_lock(LOCK)), {"weights/a": "1" * 64, "b": "2" * 64}
    one = sbom("x", ComponentType.CONTAINER, packages=packages, files=files, debian=[LIBC])
    turned = dict(reversed(files.items()))
    other = sbom("x", ComponentType.CONTAINER, packages=packages[::-1], files=turned, debian=[LIBC])
    assert one == other
    assert "timestamp" not in json.loads(one)["metadata"]


@pytest.mark.parametrize("change", [{"files": {"a": "2" * 64}}, {"debian": []}])
def test_other_things_have_another_serial_number(change: dict[str, Any]) -> None:
    same: dict[str, Any] = {"files": {"a": "1" * 64}, "debian": [LIBC]}
    made = [json.loads(sbom("x", ComponentType.CONTAINER, **(same | more))) for more in ({}, {}, change)]
    first, again, other = (one["serialNumber"] for one in made)
    assert first == again != other
