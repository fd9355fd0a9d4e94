"""The compile stage on a program small enough to check by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from jaxlib import _jax

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.stage import Outcome
from ledger.store import Ref, Store
from recipes import compile as compiling
from recipes.compile import AnyRecipe, CompileRecipe, environment
from recipes.executable import canonical
from recipes.hlo_alias import with_aliases
from serve.manifest import GRAPHS, Signature
from serve.runtime.pjrt import Client, aligned_zeros, to_numpy
from tests.build import job, receipt

ROOT = Path(__file__).parents[2]
INF2: dict[str, object] = {"target": "inf2", "builder": "nxd", "kv": "device", "tp": 1, "batch": 1, "dtype": "float32"}
INF2 |= {"kv_max": 30, "kv_bucket": 8}

# Result 0 is x times s, result 1 is x plus s and takes the place of s.
STEP = """
module @step {
  func.func public @main(%s: tensor<16xf32>, %x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
    %m = stablehlo.multiply %s, %x : tensor<16xf32>
    %a = stablehlo.add %s, %x : tensor<16xf32>
    return %m, %a : tensor<16xf32>, tensor<16xf32>
  }
}
"""


def lowered(store: Store) -> Receipt:
    """The receipt of a lower stage whose graphs are both `STEP`."""
    hlo = _jax.mlir.mlir_module_to_xla_computation(STEP, False, True).as_serialized_hlo_module_proto()
    outputs: dict[str, Ref] = {}
    for graph in GRAPHS:
        signature = Signature.model_validate(
            {
                "graph": graph,
                "batch": 1,
                "tokens": 1,
                "parameters": [
                    {"name": "k.0", "role": "state", "shape": (16,), "dtype": "float32"},
                    {"name": "x", "role": "input", "shape": (16,), "dtype": "float32"},
                ],
                "outputs": [
                    {"name": "logits", "role": "logits", "shape": (16,), "dtype": "float32"},
                    {"name": "k.0", "role": "state", "shape": (16,), "dtype": "float32"},
                ],
                "aliases": {1: 0},
            }
        )
        outputs[f"{graph}.hlo.pb"] = store.put_bytes(with_aliases(hlo, signature.aliases))
        outputs[f"{graph}.signature.json"] = store.put_json(signature.model_dump(mode="json"))
    return receipt("lower", Outcome(outputs=outputs, facts={"tp": 1}))


def test_flags_of_a_variant_go_to_xla(tmp_path: Path) -> None:
    store = Store(tmp_path)
    flags: list[tuple[str, ...]] = [(), ("xla_cpu_prefer_vector_width=256",), ("xla_cpu_enable_fast_math=true",)]
    made = [compiling.work(job(CompileRecipe(target="cpu", flags=one), store, lower=lowered(store))) for one in flags]
    assert len({one.outputs["decode.xla"] for one in made}) == 3
    assert len({one.outputs["decode.stablehlo"] for one in made}) == 1
    client = Client()
    for one in made:
        client.load(store.path(one.outputs["decode.xla"]).read_bytes())


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("xla_cpu_nope=1", "No such compile option: 'xla_cpu_nope'"),
        ("xla_cpu_enable_fast_math=1", "valid bool value"),
        ("xla_cpu_parallel_codegen_split_count=0", "xla_cpu_parallel_codegen_split_count=0 .*INTERNAL: Too many"),
        (f"xla_cpu_parallel_codegen_split_count={'9' * 400}", "valid int32 value"),
    ],
)
def test_a_flag_that_xla_does_not_know_is_bad_input(flag: str, said: str, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(BadInput, match=f"flags of the variant: .*{said}.*; accepted: "):
        compiling.work(job(CompileRecipe(target="cpu", flags=(flag,)), store, lower=lowered(store)))


def test_modules_and_executables_come_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    outcome = compiling.work(job(CompileRecipe(target="cpu"), store, lower=lowered(store)))
    assert sorted(outcome.outputs) == ["decode.stablehlo", "decode.xla", "prefill.stablehlo", "prefill.xla"]
    module, executable = (store.path(outcome.outputs[f"decode.{end}"]).read_bytes() for end in ("stablehlo", "xla"))
    assert b"%arg0: tensor<16xf32> {tf.aliasing_output = 1 : i32}" in module
    assert canonical(executable) == executable

    client = Client()
    x = aligned_zeros((16,), np.dtype(np.float32))
    x[:] = 3
    for program in (client.load(executable), client.load(client.compile(module))):
        state = client.put([aligned_zeros((16,), np.dtype(np.float32))])
        for step in (1, 2):
            result, state = program.run([state, client.put([x])])
            assert to_numpy(result).tolist() == [9.0 * (step - 1)] * 16
            assert to_numpy(state).tolist() == [3.0 * step] * 16


def test_facts_name_the_hosts_vector_extensions(tmp_path: Path) -> None:
    store = Store(tmp_path)
    outcome = compiling.work(job(CompileRecipe(target="cpu"), store, lower=lowered(store)))
    flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
    assert set(outcome.facts["cpu_features"]) <= set(flags)
    assert {flag for flag in flags if flag.startswith("avx")} <= set(outcome.facts["cpu_features"])


def test_what_shapes_the_bytes_is_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 7})
    monkeypatch.setattr(compiling, "cpu_features", lambda: ("avx2", "fma"))
    assert compiling.host() == {"cpu_features": "avx2 fma", "cores": "3"}


def test_flags_of_the_shell_change_nothing(tmp_path: Path) -> None:
    lowered(Store(tmp_path / "store")).write(tmp_path / "lower.json")

    def digest(store: str, **environment: str) -> dict[str, Ref]:
        shutil.copytree(tmp_path / "store", tmp_path / store)
        command = [sys.executable, "-m", "recipes.compile", "--recipe", '{"target": "cpu"}']
        command += ["--input", f"lower={tmp_path / 'lower.json'}", "--store", str(tmp_path / store)]
        command += ["--out", str(tmp_path / store / "out.json")]
        subprocess.run(command, cwd=ROOT, env=os.environ | environment, check=True, stdout=subprocess.DEVNULL)
        return Receipt.read(tmp_path / store / "out.json").outputs

    assert digest("plain") == digest("flags", XLA_FLAGS="--xla_cpu_enable_fast_math=true")


def test_a_recipe_of_either_target_is_the_whole_of_it() -> None:
    given: dict[str, object] = {"target": "cpu", "flags": []}
    cpu = AnyRecipe.model_validate(given)
    # What keys are made of: more would build every graph for cpu again.
    assert cpu.model_dump(mode="json") == given and isinstance(cpu.root, CompileRecipe)
    assert set(environment(cpu)) == {"cpu_features", "cores"}
    assert AnyRecipe.model_validate(INF2).model_dump(mode="json") == INF2 | {"flags": []}


@pytest.mark.parametrize(
    ("recipe", "said"),
    [
        ({"target": "trn1"}, "--recipe: target is 'trn1'; accepted: 'cpu', 'inf2'"),
        ({"target": "cpu", "tp": 1}, "--recipe: tp is not a known key; accepted: target, flags"),
        ({k: v for k, v in INF2.items() if k != "builder"}, "--recipe: builder is missing; accepted: a value"),
        (INF2 | {"builder": "xla"}, "--recipe: builder is 'xla'; accepted: 'trace', 'nxd' or 'parallel'"),
    ],
)
def test_a_wrong_recipe_is_one_sentence(tmp_path: Path, recipe: dict[str, object], said: str) -> None:
    assert _run(tmp_path, recipe)[1].startswith(f"error: {said}")


def test_without_the_sdk_inf2_is_refused_before_anything_is_built(tmp_path: Path) -> None:
    status, said = _run(tmp_path, INF2)
    assert (status, said) == (
        2,
        "error: torch-neuronx is not installed; accepted: 2.8.0.2.12.22436 of SDK 2.28 "
        "from https://pip.repos.neuron.amazonaws.com\n",
    )


def _run(tmp_path: Path, recipe: dict[str, object]) -> tuple[int, str]:
    """Exit status and stderr of the stage."""
    lowered(Store(tmp_path / "store")).write(tmp_path / "lower.json")
    command = [sys.executable, "-m", "recipes.compile", "--recipe", json.dumps(recipe), "--out", str(tmp_path / "out")]
    command += ["--input", f"lower={tmp_path / 'lower.json'}", "--store", str(tmp_path / "store")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr
