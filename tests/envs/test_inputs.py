"""What envs/*.in ask for: the pins of the SDK, one version of a package everywhere, and all that the code imports."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from config.sdk import DRIVER, PINS, RUNTIME
from recipes.doctor import Role
from recipes.doctor.pins import APT, Pin, numbers, read_pins, source_file

ROOT = Path(__file__).parents[2]
ENVS = ROOT / "envs"
BUILD: Role = "inf2-build"
SERVE: Role = "inf2-serve"
_DISTRIBUTION = {
    "cyclonedx": "cyclonedx-python-lib",
    "huggingface_hub": "huggingface-hub",
    "ml_dtypes": "ml-dtypes",
    "model_signing": "model-signing",
    "neuronx_distributed": "neuronx-distributed",
    "prometheus_client": "prometheus-client",
    "torch_neuronx": "torch-neuronx",
    "torch_xla": "torch-xla",
    "yaml": "pyyaml",
}
_OURS = ("config", "ledger", "recipes", "validate", "publish", "serve", "tests")
# Brought by what is named: httpx by huggingface-hub, markupsafe by jinja2, cryptography and sigstore by model-signing,
# packageurl by cyclonedx-python-lib, botocore and s3transfer by boto3, the rest by pydantic and fastapi.
_BROUGHT = {
    *("botocore", "cryptography", "httpx", "markupsafe", "packageurl", "pydantic_core", "s3transfer", "sigstore"),
    *("starlette", "typing_extensions"),
}
_CPU_ONLY = {"jaxlib"}


class _Run(ast.NodeTransformer):
    """Leaves of a tree what runs."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        """Drop `if TYPE_CHECKING`."""
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return None
        return self.generic_visit(node)


def _pins(name: str) -> dict[str, Pin]:
    return {pin.name: pin for pin in read_pins(ENVS / f"{name}.in")}


def _imported(*folders: str) -> set[str]:
    """Distributions of every import in these folders, wherever it stands but for the type checker's, by the tree."""
    found: set[str] = set()
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(_Run().visit(ast.parse(path.read_text(encoding="utf-8")))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.partition(".")[0])
    others = found - sys.stdlib_module_names - set(_OURS) - _BROUGHT - _CPU_ONLY
    return {_DISTRIBUTION.get(name, name) for name in others}


def test_both_have_the_pins_of_the_sdk() -> None:
    build, serve = _pins(BUILD), _pins(SERVE)
    assert {name: build[name].version for name in PINS} == PINS
    assert {name: serve[name].version for name in PINS if name in serve} == {
        name: version for name, version in PINS.items() if name != "neuronx-cc"
    }
    assert all(build[name].operator == "==" for name in PINS)


def test_a_package_has_one_version_everywhere() -> None:
    every = [(name, pin) for name in ("cpu", "serve-cpu", BUILD, SERVE) for pin in _pins(name).values()]
    versions: dict[str, set[str]] = {}
    for _, pin in every:
        if pin.version:
            versions.setdefault(pin.name, set()).add(pin.version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_serving_needs_no_compiler_no_transformers_and_no_jaxlib() -> None:
    assert not {"neuronx-cc", "transformers", "jaxlib", "islpy"} & _pins(SERVE).keys()


def test_serving_asks_for_what_it_asks_for_on_cpu() -> None:
    assert _pins("serve-cpu").keys() - _CPU_ONLY <= _pins(SERVE).keys()


def test_islpy_is_bound_below_the_release_that_breaks_the_compiler() -> None:
    assert not _pins(BUILD)["islpy"].accepts("2026.2.1")


@pytest.mark.parametrize(
    ("role", "folders"), [(SERVE, ("serve",)), (BUILD, ("config", "ledger", "recipes", "validate", "publish"))]
)
def test_everything_that_is_imported_is_named(role: str, folders: tuple[str, ...]) -> None:
    assert _imported(*folders) <= _pins(role).keys()


def test_the_debian_packages_are_those_of_the_sdk() -> None:
    pins = {pin.name: pin.version for pin in read_pins(APT)}
    assert sorted(pins) == ["aws-neuronx-collectives", "aws-neuronx-runtime-lib", "aws-neuronx-tools"]
    assert numbers(pins["aws-neuronx-runtime-lib"])[:2] == numbers(RUNTIME)
    assert f"aws-neuronx-dkms, {DRIVER} or newer" in APT.read_text(encoding="utf-8")


@pytest.mark.parametrize("role", [BUILD, SERVE])
def test_the_head_says_where_and_how_it_is_locked(role: Role) -> None:
    head = source_file(role).read_text(encoding="utf-8").partition("\n\n")[0]
    assert "Not resolved here" in head and "https://pip.repos.neuron.amazonaws.com" in head
    assert "uv pip compile --python-version 3.11" in head
    assert f"-o envs/{role}.txt envs/{role}.in" in " ".join(head.replace("#", " ").split())
