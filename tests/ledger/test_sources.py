"""The import closure of small trees, against lists written by hand and against Python's own importer."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from ledger.errors import BadInput
from ledger.sources import ROOT, source_digest, source_files

TREE = {
    "ledger/__init__.py": "",
    "ledger/store.py": "import os, json\nfrom ledger import errors\n",
    "ledger/errors.py": "",
    "ledger/unused.py": "",
    "recipes/__init__.py": "from recipes import names\n",
    "recipes/names.py": "",
    "recipes/lower.py": "from ledger.store import Store\nimport numpy.linalg\nimport tests.helpers\n",
    "recipes/tiny/__init__.py": "",
    "recipes/tiny/model.py": "from . import corpus\nfrom .tokenizer import T\nfrom .. import weights\n",
    "recipes/tiny/corpus.py": "DATA_FILES: tuple[str, ...] = ('words/*.txt', 'grammar.bin')\n",
    "recipes/tiny/tokenizer.py": "from ..deep.er import thing\n",
    "recipes/tiny/words/a.txt": "a",
    "recipes/tiny/words/b.txt": "b",
    "recipes/tiny/words/c.md": "not named",
    "recipes/tiny/grammar.bin": "\x00",
    "recipes/weights.py": "from recipes.tiny.model import *\n",
    "recipes/deep/er.py": "thing = 1\n",
    "recipes/hidden.py": (
        "def f(x):\n"
        "    try:\n"
        "        pass\n"
        "    except Exception:\n"
        "        import ledger.errors\n"
        "    match x:\n"
        "        case 1:\n"
        "            with x:\n"
        "                from recipes import deep\n"
        "        case _:\n"
        "            class A:\n"
        "                import recipes.deep.er as y\n"
    ),
    "tests/helpers.py": "import recipes.hidden\n",
}

LEDGER_STORE = ["ledger/__init__.py", "ledger/errors.py", "ledger/store.py"]
RECIPES = ["recipes/__init__.py", "recipes/names.py"]


def plant(root: Path, changes: dict[str, str] | None = None) -> Path:
    for name, text in (TREE | (changes or {})).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("modules", "files"),
    [
        (("ledger.errors",), ["ledger/__init__.py", "ledger/errors.py"]),
        (("ledger.store",), LEDGER_STORE),
        (("recipes.lower",), [*LEDGER_STORE, *RECIPES, "recipes/lower.py"]),
        (
            ("recipes.tiny.model",),
            [
                *RECIPES,
                "recipes/deep/er.py",
                "recipes/tiny/__init__.py",
                "recipes/tiny/corpus.py",
                "recipes/tiny/grammar.bin",
                "recipes/tiny/model.py",
                "recipes/tiny/tokenizer.py",
                "recipes/tiny/words/a.txt",
                "recipes/tiny/words/b.txt",
                "recipes/weights.py",
            ],
        ),
        (
            ("recipes.hidden",),
            ["ledger/__init__.py", "ledger/errors.py", *RECIPES, "recipes/deep/er.py", "recipes/hidden.py"],
        ),
        (("recipes", "ledger.unused"), ["ledger/__init__.py", "ledger/unused.py", *RECIPES]),
    ],
)
def test_the_closure(tmp_path: Path, modules: tuple[str, ...], files: list[str]) -> None:
    assert sorted(source_files(*modules, root=plant(tmp_path))) == sorted(files)


LOWER = frozenset([*LEDGER_STORE, *RECIPES, "recipes/lower.py"])


@pytest.mark.parametrize("name", sorted(TREE))
def test_an_edit_counts_exactly_when_the_file_is_in_the_closure(tmp_path: Path, name: str) -> None:
    before = plant(tmp_path / "before")
    after = plant(tmp_path / "after", {name: TREE[name] + "# edited\n"})
    changed = source_digest("recipes.lower", root=before) != source_digest("recipes.lower", root=after)
    assert changed == (name in LOWER)


def test_a_new_or_renamed_data_file_counts(tmp_path: Path) -> None:
    plain = plant(tmp_path / "plain")
    more = plant(tmp_path / "more", {"recipes/tiny/words/d.txt": ""})
    other = plant(tmp_path / "other", {"recipes/tiny/words/e.txt": ""})
    assert len({source_digest("recipes.tiny.corpus", root=root) for root in (plain, more, other)}) == 3


def test_the_digest_depends_on_neither_place_nor_order_nor_entry(tmp_path: Path) -> None:
    one, other = plant(tmp_path / "one"), plant(tmp_path / "other")
    (tmp_path / "link").symlink_to(other)
    digests = {
        source_digest("recipes.lower", "ledger.store", root=one),
        source_digest("ledger.store", "recipes.lower", root=other),
        source_digest("recipes.lower", root=tmp_path / "link"),
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("changes", "module", "sentence"),
    [
        ({}, "recipes.gone", "module recipes.gone is not under "),
        ({}, "numpy", "module numpy is not under "),
        ({"recipes/bad.py": "x = 1\ndef\n"}, "recipes.bad", "recipes/bad.py: line 2 is not Python"),
        (
            {"recipes/bad.py": "DATA_FILES = ('*.none',)"},
            "recipes.bad",
            "recipes/bad.py: DATA_FILES names '*.none', which matches no file in ",
        ),
        (
            {"recipes/bad.py": "\nDATA_FILES = tuple(x)"},
            "recipes.bad",
            "recipes/bad.py: DATA_FILES in line 2; accepted: a tuple of literal file names",
        ),
        ({"recipes/bad.py": "DATA_FILES = 'words'"}, "recipes.bad", "recipes/bad.py: DATA_FILES in line 1; "),
    ],
)
def test_what_cannot_be_followed_is_named(tmp_path: Path, changes: dict[str, str], module: str, sentence: str) -> None:
    with pytest.raises(BadInput) as caught:
        source_digest(module, root=plant(tmp_path, changes))
    assert sentence in str(caught.value)


def test_nothing_is_imported(tmp_path: Path) -> None:
    root = plant(tmp_path, {"recipes/loud.py": "raise SystemExit('imported')\n"})
    assert "recipes/loud.py" in source_files("recipes.loud", root=root)


def test_every_module_that_python_imports_is_in_the_closure() -> None:
    code = (
        "import sys, ledger.stage\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'ledger'), sep='\\n')"
    )
    printed = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    imported = {Path(line).relative_to(ROOT).as_posix() for line in printed.stdout.splitlines()}
    assert len(imported) > 5
    # Imported by a function, once a store is in a bucket: counted all the same.
    late = {"ledger/store/remote.py", "ledger/store/shared.py"}
    assert imported | late == set(source_files("ledger.stage"))
    assert not imported & late


def test_a_hundred_modules_take_little_time(tmp_path: Path) -> None:
    body = "def f(x):\n    return [y * 2 + 1 for y in x if y]\n" * 50
    names = [f"recipes/m{number}.py" for number in range(100)]
    chain = {name: f"import recipes.m{number + 1}\n{body}" for number, name in enumerate(names)}
    root = plant(tmp_path, chain)
    started = time.process_time()
    assert len(source_files("recipes.m0", root=root)) == 102
    # 0.1 s when alone; the bound only tells a walk over everything from a walk over statements.
    assert time.process_time() - started < 2
