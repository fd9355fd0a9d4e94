"""Held-out text: the docstrings of standard-library modules that no training here has seen.

The modules are found, not imported, and read through the syntax tree: `calendar` prints nothing and `random` seeds
nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path

from ledger.errors import BadInput


def docstrings(module: str) -> list[str]:
    """Every docstring of a top-level standard-library module, in source order.

    Raises BadInput when this Python has no source for it.
    """
    spec = find_spec(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        raise BadInput(f"held-out module {module!r} has no source here; accepted: a module of config/heldout.py")
    return list(_walk(ast.parse(Path(spec.origin).read_bytes())))


def _walk(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
        text := ast.get_docstring(node)
    ):
        yield text
    for child in ast.iter_child_nodes(node):
        yield from _walk(child)


def windows(ids: Sequence[int], *, bos: int, size: int, total: int) -> list[tuple[int, ...]]:
    """The first `total` of `ids` in runs of at most `size` ids, each begun with `bos`; no run holds BOS alone."""
    step = size - 1
    kept = ids[:total]
    return [(bos, *kept[start : start + step]) for start in range(0, len(kept), step)] if step > 0 else []
