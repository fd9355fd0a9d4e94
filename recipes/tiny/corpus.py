"""Training text of the demo checkpoint: the docstrings of the standard library, read with `ast`, never imported.

Departs from a usual corpus: nothing is downloaded, and the split is by module. The modules named held-out
give the text the finished checkpoint is judged on; a docstring that also occurs in one of them is dropped
from training.
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

# Test suites are not prose; the other folders are packaged apart from Python by some distributions.
SKIPPED_PARTS = frozenset(
    {
        "__pycache__",
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "site-packages",
        "dist-packages",
        "test",
        "tests",
        "tkinter",
        "turtledemo",
    }
)
MIN_CHARACTERS = 40


@dataclass(frozen=True, slots=True)
class Doc:
    """One docstring: `name` is the dotted path of what it documents, `text` is cleaned of indentation."""

    module: str
    name: str
    text: str

    @property
    def summary(self) -> str:
        """The first paragraph."""
        return self.text.split("\n\n", 1)[0].strip()


@dataclass(frozen=True, slots=True)
class Corpus:
    """Docstrings to train on and docstrings to be judged on; no text is in both."""

    train: tuple[Doc, ...]
    heldout: tuple[Doc, ...]


def read_corpus(heldout_modules: Collection[str], root: Path | None = None) -> Corpus:
    """All docstrings of at least 40 characters below `root` (default: this Python's standard library), sorted by path.

    A held-out name covers the module and everything below it. Equal texts are kept once.
    """
    train: dict[str, Doc] = {}
    heldout: dict[str, Doc] = {}
    for doc in _docs(root or Path(sysconfig.get_path("stdlib"))):
        side = heldout if _covered(doc.module, heldout_modules) else train
        side.setdefault(doc.text, doc)
    kept = tuple(doc for text, doc in train.items() if text not in heldout)
    return Corpus(train=kept, heldout=tuple(heldout.values()))


def _covered(module: str, names: Collection[str]) -> bool:
    return any(module == name or module.startswith(name + ".") for name in names)


def _docs(root: Path) -> Iterator[Doc]:
    for path in sorted(root.rglob("*.py"), key=lambda p: p.relative_to(root).parts):
        parts = path.relative_to(root).with_suffix("").parts
        if SKIPPED_PARTS.isdisjoint(parts) and all(part.isidentifier() for part in parts):
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            yield from _docs_of_module(module, path)


def _docs_of_module(module: str, path: Path) -> Iterator[Doc]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in old sources
        try:
            tree = ast.parse(path.read_bytes())
        except SyntaxError:  # template files that only look like Python
            return
    yield from _docs_of_node(module, module, tree)


def _docs_of_node(module: str, name: str, node: ast.AST) -> Iterator[Doc]:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        text = ast.get_docstring(node)
        if text is not None and len(text) >= MIN_CHARACTERS:
            yield Doc(module=module, name=name, text=text.expandtabs().strip())
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _docs_of_node(module, f"{name}.{child.name}", child)
