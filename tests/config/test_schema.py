"""The generated files: up to date, complete, in agreement with each other and with real configurations."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

from config.loading import read_mapping
from config.schema import main
from ledger.errors import GateFailed

ROOT = Path(__file__).parents[2]
CONFIG = ROOT / "config"
SCHEMA: dict[str, Any] = json.loads((CONFIG / "schema.json").read_text(encoding="utf-8"))
GENERATED = ("schema.json", "defaults.yaml")


def test_generated_files_are_up_to_date() -> None:
    assert main(["--check"]) == 0


@pytest.mark.parametrize("name", GENERATED)
def test_drift_is_named(tmp_path: Path, name: str) -> None:
    for each in GENERATED:
        shutil.copy(CONFIG / each, tmp_path)
    (tmp_path / name).write_text("{}\n", encoding="utf-8")
    with pytest.raises(GateFailed, match=name):
        main(["--check", "--folder", str(tmp_path)])
    main(["--folder", str(tmp_path)])
    assert (tmp_path / name).read_bytes() == (CONFIG / name).read_bytes()


def test_command_line_exits_with_1_on_drift(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "config.schema", "--check", "--folder", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: ") and "schema.json" in done.stderr


def _objects() -> Iterator[tuple[str, dict[str, Any]]]:
    yield "Factory", SCHEMA
    yield from SCHEMA["$defs"].items()


@pytest.mark.parametrize(("model", "key"), [(m, k) for m, node in _objects() for k in node["properties"]])
def test_every_key_has_a_description_and_a_default_or_is_required(model: str, key: str) -> None:
    node = dict(_objects())[model]
    assert len(node["properties"][key].get("description", "")) > 10
    assert ("default" in node["properties"][key]) != (key in node.get("required", ()))
    assert node["additionalProperties"] is False


@pytest.mark.parametrize(
    "path", sorted([*CONFIG.glob("*.yaml"), *(ROOT / "tests/config/good").glob("*.yaml")]), ids=str
)
def test_schema_accepts_complete_configurations_only(path: Path) -> None:
    accepted = Draft202012Validator(SCHEMA).is_valid(read_mapping(path))
    # One is documentation, the other is merged over variants.yaml.
    assert accepted == (path.name not in ("defaults.yaml", "nightly.yaml"))


def _resolved(node: dict[str, Any]) -> list[dict[str, Any]]:
    """The object schemas that a key's value may have."""
    options = [node, node.get("items", {}), node.get("additionalProperties", {}), *node.get("oneOf", ())]
    options += node.get("anyOf", ())
    options += list(node.get("patternProperties", {}).values())
    names = [option["$ref"].rpartition("/")[2] for option in options if isinstance(option, dict) and "$ref" in option]
    return [SCHEMA["$defs"][name] for name in names]


def _agree(shown: Any, node: dict[str, Any]) -> None:
    """`shown`, a mapping of defaults.yaml, has the keys of `node` in order with their defaults."""
    assert list(shown) == list(node["properties"])
    for key, field in node["properties"].items():
        inner = _resolved(field)
        if not inner:
            assert shown[key] == field.get("default", field.get("const"))
            continue
        value = shown[key]
        if isinstance(value, list):
            (value,) = value
        if list(value) == ["<name>"]:
            value = value["<name>"]
        _agree(value, inner[0])


def test_default_file_shows_every_key_with_its_default() -> None:
    text = (CONFIG / "defaults.yaml").read_text(encoding="utf-8")
    _agree(yaml.safe_load(text), SCHEMA)
    for _, node in _objects():
        for field in node["properties"].values():
            assert f"# {field['description']}" in text
