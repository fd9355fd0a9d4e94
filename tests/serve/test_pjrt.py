"""The jaxlib names that are no public API, and what the engine may import."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import jaxlib
import numpy as np
import pytest
from jaxlib import _hlo, _jax, xla_client

from serve.engine import Engine
from serve.runtime import pjrt
from serve.runtime.host import cpu_features
from serve.tensorfile import NUMPY

ROOT = Path(__file__).parents[2]
SOURCE = Path(pjrt.__file__)
MODULES = {"_hlo": _hlo, "_jax": _jax, "xla_client": xla_client}

# A step small enough to check by hand: the second argument is state, and the second result takes its place.
STEP = b"""
module @step {
  func.func public @main(%x: tensor<16xf32>, %s: tensor<16xf32> {tf.aliasing_output = 1 : i32})
      -> (tensor<16xf32>, tensor<16xf32>) {
    %a = stablehlo.add %x, %s : tensor<16xf32>
    %m = stablehlo.multiply %a, %x : tensor<16xf32>
    return %m, %a : tensor<16xf32>, tensor<16xf32>
  }
}
"""


def pinned() -> str:
    """The version of jaxlib that the environment asks for."""
    found = re.search(r"^jaxlib==(\S+)", (ROOT / "envs" / "serve-cpu.in").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def explained(name: str) -> str:
    return (
        f"jaxlib {jaxlib.__version__} has no {name}; it is no public API, envs/serve-cpu.in pins jaxlib {pinned()}, "
        f"and serve/runtime/pjrt.py is the file to change"
    )


def chains() -> list[str]:
    """Every dotted name below a jaxlib module in the source."""
    names = set()
    for node in ast.walk(ast.parse(SOURCE.read_text())):
        parts: list[str] = []
        inner: ast.AST = node
        while isinstance(inner, ast.Attribute):
            parts.insert(0, inner.attr)
            inner = inner.value
        if parts and isinstance(inner, ast.Name) and inner.id in MODULES:
            names.add(".".join([inner.id, *parts]))
    return sorted(names)


def test_the_environment_has_the_pinned_version() -> None:
    assert metadata.version("jaxlib") == pinned()


def test_the_source_still_uses_what_this_file_looks_for() -> None:
    assert {"_jax.batched_device_put", "xla_client.make_cpu_client"} <= set(chains())


@pytest.mark.parametrize("name", chains())
def test_names_of_modules_are_there(name: str) -> None:
    module, *parts = name.split(".")
    found: Any = MODULES[module]
    for part in parts:
        assert hasattr(found, part), explained(name)
        found = getattr(found, part)


def test_names_of_objects_are_there() -> None:
    client = xla_client.make_cpu_client(asynchronous=False)
    buffer = pjrt.Client().put([np.zeros(1, np.float32)])
    owners: list[tuple[Any, tuple[str, ...]]] = [
        (client, ("devices", "compile_and_load", "serialize_executable", "deserialize_executable")),
        (xla_client.CompileOptions(), ("env_option_overrides",)),
        (buffer, ("_single_device_array_to_np_array_did_copy", "unsafe_buffer_pointer")),
    ]
    for owner, names in owners:
        for name in names:
            assert hasattr(owner, name), explained(f"{type(owner).__name__}.{name}")


def test_no_other_file_of_the_server_names_jaxlib() -> None:
    users = [path.name for path in (ROOT / "serve").rglob("*.py") if "import jax" in path.read_text()]
    users += [path.name for path in (ROOT / "serve").rglob("*.py") if "from jaxlib" in path.read_text()]
    assert users == [SOURCE.name]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 5, 7), (0, 4)])
def test_what_is_put_comes_back(shape: tuple[int, ...], dtype: str) -> None:
    array = pjrt.aligned_zeros(shape, NUMPY[dtype])
    array[...] = np.arange(array.size).reshape(shape)
    found = pjrt.to_numpy(pjrt.Client().put([array]))
    assert (found.dtype, found.shape) == (array.dtype, shape)
    assert found.tobytes() == array.tobytes()


def test_an_aligned_array_is_used_in_place() -> None:
    client = pjrt.Client()
    array = pjrt.aligned_zeros((64,), np.dtype(np.float32))
    buffer = client.put([array])
    assert buffer.unsafe_buffer_pointer() == array.ctypes.data
    array[3] = 7
    assert pjrt.to_numpy(buffer)[3] == 7
    odd = pjrt.aligned_zeros((65,), np.dtype(np.float32))[1:]
    assert client.put([odd]).unsafe_buffer_pointer() != odd.ctypes.data


def test_a_program_runs_and_keeps_its_state_in_place() -> None:
    client = pjrt.Client()
    program = client.load(client.compile(STEP))
    x = pjrt.aligned_zeros((16,), np.dtype(np.float32))
    argument = client.put([x])
    state = client.put([pjrt.aligned_zeros((16,), np.dtype(np.float32))])
    addresses = []
    for step in (1, 2, 3):
        x[:] = step
        result, state = program.run([argument, state])
        total = step * (step + 1) / 2
        assert pjrt.to_numpy(result).tolist() == [total * step] * 16
        addresses.append(state.unsafe_buffer_pointer())
    assert addresses[0] == addresses[1] == addresses[2]


def test_features_are_those_of_the_kernel() -> None:
    flags = Path("/proc/cpuinfo").read_text().split("flags")[1].split("\n")[0].split()
    assert set(cpu_features()) <= set(flags)
    assert {flag for flag in flags if flag.startswith("avx")} <= set(cpu_features())
    assert list(cpu_features()) == sorted(cpu_features())


ALONE = """
import json, sys
for name in ("jax", "torch", "transformers", "config", "ledger", "recipes", "validate", "publish"):
    sys.modules[name] = None
from pathlib import Path
from serve.engine import Engine
engine = Engine.load(Path(sys.argv[1]))
print(json.dumps([token.id for token in engine.generate(json.loads(sys.argv[2]), max_new=9, stop_ids=frozenset())]))
"""

IMPORTED = """
import sys
import serve.engine, serve.runtime.cpu
print(*sorted({name.split(".")[0] for name in sys.modules}))
"""


def run(source: str, *arguments: str) -> str:
    """Standard output of `source` in a fresh interpreter at the root of the repository."""
    command = [sys.executable, "-c", source, *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def test_an_artifact_runs_without_jax_torch_or_the_factory(artifact: Path) -> None:
    ids = [2, 7, 300, 41, 5]
    here = [token.id for token in Engine.load(artifact).generate(ids, max_new=9, stop_ids=frozenset())]
    assert json.loads(run(ALONE, str(artifact), json.dumps(ids))) == here


def test_the_engine_imports_nothing_of_the_factory() -> None:
    imported = set(run(IMPORTED).split())
    assert {"serve", "numpy", "jaxlib"} <= imported
    assert not imported & {"config", "ledger", "recipes", "validate", "publish", "torch", "transformers", "jax"}
