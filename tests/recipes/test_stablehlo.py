"""The module that XLA:CPU compiles: aliases on its arguments, and nothing of where it was made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from recipes.stablehlo import module_for_cpu
from serve.manifest import GraphName, Manifest
from tests.build import TEXT_CONFIG

GRAPHS: tuple[GraphName, ...] = ("prefill", "decode")


def arguments(module: str) -> list[tuple[str, str]]:
    """Type and attributes of each argument of main, read from the text."""
    main = re.search(r"func\.func public @main\((.*)\) -> ", module) or re.search(
        r"func\.func @main\((.*)\) -> ", module
    )
    assert main is not None
    return re.findall(r"%arg\d+: tensor<([^>]*)>(?: \{([^}]*)\})?", main[1])


@pytest.mark.parametrize("graph", GRAPHS)
def test_state_arguments_give_their_memory_to_their_outputs(artifact: Path, graph: GraphName) -> None:
    signature = Manifest.read(artifact).graphs[graph].signature
    found = arguments((artifact / f"{graph}.stablehlo").read_text())
    assert len(found) == len(signature.parameters)
    expected = {parameter: f"tf.aliasing_output = {output} : i32" for output, parameter in signature.aliases.items()}
    assert {number: attributes for number, (_, attributes) in enumerate(found) if attributes} == expected
    assert {signature.parameters[number].role for number in expected} == {"state"}


@pytest.mark.parametrize("graph", GRAPHS)
def test_arguments_have_the_shapes_of_the_signature(artifact: Path, graph: GraphName) -> None:
    signature = Manifest.read(artifact).graphs[graph].signature
    letters = {"float32": "f32", "bfloat16": "bf16", "int32": "i32"}
    expected = ["x".join([*map(str, p.shape), letters[p.dtype]]) for p in signature.parameters]
    assert [type_ for type_, _ in arguments((artifact / f"{graph}.stablehlo").read_text())] == expected


@pytest.mark.parametrize("graph", GRAPHS)
def test_no_path_or_line_of_the_builder_is_in_it(artifact: Path, graph: GraphName) -> None:
    module = (artifact / f"{graph}.stablehlo").read_text()
    assert "loc(" not in module
    assert ".py" not in module
    assert "/" not in module
    assert "input_output_alias" not in module


def test_the_same_hlo_gives_the_same_module() -> None:
    from recipes.lowering import LowerRecipe, lower

    recipe = LowerRecipe(kv_max=44, kv_bucket=8, tp=1, batch=1, dtype="float32", target="cpu")
    lowered = lower(TEXT_CONFIG, recipe, "decode")
    first, second = (module_for_cpu(lowered.hlo, lowered.signature) for _ in range(2))
    assert first == second
