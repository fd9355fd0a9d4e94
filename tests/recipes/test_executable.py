"""Executables in canonical form: the same bytes every time, and still executables."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from ledger.errors import FoundryError
from recipes.executable import canonical
from recipes.wire import fields, message, read_varint
from serve.runtime.pjrt import Client, aligned_zeros, to_numpy

ROOT = Path(__file__).parents[2]

# Several fusions, so that several object files are compiled side by side.
MODULE = b"""
module @m {
  func.func public @main(%x: tensor<64x64xf32>, %y: tensor<64x64xf32>) -> tensor<64x64xf32> {
    %a = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %b = stablehlo.tanh %a : tensor<64x64xf32>
    %c = stablehlo.transpose %b, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
    %d = stablehlo.dot_general %c, %x, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %e = stablehlo.exponential %d : tensor<64x64xf32>
    %f = stablehlo.dot_general %e, %c, contracting_dims = [1] x [0]
        : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %g = stablehlo.cosine %f : tensor<64x64xf32>
    return %g : tensor<64x64xf32>
  }
}
"""


@pytest.fixture(scope="module")
def client() -> Client:
    return Client()


@pytest.fixture(scope="module")
def compiled(client: Client) -> bytes:
    return client.compile(MODULE)


def rotated(executable: bytes, by: int) -> bytes:
    """The executable with its object files in another order, as another run's thread pool might leave them."""
    length, start = read_varint(executable, 0)
    head, body = executable[: start + length], executable[start + length :]
    (result,) = (payload for number, payload, _ in fields(body) if number == 1)
    parts = [(number, whole) for number, _, whole in fields(result)]
    objects = [whole for number, whole in parts if number == 8]
    assert len(set(objects)) > by
    rest = b"".join(whole for number, whole in parts if number != 8)
    others = b"".join(whole for number, _, whole in fields(body) if number != 1)
    return head + message(1, rest + b"".join(objects[by:] + objects[:by])) + others


def run(client: Client, executable: bytes) -> bytes:
    x, y = (aligned_zeros((64, 64), np.dtype(np.float32)) for _ in range(2))
    x[...], y[...] = np.eye(64) * 0.3, 0.01
    (result,) = client.load(executable).run([client.put([x]), client.put([y])])
    return to_numpy(result).tobytes()


def test_order_of_object_files_means_nothing(client: Client, compiled: bytes) -> None:
    first = canonical(rotated(compiled, 1))
    assert first == canonical(rotated(compiled, 2))
    assert rotated(compiled, 1) != rotated(compiled, 2)
    assert run(client, first) == run(client, compiled)


def test_canonical_form_changes_order_and_no_more(client: Client, compiled: bytes) -> None:
    form = canonical(compiled)
    assert canonical(form) == form
    assert sorted(form) == sorted(compiled)
    assert run(client, form) == run(client, compiled)


IN_A_PROCESS_OF_ITS_OWN = """
import hashlib, sys
from pathlib import Path
from recipes.executable import canonical
from serve.runtime.pjrt import Client
print(hashlib.sha256(canonical(Client().compile(Path(sys.argv[1]).read_bytes()))).hexdigest())
"""


def test_two_processes_compile_to_the_same_bytes(artifact: Path) -> None:
    def digest(seed: str) -> str:
        command = [sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN, str(artifact / "decode.stablehlo")]
        environment = os.environ | {"PYTHONHASHSEED": seed}
        done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
        return done.stdout

    with ThreadPoolExecutor(2) as pool:
        assert len(set(pool.map(digest, "12"))) == 1


def test_another_layout_is_an_error(compiled: bytes) -> None:
    length, start = read_varint(compiled, 0)
    head = compiled[: start + length]
    for damaged in (b"", b"\xff", compiled[:-1], head + message(1, message(7, b"no objects")), head + b"\x0b"):
        with pytest.raises(FoundryError, match=r"serialized executable: .*; jaxlib 0\.10\.2's layout is accepted"):
            canonical(damaged)
