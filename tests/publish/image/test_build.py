"""Images: what is in them, what they share, and that nothing but their content makes a difference."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ledger.errors import BadInput
from publish.image.build import build
from publish.image.layout import check_layout, read_layout
from publish.image.tools import need
from tests.publish.image.small import VARIANTS, make_release, make_spec, read_json, write

ROOT = Path(__file__).parents[3]
_BUILD = """
import os, sys
from pathlib import Path
os.umask(int(sys.argv[2], 8))
from publish.image.build import build
from tests.publish.image.small import make_spec
print(build(make_spec(Path(sys.argv[1]))).digest)
"""


def test_layers_are_in_the_order_of_how_often_they_change(tmp_path: Path) -> None:
    built = build(make_spec(tmp_path))
    assert [layer.name for layer in built.layers] == [
        *("base", "dependencies"),
        *("tables", "weights", "graphs", "server"),
    ]
    image = check_layout(built.layout)
    assert [layer["digest"] for layer in image.layers] == [layer.digest for layer in built.layers]
    assert image.digest == built.digest and len(image.config["rootfs"]["diff_ids"]) == 6


def test_it_starts_as_nobody_in_particular_with_one_program(tmp_path: Path) -> None:
    config = read_layout(build(make_spec(tmp_path)).layout).config["config"]
    assert config["Entrypoint"] == ["python3", "-m", "serve", "/release/variants/512-128"]
    assert config["User"] == "10001:10001" and config["StopSignal"] == "SIGTERM"
    assert config["ExposedPorts"] == {"8080/tcp": {}} and config["WorkingDir"] == "/release"
    assert {"HOST=0.0.0.0", "PORT=8080", "PATH=/usr/bin", "LANG=C.UTF-8"} <= set(config["Env"])
    assert not any(entry.startswith("SPOT=") for entry in config["Env"])


def test_an_image_for_inferentia_watches_for_spot_notices(tmp_path: Path) -> None:
    release = make_release(tmp_path / "release")
    manifest = release / "variants" / VARIANTS[0] / "manifest.json"
    text = manifest.read_text(encoding="utf-8").replace('"target":"cpu"', '"target":"inf2"')
    manifest.write_text(text, encoding="utf-8")
    listed = read_json(release / "release.json")
    files = dict(listed["files"])  # type: ignore[call-overload]
    files[manifest.relative_to(release).as_posix()] = _ref(manifest)
    write(release / "release.json", json.dumps(listed | {"files": files}).encode())
    config = read_layout(build(make_spec(tmp_path)).layout).config["config"]
    assert "SPOT=http://169.254.169.254" in config["Env"]


def _ref(path: Path) -> dict[str, object]:
    from ledger.digest import sha256_file

    return {"sha256": sha256_file(path), "bytes": path.stat().st_size}


def test_labels_say_what_it_is_and_where_it_comes_from(tmp_path: Path) -> None:
    spec = make_spec(tmp_path, version="v7", revision="c" * 40, source="https://example.org/x", labels={"own": "1"})
    labels = read_layout(build(spec).layout).config["config"]["Labels"]
    files = read_json(spec.release / "release.json")["files"]
    artifact = files["variants/512-128/manifest.json"]["sha256"]  # type: ignore[index]
    assert labels == {
        "org.opencontainers.image.title": "demo 512-128",
        "org.opencontainers.image.description": "demo, 512 tokens of context, for target cpu: OpenAI routes on port "
        "8080",
        "org.opencontainers.image.version": "v7",
        "org.opencontainers.image.revision": "c" * 40,
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.source": "https://example.org/x",
        "org.opencontainers.image.base.digest": read_layout(spec.runtime).digest,
        "neff-foundry.variant": "512-128",
        "neff-foundry.target": "cpu",
        "neff-foundry.artifact": f"sha256:{artifact}",
        "neff-foundry.checkpoint": "demo",
        "neff-foundry.checkpoint.revision": "5" * 64,
        "own": "1",
    }


def test_another_tool_reads_the_same_image(tmp_path: Path) -> None:
    built = build(make_spec(tmp_path))
    found = subprocess.run(
        [need("skopeo"), "inspect", f"oci:{built.layout}"], capture_output=True, text=True, check=True
    )
    said = json.loads(found.stdout)
    assert said["Digest"] == built.digest and said["Layers"] == [layer.digest for layer in built.layers]
    copied = tmp_path / "copied"
    subprocess.run([need("skopeo"), "copy", "--quiet", f"oci:{built.layout}", f"dir:{copied}"], check=True)


def test_unpacked_it_is_the_release_without_what_nobody_runs(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    built = build(spec)
    for layer in built.layers[2:]:
        blob = built.layout / "blobs" / "sha256" / layer.digest.removeprefix("sha256:")
        (tmp_path / "out").mkdir(exist_ok=True)
        subprocess.run(["tar", "--extract", "--gzip", "--file", blob, "--directory", tmp_path / "out"], check=True)
    unpacked = tmp_path / "out" / "release"
    found = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    there = {path.relative_to(spec.release).as_posix() for path in spec.release.rglob("*") if path.is_file()}
    assert there - found == {
        *("README.md", "release.json"),
        "variants/512-128/receipts/parity.json",
        *(path for path in there if path.startswith("variants/slim/")),
    }
    assert found <= there and all(
        (unpacked / path).read_bytes() == (spec.release / path).read_bytes() for path in found
    )


@pytest.mark.parametrize("times", [4, pytest.param(10, marks=pytest.mark.soak)])
def test_builds_are_one_image(tmp_path: Path, times: int) -> None:
    """Other folders, hours, umasks, locales and time zones; nothing is shared, the runtime is made anew too."""
    made = []
    for number in range(times):
        where = tmp_path / f"build {number}" / ("deep/" * number)
        where.mkdir(parents=True)
        locale = ("C", "C.UTF-8", "tr_TR.UTF-8", "de_DE.UTF-8", "POSIX")[number % 5]
        zone = ("UTC", "Asia/Kolkata", "America/St_Johns")[number % 3]
        more = {"LC_ALL": locale, "TZ": zone, "PYTHONHASHSEED": str(number), "HOME": str(where)}
        command = [sys.executable, "-c", _BUILD, str(where), ("022", "077", "002")[number % 3]]
        done = subprocess.run(command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=True)
        made.append(done.stdout.strip())
    assert len(made) == times and len(set(made)) == 1 and made[0].startswith("sha256:")


def test_variants_share_everything_but_their_graphs(tmp_path: Path) -> None:
    first, second = (build(make_spec(tmp_path, name)) for name in VARIANTS)
    same = {layer.name for layer, other in zip(first.layers, second.layers, strict=True) if layer == other}
    assert same == {"base", "dependencies", "tables", "weights", "server"}


def test_a_fix_of_the_server_changes_one_layer(tmp_path: Path) -> None:
    before = build(make_spec(tmp_path))
    release = make_release(tmp_path / "fixed", server=" # fixed")
    after = build(make_spec(tmp_path, release=release, layout=tmp_path / "images" / "fixed"))
    changed = [layer for layer, other in zip(after.layers, before.layers, strict=True) if layer != other]
    assert [layer.name for layer in changed] == ["server"] and changed[0].bytes < 2_000


def test_a_second_build_replaces_the_first_and_is_equal(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    first = build(spec)
    write(spec.layout / "stray", b"")
    assert build(spec) == first and not (spec.layout / "stray").exists()


def test_a_variant_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"variant 'tp2' is not in it; accepted: 512-128, slim$"):
        build(make_spec(tmp_path, "tp2"))


def test_a_file_that_changed_after_it_was_listed_is_refused(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    write(spec.release / "serve/__main__.py", b"print('backing')\n")
    with pytest.raises(BadInput, match=r"^release/serve/__main__\.py is not as it was listed; accepted: "):
        build(spec)
    assert not spec.layout.exists()


def test_a_file_that_the_list_lacks_is_refused(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    listed = read_json(spec.release / "release.json")
    files = dict(listed["files"])  # type: ignore[call-overload]
    del files["tables/tables.safetensors"]
    write(spec.release / "release.json", json.dumps(listed | {"files": files}).encode())
    with pytest.raises(BadInput, match=r"tables/tables\.safetensors is not in its list; accepted: "):
        build(spec)


@pytest.mark.parametrize("place", range(5))
def test_a_damaged_blob_of_a_layout_is_named(tmp_path: Path, place: int) -> None:
    built = build(make_spec(tmp_path))
    blob = sorted((built.layout / "blobs" / "sha256").iterdir())[place]
    # A layout shares its layers with the cache: damage this one's copy.
    data = bytearray(blob.read_bytes())
    data[len(data) // 2] ^= 1
    blob.unlink()
    blob.write_bytes(data)
    with pytest.raises(BadInput, match=blob.name):
        check_layout(built.layout)
    assert blob.exists()
