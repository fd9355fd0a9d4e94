"""One registry for all tests of images; each takes repositories of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.publish.image.loopback import Proxy, Registry, proxied, serving


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """On loopback, empty at first."""
    with serving(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture(scope="session")
def _proxy(registry: Registry) -> Iterator[Proxy]:
    with proxied(registry) as found:
        yield found


@pytest.fixture
def proxy(_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """Before that registry; lets everything through until it is told. Nobody waits long between tries."""
    monkeypatch.setattr("publish.image.skopeo.WAITS", (0.01, 0.01, 0.01, 0.01))
    yield _proxy
    _proxy.restart(lambda _number, _request: None)


@pytest.fixture
def repository(registry: Registry, request: pytest.FixtureRequest) -> str:
    """A repository of the test's own, as REGISTRY/NAME."""
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name.lower()).strip("-")
    while "--" in name:
        name = name.replace("--", "-")
    return f"{registry.address}/tests/{name}"


@pytest.fixture
def auth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The auth file that skopeo looks at; there is none yet."""
    path = tmp_path / "auth.json"
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(path))
    return path
