"""The stages on a real registry and the Hub's stand-in, by their command lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from huggingface_hub import HfApi, snapshot_download

from ledger.errors import FoundryError
from ledger.receipts import Receipt
from publish.promotion import promote, stage, verify
from tests.hub import Hub
from tests.publish.image.loopback import Registry, serving
from tests.publish.promotion.places import read
from tests.publish.promotion.world import NEEDED, PORT, VARIANTS, World

# huggingface_hub sends files in a way that httpx is about to drop.
pytestmark = pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")

STAGES = {"stage": stage.main, "verify": verify.main, "promote": promote.main}
NAME = "foundry/demo"


@dataclass
class Places:
    """A signed world whose receipts are files, and the two servers."""

    world: World
    registry: Registry
    hub: Hub
    folder: Path

    def run(self, name: str) -> int:
        """A stage by its command line; its exit code, or a FoundryError."""
        names = {"stage": ["sign", *(f"{one}/image" for one in VARIANTS)], "verify": NEEDED[:-1], "promote": NEEDED}[
            name
        ]
        to = self.world.to.model_dump(mode="json") | {
            "repo": NAME,
            "endpoint": self.hub.endpoint,
        }
        trusted = {"trusted": [str(self.world.folder / "publisher.pub")]} if name == "verify" else {}
        inputs = [f"--input={one}={self.receipt(one)}" for one in names]
        own = {
            "stage": [f"--{flag}={self.world.folder / at}" for flag, at in FOLDERS.items()],
            "verify": [f"--scratch={self.folder / 'scratch'}"],
            "promote": [],
        }[name]
        recipe = json.dumps({"destination": to} | trusted)
        store, out = f"--store={self.world.store.root}", f"--out={self.receipt(name)}"
        return STAGES[name](["--recipe", recipe, *inputs, *own, store, out])

    def receipt(self, name: str) -> Path:
        path = self.folder / "receipts" / f"{name}.json"
        if not path.exists() and name in self.world.receipts:
            self.world.receipts[name].write(path)
        return path

    def tags(self) -> dict[str, str]:
        """What the registry has under the tags of the release, and those that move."""
        tags = [*self.world.to.fixed.values(), *self.world.to.moving]
        return {tag: digest for tag in tags if (digest := self.registry.digest("demo", tag))}

    def refs(self) -> tuple[dict[str, str], dict[str, str]]:
        """Branches and tags on the Hub."""
        repository = self.hub.repository(NAME)
        return repository.refs("branches"), repository.refs("tags")


FOLDERS = {"release": "signed", "images": "images", "attestations": "attestations"}


@pytest.fixture
def places(signed: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Places]:
    with serving(tmp_path / "registry", PORT) as registry, Hub(tmp_path / "hub") as hub:
        monkeypatch.setenv("HF_TOKEN", hub.token)
        monkeypatch.setattr("publish.image.skopeo.WAITS", (0.01,))
        HfApi(endpoint=hub.endpoint, token=hub.token).create_repo(NAME)
        yield Places(signed.copy(), registry, hub, tmp_path)


def test_from_signed_folders_to_public_tags_with_a_stop_in_between_and_nothing_the_second_time(places: Places) -> None:
    assert [places.run(name) for name in ("stage", "verify")] == [0, 0]
    assert not (places.folder / "scratch").exists()
    places.hub.fail("commit", how=403)
    with pytest.raises(FoundryError, match="403"):
        places.run("promote")
    # What belongs to the release is there, and nothing names it yet.
    digests = {name: places.world.receipts[f"{name}/image"].facts["digest"] for name in VARIANTS}
    assert places.tags() == {tag: digests[name] for name, tag in places.world.to.fixed.items()}
    assert not places.refs()[1]

    assert places.run("promote") == 0
    assert places.tags() == {
        **{tag: digests[name] for name, tag in places.world.to.fixed.items()},
        **{tag: digests[name] for tag, name in places.world.to.moving.items()},
    }
    branches, tags = places.refs()
    assert tags == {"v1": branches["main"]}
    puller = places.folder / "puller"
    pulled = Path(snapshot_download(NAME, revision="v1", endpoint=places.hub.endpoint, local_dir=puller))
    files = {path: data for path, data in read(pulled).items() if not path.startswith((".cache/", ".gitattributes"))}
    assert files == read(places.world.folder / "signed")

    asked, before = len(places.registry.requests()), places.refs()
    places.hub.forget()
    assert [places.run(name) for name in STAGES] == [0, 0, 0]
    assert {request.method for request in places.registry.since(asked)} <= {"GET", "HEAD"}
    assert not places.hub.requests("commit", "lfs_put", "lfs_part", "tag")
    assert places.refs() == before
    sent = Receipt.read(places.receipt("stage")).measured
    assert [sent[key] for key in ("blobs_sent", "files_sent", "bytes_sent")] == [0, 0, 0]


def test_what_is_not_as_it_was_signed_is_found_before_anything_is_public(places: Places) -> None:
    """First a file of an attestation, altered before it was sent; then a byte of a layer, in the registry itself."""
    notice = places.world.folder / "attestations" / "bf16" / "NOTICE"
    kept = notice.read_bytes()
    try:
        notice.unlink()
        notice.write_bytes(kept + b"and more\n")
        places.run("stage")
        assert places.run("verify") == 1
    finally:
        notice.write_bytes(kept)
    failed = Receipt.read(places.receipt("verify").with_suffix(".failed.json"))
    assert failed.verdict == "failed" and not places.receipt("verify").exists()
    with pytest.raises(FoundryError, match=r"receipt .*verify\.json cannot be read"):
        places.run("promote")

    places.run("stage")
    flip(places.folder / "registry", places.world)
    with pytest.raises(FoundryError) as caught:
        places.run("verify")
    assert "\n" not in str(caught.value)
    assert not places.receipt("verify").exists()
    assert places.tags() == {} and not places.refs()[1]


def flip(root: Path, world: World) -> None:
    """Change a byte of a layer in a registry's storage."""
    digest = world.receipts["bf16/image"].facts["digest"]
    manifest = json.loads((world.folder / "images" / "bf16" / "blobs" / "sha256" / digest[7:]).read_bytes())
    (path,) = root.rglob(f"{manifest['layers'][0]['digest'][7:]}/data")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_what_is_damaged_after_it_was_found_good_is_found_again(places: Places) -> None:
    assert [places.run(name) for name in ("stage", "verify")] == [0, 0]
    image = json.loads((places.world.folder / "images" / VARIANTS[0] / "index.json").read_bytes())["manifests"][0]
    manifest = json.loads(
        (places.world.folder / "images" / VARIANTS[0] / "blobs" / image["digest"].replace(":", "/")).read_bytes()
    )
    hexadecimal = manifest["layers"][0]["digest"].removeprefix("sha256:")
    held = places.folder / "registry/blobs/docker/registry/v2/blobs/sha256" / hexadecimal[:2] / hexadecimal / "data"
    held.write_bytes(b"x" + held.read_bytes()[1:])
    with pytest.raises(FoundryError, match=hexadecimal):
        places.run("verify")
    with pytest.raises(FoundryError, match="verify"):
        places.run("promote")
    assert not places.tags() and not places.refs()[1]
