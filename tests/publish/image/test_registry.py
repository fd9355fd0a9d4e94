"""To a real registry and back: digests stay, nothing is sent twice, and the plan tells what the push then does."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
from pathlib import Path

import pytest

from ledger.errors import BadInput
from publish.image.build import Built, build
from publish.image.layout import check_layout, read_layout
from publish.image.registry import head, list_tags, plan_push, pull, push, retag
from publish.image.skopeo import Absent
from tests.publish.image.loopback import Proxy, Registry, Request
from tests.publish.image.small import VARIANTS, make_release, make_spec

_SENDING = ("POST", "PATCH", "PUT")


@pytest.fixture(scope="module")
def runtime(images: tuple[Built, Built]) -> Path:
    """An image of two layers, for what is tried again and again."""
    return images[0].layout.parents[1] / "runtime"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> tuple[Built, Built]:
    """Both variants of one release; read only."""
    root = tmp_path_factory.mktemp("images")
    first, second = (build(make_spec(root, name)) for name in VARIANTS)
    return first, second


def _name(repository: str) -> str:
    return repository.partition("/")[2]


def _sent(requests: list[Request]) -> list[Request]:
    """What carried bytes of blobs."""
    return [request for request in requests if request.method in _SENDING and "/blobs/" in request.path]


def test_what_comes_back_is_what_was_sent(images: tuple[Built, Built], repository: str, tmp_path: Path) -> None:
    sent = push(images[0].layout, f"{repository}:a")
    assert pull(f"{repository}:a", tmp_path / "tag") == sent.digest == images[0].digest
    assert pull(f"{repository}@{sent.digest}", tmp_path / "digest") == sent.digest
    wanted = {path.name: path.read_bytes() for path in (images[0].layout / "blobs" / "sha256").iterdir()}
    for layout in (tmp_path / "tag", tmp_path / "digest"):
        assert check_layout(layout).digest == sent.digest
        assert {path.name: path.read_bytes() for path in (layout / "blobs" / "sha256").iterdir()} == wanted


def test_the_digest_is_what_the_registry_says(images: tuple[Built, Built], registry: Registry, repository: str) -> None:
    assert push(images[0].layout, f"{repository}:a").digest == registry.digest(_name(repository), "a")
    assert head(f"{repository}:a") == head(f"{repository}@{images[0].digest}") == images[0].digest


def test_all_is_sent_once(images: tuple[Built, Built], registry: Registry, repository: str, tmp_path: Path) -> None:
    # Of its own content, as a registry takes blobs over from its other repositories.
    release = make_release(tmp_path / "release", server=" # sent once")
    image = build(make_spec(tmp_path, release=release, revision="1" * 40))
    sent = push(image.layout, f"{repository}:a")
    assert sent.blobs_sent >= 2 and sent.bytes_sent >= image.layers[-1].bytes
    before = len(registry.requests())
    again = push(image.layout, f"{repository}:a")
    assert (again.blobs_sent, again.bytes_sent, again.digest) == (0, 0, sent.digest)
    elsewhere = push(image.layout, f"{repository}:b")
    assert (elsewhere.blobs_sent, elsewhere.bytes_sent) == (0, 0)
    assert _sent(registry.since(before)) == []


def test_a_second_variant_sends_a_twentieth(images: tuple[Built, Built], proxy: Proxy) -> None:
    # Through the proxy, whose address the first push of these blobs does not know.
    repository = f"{proxy.address}/tests/second-variant"
    first, second = (push(image.layout, f"{repository}:{name}") for image, name in zip(images, VARIANTS, strict=True))
    assert second.bytes_sent <= 0.05 * images[0].bytes and second.blobs_sent <= 2
    assert first.blobs_sent <= 7


def test_the_plan_is_what_is_sent(images: tuple[Built, Built], registry: Registry, repository: str) -> None:
    tag = f"{repository}:a"
    plan = plan_push(images[0].layout, tag)
    assert not plan.held and plan.digest == images[0].digest and plan.bytes == read_size(images[0])
    assert {blob.digest: blob.bytes for blob in plan.blobs} == read_layout(images[0].layout).blobs()
    assert list_tags(repository) == [] and head(tag) is None
    push(images[0].layout, tag)
    done = plan_push(images[0].layout, tag)
    assert done.held and done.bytes == 0 and all(blob.held for blob in done.blobs)
    before = len(registry.requests())
    plan = plan_push(images[1].layout, f"{repository}:b")
    assert not {request.method for request in registry.since(before)} & {*_SENDING, "DELETE"}
    assert not plan.held and plan.bytes == push(images[1].layout, f"{repository}:b").bytes_sent


def read_size(image: Built) -> int:
    """Bytes of all blobs."""
    return sum(read_layout(image.layout).blobs().values())


def test_a_tag_is_copied_without_a_blob(images: tuple[Built, Built], registry: Registry, repository: str) -> None:
    push(images[0].layout, f"{repository}:staging")
    push(images[1].layout, f"{repository}:latest")
    before = len(registry.requests())
    assert retag(f"{repository}:staging", "latest") == images[0].digest
    assert retag(f"{repository}@{images[0].digest}", "v1") == images[0].digest
    assert _sent(registry.since(before)) == []
    assert {registry.digest(_name(repository), tag) for tag in ("latest", "v1")} == {images[0].digest}
    assert list_tags(repository) == ["latest", "staging", "v1"]
    before = len(registry.requests())
    retag(f"{repository}:staging", "latest")
    assert {request.method for request in registry.since(before)} <= {"GET", "HEAD"}


def test_what_is_not_there_is_absent(repository: str, tmp_path: Path) -> None:
    for reference in (f"{repository}:none", f"{repository}@sha256:{'0' * 64}"):
        assert head(reference) is None
        with pytest.raises(Absent, match=r"the registry has it not \(.*\); accepted: a repository and an "):
            pull(reference, tmp_path / "layout")
    assert not (tmp_path / "layout").exists()


def test_a_pull_that_fails_leaves_what_was_there(images: tuple[Built, Built], repository: str, tmp_path: Path) -> None:
    push(images[0].layout, f"{repository}:a")
    pull(f"{repository}:a", tmp_path / "layout")
    with pytest.raises(Absent):
        pull(f"{repository}:b", tmp_path / "layout")
    assert check_layout(tmp_path / "layout").digest == images[0].digest


def test_a_damaged_layer_is_not_sent(runtime: Path, proxy: Proxy, registry: Registry, tmp_path: Path) -> None:
    layout = shutil.copytree(runtime, tmp_path / "layout")
    blob = layout / "blobs" / "sha256" / read_layout(layout).layers[0]["digest"].removeprefix("sha256:")
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    # Its size is right, so skopeo has to read it to know. The registry must not have it from elsewhere.
    blob.write_bytes(data)
    proxy.restart(lambda _number, asked: 404 if asked.method == "HEAD" or "mount=" in asked.query else None)
    with pytest.raises(BadInput, match=r"Digest did not match.*; accepted: blobs that are what their names say"):
        push(layout, f"{proxy.address}/tests/damaged:a")
    assert registry.digest("tests/damaged", "a") is None


def test_no_registry_is_one_sentence(images: tuple[Built, Built], proxy: Proxy) -> None:
    del proxy  # for its short waits
    with pytest.raises(BadInput, match=r"^127\.0\.0\.1:1/x:y: .*refused; accepted: a registry that answers \(5"):
        push(images[0].layout, "127.0.0.1:1/x:y")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413])
@pytest.mark.parametrize(("method", "part"), [("POST", "/blobs/uploads/"), ("PUT", "/manifests/")])
def test_a_refusal_is_told_in_one_try(
    runtime: Path, proxy: Proxy, auth: Path, status: int, method: str, part: str
) -> None:
    repository = f"{proxy.address}/tests/refused-{status}-{method.lower()}"
    proxy.restart(lambda _number, asked: status if asked.method == method and part in asked.path else None)
    with pytest.raises(BadInput) as caught:
        push(runtime, f"{repository}:a")
    assert re.fullmatch(rf"{repository}:a: [^\n]+; accepted: [^\n]+", str(caught.value))
    # One skopeo asked what is there, and one, which went no further than this, was to send it.
    assert proxy.seen.count(Request("GET", "/v2/")) == 2
    assert len([asked for asked in proxy.seen if asked.method == "PUT" and "/manifests/" in asked.path]) <= 1
    proxy.restart(lambda _number, _request: None)
    assert head(f"{repository}:a") is None


@pytest.mark.parametrize("fault", [503, 0])
def test_a_fault_at_any_request_of_a_push_is_overcome(runtime: Path, proxy: Proxy, fault: int, tmp_path: Path) -> None:
    digest, site, requests = read_layout(runtime).digest, 0, 1
    while site < requests:
        reference = f"{proxy.address}/tests/fault-{fault}-{site}:a"
        proxy.restart(lambda number, _request, at=site: fault if number == at else None)  # type: ignore[misc]
        assert push(runtime, reference).digest == digest, site
        requests = len(proxy.seen)
        site += 1
    assert requests > 8
    proxy.restart(lambda _number, _request: None)
    assert pull(reference, tmp_path / "layout") == digest


def test_a_fault_at_any_request_of_a_pull_is_overcome(runtime: Path, proxy: Proxy, tmp_path: Path) -> None:
    reference = f"{proxy.address}/tests/pull-faults:a"
    digest, site, requests = push(runtime, reference).digest, 0, 1
    while site < requests:
        proxy.restart(lambda number, _request, at=site: (0, 500)[at % 2] if number == at else None)  # type: ignore[misc]
        assert pull(reference, tmp_path / "layout") == digest
        requests = len(proxy.seen)
        site += 1
    assert check_layout(tmp_path / "layout").digest == digest


@pytest.mark.soak
@pytest.mark.parametrize("fault", [500, 502, 0])
def test_a_fault_at_any_request_of_a_whole_image_is_overcome(
    images: tuple[Built, Built], proxy: Proxy, fault: int, tmp_path: Path
) -> None:
    test_a_fault_at_any_request_of_a_push_is_overcome(images[0].layout, proxy, fault, tmp_path)


def test_a_tag_appears_when_the_image_is_whole(runtime: Path, proxy: Proxy, registry: Registry) -> None:
    """Whatever request is the last one that gets through, the tag is the whole image or is not there."""
    digest, outcomes = read_layout(runtime).digest, set()
    for last in range(1, 19, 2):
        name = f"tests/half-{last}"
        proxy.restart(lambda number, _request, last=last: 0 if number > last else None)  # type: ignore[misc]
        whole = None
        with contextlib.suppress(BadInput):
            whole = push(runtime, f"{proxy.address}/{name}:a").digest
        found = registry.digest(name, "a")
        assert found in (None, digest) and (whole is None or found == whole)
        outcomes.add(found)
    assert outcomes == {None, digest}


def test_what_is_known_is_not_fetched_again(
    images: tuple[Built, Built], registry: Registry, repository: str, tmp_path: Path
) -> None:
    for image, name in zip(images, VARIANTS, strict=True):
        push(image.layout, f"{repository}:{name}")
    pull(f"{repository}:{VARIANTS[0]}", tmp_path / "first")
    before = len(registry.requests())
    assert pull(f"{repository}:{VARIANTS[1]}", tmp_path / "second", tmp_path / "first") == images[1].digest
    fetched = {asked.path.rpartition("/")[2] for asked in registry.since(before) if "/blobs/" in asked.path}
    shared = {layer.digest for layer in images[0].layers} & {layer.digest for layer in images[1].layers}
    assert len(shared) == 5 and not fetched & shared
    assert check_layout(tmp_path / "second").digest == images[1].digest


def test_credentials_come_from_the_auth_file(images: tuple[Built, Built], proxy: Proxy, auth: Path) -> None:
    key = base64.b64encode(b"somebody:secret").decode()

    def fate(number: int, _request: Request) -> int | None:
        return None if proxy.headers[number].get("Authorization") == f"Basic {key}" else 401

    proxy.restart(fate)
    reference = f"{proxy.address}/tests/credentials:a"
    with pytest.raises(BadInput, match=r"accepted: credentials of it in the auth file \(skopeo login\)$"):
        push(images[0].layout, reference)
    auth.write_text(json.dumps({"auths": {proxy.address: {"auth": key}}}), encoding="utf-8")
    assert push(images[0].layout, reference).digest == images[0].digest
