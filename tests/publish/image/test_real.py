"""The real thing: Debian's packages, every wheel of the lock, and an image that starts and answers. Ten minutes.

Needs mirrors of Debian and of Python's packages, and root for what buildah unpacks.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from publish.image.base import make_base
from publish.image.build import Built, build
from publish.image.layout import check_layout, read_layout
from publish.image.packages import packages
from publish.image.run import Container, discard
from publish.image.runtime import PLACE, Runtime, make_runtime
from recipes.tiny.tokenizer import LOW_SPECIALS, MEDIA_SPECIALS, train_tokenizer, write_tokenizer
from serve.engine import Engine
from tests.build import TEXT_CONFIG, point
from tests.conftest import ArtifactOf
from tests.publish.image.small import list_release, make_spec, read_json, write

pytestmark = pytest.mark.soak

ROOT = Path(__file__).parents[3]
_PROMPT = "The weather in Paris is fine today"


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def runtime(cache: Path) -> Runtime:
    return make_runtime(cache)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory, artifact_of: ArtifactOf) -> Path:
    """A random model whose text side is real, as a release."""
    folder, size = tmp_path_factory.mktemp("release"), TEXT_CONFIG["vocab_size"]
    variant = point(name="44-8")
    shutil.copytree(artifact_of(variant).parents[1], folder, dirs_exist_ok=True)
    for other in (folder / "variants").iterdir():
        if other.name != variant.name:
            shutil.rmtree(other)
    specials = LOW_SPECIALS | {token: size - 10 + place for place, token in enumerate(MEDIA_SPECIALS)}
    write_tokenizer(train_tokenizer([_PROMPT], vocab_size=size, specials=specials), folder)
    shutil.copytree(ROOT / "serve", folder / "serve", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("LICENSE", "NOTICE"):
        shutil.copy(ROOT / name, folder / name)
    manifest = folder / "variants" / variant.name / "manifest.json"
    text = read_json(manifest)
    text["tokenizer"] = {name: _ref(folder, name) for name in ("tokenizer.json", "tokenizer_config.json")}
    write(manifest, json.dumps(text).encode())
    return list_release(folder, (variant.name,))


def _ref(folder: Path, name: str) -> dict[str, object]:
    from ledger.digest import sha256_file

    path = folder / name
    return {"path": f"../../{name}", "sha256": sha256_file(path), "bytes": path.stat().st_size}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory, release: Path, runtime: Runtime, cache: Path) -> Built:
    root = tmp_path_factory.mktemp("image")
    return build(make_spec(root, "44-8", release=release, runtime=runtime.layout, cache=cache))


@pytest.fixture(scope="module")
def storage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("storage")
    yield folder
    discard(folder)


@pytest.fixture(scope="module")
def container(image: Built, storage: Path) -> Iterator[Container]:
    with Container(image.layout, storage) as one:
        one.wait_ready()
        yield one


def _listed(layout: Path) -> list[tuple[str, str, str]]:
    """Mode, owner and path of everything in an image, by GNU tar."""
    found = []
    for layer in read_layout(layout).layers:
        blob = layout / "blobs" / "sha256" / layer["digest"].removeprefix("sha256:")
        command = ["tar", "--list", "--verbose", "--numeric-owner", "--gzip", "--file", str(blob)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        found += [
            (parts[0], parts[1], parts[5].partition(" -> ")[0]) for parts in (line.split(maxsplit=5) for line in lines)
        ]
    return found


def test_another_machine_makes_the_same_runtime(
    runtime: Runtime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As far as one machine can play two: no cache, another folder, umask, time zone, locale and home."""
    for name, value in {"TZ": "Asia/Kolkata", "LC_ALL": "C", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "7"}.items():
        monkeypatch.setenv(name, value)
    before = os.umask(0o077)
    try:
        again = make_runtime(tmp_path / "elsewhere")
    finally:
        os.umask(before)
    assert (again.base_digest, again.digest) == (runtime.base_digest, runtime.digest)
    check_layout(again.layout)


def test_a_second_call_makes_nothing(runtime: Runtime, cache: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in cache.rglob("*")}
    assert make_runtime(cache) == runtime and make_base(cache)[1].digest == runtime.base_digest
    assert {path: path.stat().st_mtime_ns for path in cache.rglob("*")} == before


