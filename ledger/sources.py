"""The digest of the source that a stage runs, so that an edit to an imported module rebuilds what uses it.

Snakemake looks at the script of a rule and not at what it imports. Here the first-party import closure is
followed through the syntax tree, without importing anything. It errs on the side of rebuilding: imports
inside functions and under TYPE_CHECKING count. A module that is started by name (importlib, `python -m`) is
not seen: name it yourself. Files a module reads at run time are part of its source when the module lists
them:

    DATA_FILES: tuple[str, ...] = ("grammar.txt", "prompts/*.json")    # relative to the module's folder
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ledger.digest import digest_json, sha256_bytes, sha256_file
from ledger.errors import BadInput

PACKAGES = ("config", "ledger", "recipes", "validate", "publish", "serve")
ROOT = Path(__file__).resolve().parent.parent


def source_digest(*modules: str, root: Path = ROOT) -> str:
    """Hex sha256 over the names and contents of `source_files`; read once per process."""
    return digest_json(_digests(frozenset(modules), root.resolve()))


def file_digests(*modules: str, root: Path = ROOT) -> dict[str, str]:
    """The sha256 of each of `source_files`, by name."""
    return dict(_digests(frozenset(modules), root.resolve()))


def source_files(*modules: str, root: Path = ROOT) -> tuple[str, ...]:
    """The files, relative to `root` and sorted, that `modules` (dotted names) can import or name as data.

    Raises BadInput for a module that is not there, a file that is not Python, or DATA_FILES that match
    nothing.
    """
    return tuple(_digests(frozenset(modules), root.resolve()))


@dataclass(frozen=True, slots=True)
class _Module:
    sha256: str
    imports: frozenset[str]
    data: tuple[Path, ...]


@cache
def _digests(modules: frozenset[str], root: Path) -> dict[str, str]:
    for name in modules:
        if _locate(name, root) is None:
            raise BadInput(f"module {name} is not under {root}; accepted: a module of {', '.join(PACKAGES)}")
    found: dict[Path, str] = {}
    waiting = set(modules)
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        seen.add(name)
        path = _locate(name, root)
        if path is not None:
            module = _parse(name, path)
            found[path] = module.sha256
            found |= {data: sha256_file(data) for data in module.data}
            waiting |= module.imports
        # Importing a.b.c runs the files of a and a.b too.
        waiting |= {name.rpartition(".")[0]} - {""}
        waiting -= seen
    return {path.relative_to(root).as_posix(): found[path] for path in sorted(found)}


def _locate(name: str, root: Path) -> Path | None:
    """The file of a first-party module; None for others, attributes and folders without __init__.py."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return None
    base = root.joinpath(*parts)
    candidates = (base / "__init__.py", base.with_name(f"{base.name}.py"))
    return next((path for path in candidates if path.is_file()), None)


@cache
def _parse(name: str, path: Path) -> _Module:
    text = path.read_bytes()
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        raise BadInput(f"{path}: line {error.lineno} is not Python: {error.msg}") from None
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    imports = {target for node in _statements(tree.body) for target in _imports(node, package)}
    data = tuple(file for pattern in _data_files(tree, path) for file in _matches(path, pattern))
    return _Module(sha256_bytes(text), frozenset(imports), data)


def _statements(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every statement however deeply nested; expressions, which hold no imports, are most of a tree."""
    waiting: list[ast.AST] = list(body)
    while waiting:
        node = waiting.pop()
        yield node
        for field in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting.extend(getattr(node, field, ()))


def _imports(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        module = ".".join([*above, *([node.module] if node.module else [])])
        yield module
        # `from package import name`: a name may be an attribute or a module, the file system tells.
        for alias in node.names:
            yield f"{module}.{alias.name}"


def _data_files(tree: ast.Module, path: Path) -> tuple[str, ...]:
    for node in tree.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        if any(isinstance(target, ast.Name) and target.id == "DATA_FILES" for target in targets):
            with suppress(ValueError):
                names = ast.literal_eval(node.value)
                if isinstance(names, tuple) and all(isinstance(name, str) for name in names):
                    return names
            raise BadInput(f"{path}: DATA_FILES in line {node.lineno}; accepted: a tuple of literal file names")
    return ()


def _matches(path: Path, pattern: str) -> list[Path]:
    # Not resolved: a data file that is a link is known by its name in the tree.
    files = [Path(os.path.normpath(file)) for file in path.parent.glob(pattern) if file.is_file()]
    if not files:
        raise BadInput(f"{path}: DATA_FILES names {pattern!r}, which matches no file in {path.parent}")
    return files
