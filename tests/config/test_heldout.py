"""The held-out modules: real, pure Python, and with enough text of their own to score."""

import ast
import sys
import sysconfig
from pathlib import Path

import pytest

from config.heldout import HELDOUT_MODULES

STDLIB = Path(sysconfig.get_paths()["stdlib"])


def _docstrings(module: str) -> list[str]:
    tree = ast.parse((STDLIB / f"{module}.py").read_text(encoding="utf-8"))
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return [text for node in ast.walk(tree) if isinstance(node, kinds) and (text := ast.get_docstring(node))]


@pytest.mark.parametrize("module", HELDOUT_MODULES)
def test_module_belongs_to_the_standard_library(module: str) -> None:
    assert module in sys.stdlib_module_names
    assert len("".join(_docstrings(module))) > 3_000


def test_there_is_text_for_the_default_number_of_tokens() -> None:
    # 2,048 tokens are the default; no tokenizer puts more than some 10 characters of prose in one.
    assert sum(len(text) for module in HELDOUT_MODULES for text in _docstrings(module)) > 20_480
