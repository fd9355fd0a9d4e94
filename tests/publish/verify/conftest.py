"""What the tests of trust are given: a signed release, its image, and copies of both to damage."""

import json
import shutil
from pathlib import Path

import pytest

from publish.image.attest import pack
from publish.image.blobs import Blobs
from publish.image.layout import read_layout
from tests.publish.signed import Publisher
from tests.publish.trust.conftest import attestation, no_power_cut, published, release, trusted

__all__ = ["attestation", "both", "no_power_cut", "published", "release", "trusted"]

NAME = "org.opencontainers.image.ref.name"


def together(layout: Path, folder: Path, aside: Path) -> Path:
    """Put the attestation in `folder` into the OCI layout `layout`, as two copies by skopeo would leave it."""
    packed = pack(folder, aside)
    digest = read_layout(layout).digest
    for blob in (packed.digest, *packed.blobs()):
        Blobs(aside).lend(blob, Blobs(layout))
    index = json.loads((layout / "index.json").read_bytes())
    own = json.loads((aside / "index.json").read_bytes())["manifests"][0]
    own["annotations"] = {NAME: f"{digest.replace(':', '-')}.att"}
    index["manifests"].append(own)
    (layout / "index.json").unlink()
    (layout / "index.json").write_text(json.dumps(index))
    return layout


@pytest.fixture
def both(published: Publisher, tmp_path: Path) -> Path:
    """A copy of the image's layout with its attestation in it."""
    layout = Path(shutil.copytree(published.layout, tmp_path / "layout"))
    return together(layout, published.attestation, tmp_path / "packed")