def test_it_is_small_and_has_nothing_to_build_with(image: Built) -> None:
    model = sum(layer.bytes for layer in image.layers if layer.name in ("tables", "weights", "graphs"))
    assert image.bytes - model <= 250_000_000
    listed = _listed(image.layout)
    paths = [path for _, _, path in listed]
    unwanted = (
        r"/(gcc|cc|g\+\+|ld|make|pip3?|git|curl|apt-get)$|dist-packages/(pip|torch|transformers|setuptools)/|/tests/"
    )
    assert [path for path in paths if re.search(unwanted, path)] == []
    documents = [path for mode, _, path in listed if path.startswith("usr/share/doc/") and mode[0] == "-"]
    assert {Path(path).name for path in documents} == {"copyright"}


def test_nobody_but_root_owns_or_may_change_anything(image: Built) -> None:
    listed = _listed(image.layout)
    open_to_all = [path for mode, _, path in listed if mode[0] != "l" and mode[8] == "w" and mode[9] not in "tT"]
    assert open_to_all == []
    assert {path for mode, owner, path in listed if owner.startswith("10001/")} == set()
    ours = [(mode, owner) for mode, owner, path in listed if path.startswith(("release/", PLACE[1:]))]
    assert {owner for _, owner in ours} == {"0/0"}
    assert {mode for mode, _ in ours} <= {"drwxr-xr-x", "-rw-r--r--", "-rwxr-xr-x", "lrwxrwxrwx"}


def test_its_packages_are_those_that_dpkg_lists(runtime: Runtime) -> None:
    found = {one.name: one for one in packages(runtime.layout)}
    assert {"libc6", "python3.11", "ca-certificates", "libstdc++6"} <= found.keys()
    assert not {"apt", "perl", "gcc"} & found.keys() and all(one.version for one in found.values())


def test_it_answers_what_the_engine_answers(container: Container, release: Path) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(release / "tokenizer.json"))
    ids = [2, *tokenizer.encode(_PROMPT, add_special_tokens=False).ids]
    engine = Engine.load(release / "variants" / "44-8")
    try:
        wanted = tokenizer.decode([token.id for token in engine.generate(ids, max_new=8)])
    finally:
        engine.close()
    assert "".join(container.stream(_PROMPT, 8)) == wanted


def test_it_runs_as_its_user(container: Container) -> None:
    server = container.server()
    assert set(server.uids()) == {10001} and set(server.gids()) == {10001}
    # buildah looks the program up.
    assert server.cmdline() == ["/usr/bin/python3", "-m", "serve", "/release/variants/44-8"]


def test_what_it_imports_is_compiled_and_is_never_compared_with_its_source(container: Container) -> None:
    script = (
        "import asyncio, fastapi, numpy, sys, uvicorn, jaxlib.xla_client; "
        "found = [getattr(one, '__cached__', None) for one in [*sys.modules.values()]]; "
        "heads = {open(path, 'rb').read(8) for path in found if path}; "
        "print({int.from_bytes(head[4:], 'little') for head in heads})"
    )
    # PEP 552: the first bit says that there is a hash and no time, the second would have it checked.
    assert container.execute(["python3", "-c", script]).decode().strip() == "{1}"


def test_every_library_that_it_brings_finds_its_own(image: Built, storage: Path, container: Container) -> None:
    """With the image's own loader, over all extension modules."""
    script = (
        f"cd {PLACE} && find . -name '*.so*' -type f -exec ldd {{}} + 2>/dev/null"
        " | awk '/^\\.\\//{file=$1} /not found/{print file, $1}' | sort -u"
    )
    printed = container.execute(["sh", "-c", script]).decode()
    # Libraries of one package find each other once Python has loaded the first.
    brought = {Path(path).name for _, _, path in _listed(image.layout)}
    assert [line for line in printed.splitlines() if line.split()[1] not in brought] == []


def test_it_stops_when_it_is_told_to(image: Built, storage: Path) -> None:
    with Container(image.layout, storage) as one:
        one.wait_ready()
        assert one.stop() == 0
        assert json.loads(one.last_line())["event"] == "ended" and json.loads(one.last_line())["clean"]
