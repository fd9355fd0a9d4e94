"""The manifest: what it accepts, and the sentence for what it does not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from serve.errors import ServeError
from serve.manifest import FileRef, Manifest, locate, verify

Change = Callable[[dict[str, Any]], Any]


def document(artifact: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((artifact / "manifest.json").read_bytes())
    return found


def test_what_is_written_is_read_back(artifact: Path, tmp_path: Path) -> None:
    manifest = Manifest.read(artifact)
    assert json.loads(manifest.model_dump_json()) == document(artifact)
    (tmp_path / "manifest.json").write_text(manifest.model_dump_json())
    assert Manifest.read(tmp_path) == manifest


def test_a_manifest_from_before_graphs_had_flags_is_read(artifact: Path) -> None:
    older = document(artifact)
    for graph in older["graphs"].values():
        del graph["flags"]
    assert Manifest.model_validate_json(json.dumps(older)) == Manifest.read(artifact)


def test_own_files_and_shared_files(artifact: Path) -> None:
    manifest = Manifest.read(artifact)
    own = [ref.path for ref in manifest.own_files()]
    assert sorted(own) == ["decode.stablehlo", "decode.xla", "prefill.stablehlo", "prefill.xla"]
    shared = {ref.path for ref in manifest.files()} - set(own)
    assert shared == {
        "../../weights/cpu-float32/tp1-rank0.safetensors",
        "../../tables/tables.safetensors",
        "../../chat_template.jinja",
        "../../generation_config.json",
        "../../tokenizer.json",
        "../../tokenizer_config.json",
    }
    verify(artifact, manifest.files())


def test_a_graph_without_an_executable_has_one_file_less(artifact: Path) -> None:
    changed = document(artifact)
    changed["graphs"]["decode"]["executable"] = None
    manifest = Manifest.model_validate_json(json.dumps(changed))
    assert "decode.xla" not in {ref.path for ref in manifest.own_files()}


@pytest.mark.parametrize("role", ["weight", "input", "state"])
def test_parameters_of_a_role(artifact: Path, role: str) -> None:
    for name, graph in document(artifact)["graphs"].items():
        expected = {
            entry["name"]: entry["shape"] for entry in graph["signature"]["parameters"] if entry["role"] == role
        }
        found = Manifest.read(artifact).graphs[name].signature.named(role)
        assert {key: list(parameter.shape) for key, parameter in found.items()} == expected


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda found: found.update(format=2), ["format", "1"]),
        (lambda found: found.pop("ring"), ["ring", "required"]),
        (lambda found: found.update(rings=3), ["rings", "not permitted"]),
        (lambda found: found["variant"].update(target="tpu"), ["variant.target", "inf2"]),
        (lambda found: found["graphs"].update(verify={}), ["graphs.verify"]),
        (lambda found: found["tables"].update(bytes="many"), ["tables.bytes", "integer"]),
    ],
)
def test_a_manifest_of_another_shape_names_the_key(
    artifact: Path, tmp_path: Path, change: Change, words: list[str]
) -> None:
    changed = document(artifact)
    change(changed)
    (tmp_path / "manifest.json").write_text(json.dumps(changed))
    check_sentence(tmp_path, str(tmp_path / "manifest.json"), *words)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 1}', "\x00"])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    check_sentence(tmp_path, "manifest.json")


def test_a_folder_without_a_manifest_is_one_sentence(tmp_path: Path) -> None:
    check_sentence(tmp_path, str(tmp_path / "manifest.json"), "cannot be read", "accepted")
    (tmp_path / "file").write_text("")
    check_sentence(tmp_path / "file", "cannot be read")
    (tmp_path / "other" / "manifest.json").mkdir(parents=True)
    check_sentence(tmp_path / "other", "cannot be read")


def check_sentence(folder: Path, *words: str) -> None:
    with pytest.raises(ServeError) as error:
        Manifest.read(folder)
    assert all(word in str(error.value) for word in words), str(error.value)
    assert "\n" not in str(error.value)
    assert error.value.exit_code == 2


def test_verify_names_the_file_and_what_was_found(tmp_path: Path) -> None:
    def ref(path: str, content: bytes) -> FileRef:
        return FileRef(path=path, sha256=hashlib.sha256(content).hexdigest(), bytes=len(content))

    (tmp_path / "whole").write_bytes(b"graph")
    (tmp_path / "short").write_bytes(b"grap")
    (tmp_path / "flipped").write_bytes(b"graqh")
    verify(tmp_path, (ref("whole", b"graph"),))
    assert locate(tmp_path, ref("whole", b"graph")) == tmp_path / "whole"
    for path, words in {
        "gone": "gone: missing; the manifest needs it (5 bytes)",
        "short": "short: has 4 bytes; the manifest accepts 5",
        "flipped": f"flipped: sha256 is {hashlib.sha256(b'graqh').hexdigest()}; the manifest accepts ",
    }.items():
        with pytest.raises(ServeError) as error:
            verify(tmp_path, (ref("whole", b"graph"), ref(path, b"graph")))
        assert words in str(error.value)
