"""A software bill of materials in CycloneDX 1.6: the packages, the model files and the base that something consists of.

Nothing in it is of the hour: the serial number is a name-based UUID of the content, and the time is left out, which
the schema allows and the library does not know.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from ledger.digest import canonical_json
from publish.trust.licences import Licence

_NAMESPACE = uuid.uuid5(uuid.NAMESPACE_URL, "urn:neff-foundry:sbom:v1")
# What lies in these folders of a release is a part of the model, but for what JSON tells of it.
_MODEL = {"weights", "tables", "variants"}


class DebianPackage(Protocol):
    """A Debian package of a base image, as dpkg names it; `publish.image.packages` reads them."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def architecture(self) -> str: ...


def sbom(
    name: str,
    kind: ComponentType,
    *,
    packages: Sequence[Licence] = (),
    files: Mapping[str, str] | None = None,
    debian: Iterable[DebianPackage] = (),
) -> bytes:
    """The bill of `name`: Python packages with their licences, files (sha256 by path), Debian packages of the base."""
    components = [
        *(_python(one) for one in packages),
        *(_file(path, sha256) for path, sha256 in (files or {}).items()),
        *(_debian(one) for one in debian),
    ]
    subject = Component(name=name, type=kind, bom_ref="subject")
    bom = Bom(components=components, serial_number=_NAMESPACE)
    bom.metadata.component = subject
    bom.register_dependency(subject, components)
    document: dict[str, Any] = json.loads(JsonV1Dot6(bom).output_as_string())
    del document["metadata"]["timestamp"]
    document["serialNumber"] = uuid.uuid5(_NAMESPACE, canonical_json(document).decode()).urn
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _python(licence: Licence) -> Component:
    package = licence.package
    purl = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        name=package.name,
        version=package.version,
        type=ComponentType("library"),
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=[LicenseFactory().make_from_string(licence.expression)],
        # Of every file that the lock accepts; which of them is installed depends on the host.
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=one) for one in package.hashes],
    )


def _file(path: str, sha256: str) -> Component:
    model = not _MODEL.isdisjoint(path.split("/")) and not path.endswith(".json")
    return Component(
        name=path,
        type=ComponentType.MACHINE_LEARNING_MODEL if model else ComponentType.FILE,
        bom_ref=f"file:{path}",
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
    )


def _debian(package: DebianPackage) -> Component:
    purl = PackageURL("deb", "debian", package.name, package.version, qualifiers={"arch": package.architecture})
    return Component(
        name=package.name, version=package.version, type=ComponentType("library"), purl=purl, bom_ref=purl.to_string()
    )
