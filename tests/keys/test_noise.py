"""What never changes a key, and what always does, on the command line of a real stage in processes of their own.

The stage is compile for cpu, on a program of two operations: it depends on everything that a key covers. Each run has
a store of its own, and really compiles.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ledger.sources import PACKAGES, ROOT
from ledger.store import Store
from tests.recipes.test_compile import lowered

Change = Callable[["Run"], None]
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@dataclass
class Run:
    """How the stage is started; a test changes some of it."""

    folder: Path
    code: Path = ROOT
    cwd: Path | None = None
    prefix: Sequence[str] = ()
    environment: dict[str, str] = field(default_factory=dict)
    path: Sequence[Path] = ()
    recipe: Mapping[str, object] = field(default_factory=lambda: {"target": "cpu", "flags": []})
    umask: int = 0o022

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def given(self) -> Path:
        return self.folder / "lower.json"

    def key(self) -> tuple[str, dict[str, object]]:
        """The key, which is also on stdout, and the objects that were made."""
        out = self.folder / "compile.json"
        flags = ["--recipe", json.dumps(self.recipe), "--input", f"lower={self.given}"]
        flags += ["--store", str(self.store), "--out", str(out)]
        command = [*self.prefix, sys.executable, "-m", "recipes.compile", *flags]
        pythonpath = os.pathsep.join(map(str, (*self.path, self.code)))
        environment = os.environ | {"PYTHONPATH": pythonpath} | self.environment
        done = subprocess.run(
            command,
            cwd=self.cwd or self.code,  # which comes first among the places to import from
            env=environment,
            umask=self.umask,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        receipt = json.loads(out.read_bytes())
        assert f"building ({receipt['key'][:12]})" in done.stdout
        return receipt["key"], receipt["outputs"]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that has a lowered program, and its receipt."""
    folder = tmp_path_factory.mktemp("template")
    lowered(Store(folder / "store")).write(folder / "lower.json")
    return folder


@pytest.fixture(scope="module")
def usual(template: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, object]]:
    folder = tmp_path_factory.mktemp("usual") / "run"
    shutil.copytree(template, folder)
    return Run(folder).key()


@pytest.fixture
def run(template: Path, tmp_path: Path) -> Run:
    return Run(shutil.copytree(template, tmp_path / "run"))


def clone(run: Run, name: str = "clone") -> Path:
    folder = run.folder.parent / name
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def shell(run: Run) -> None:
    run.environment = {
        "HOME": "/nowhere",
        "USER": "somebody",
        "LOGNAME": "somebody",
        "TZ": "Pacific/Kiritimati",
        "LANG": "tr_TR.UTF-8",
        "LC_ALL": "C",
        "PYTHONHASHSEED": "42",
        "COLUMNS": "7",
        "TERM": "dumb",
        "SOURCE_DATE_EPOCH": "1",
        "XLA_FLAGS": "--xla_cpu_enable_fast_math=true",
        "AWS_REGION": "eu-west-1",
        "CI": "true",
    }


def elsewhere(run: Run) -> None:
    run.cwd, run.umask = run.folder, 0o077


def another_clone(run: Run) -> None:
    run.code = clone(run, "a clone, elsewhere")


def old_files(run: Run) -> None:
    run.code = clone(run)
    for path in (*run.code.rglob("*.py"), run.given):
        os.utime(path, (0, 0))


def through_links(run: Run) -> None:
    code, folder = run.folder.parent / "code", run.folder.parent / "linked"
    code.symlink_to(ROOT)
    folder.symlink_to(run.folder)
    run.code, run.folder = code, folder


def other_packages(run: Run) -> None:
    distribution(run, "mistune", "99.0")


def code_of_others(run: Run) -> None:
    run.code = clone(run)
    edit(run.code / "publish" / "card.py")


def another_host(run: Run) -> None:
    run.prefix = ["unshare", "--uts", "sh", "-c", 'hostname other && exec "$@"', "sh"]


def another_user(run: Run) -> None:
    # The rights of root, without its name: the interpreter may be in a folder that is root's alone.
    run.prefix = ["setpriv", "--reuid", "4321", "--regid", "4321", "--clear-groups"]
    run.prefix += ["--inh-caps=+dac_override", "--ambient-caps=+dac_override"]


@pytest.mark.parametrize(
    "change",
    [
        shell,
        elsewhere,
        another_clone,
        old_files,
        through_links,
        other_packages,
        code_of_others,
        pytest.param(another_host, marks=root_only),
        pytest.param(another_user, marks=root_only),
    ],
)
def test_neither_key_nor_bytes_change_with(change: Change, run: Run, usual: tuple[str, dict[str, object]]) -> None:
    change(run)
    assert run.key() == usual


def distribution(run: Run, name: str, version: str) -> None:
    """A version that is found first, of a package whose code stays as it is."""
    folder = run.folder.parent / "distributions"
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    run.path = [folder]


def edit(path: Path) -> None:
    path.write_text(path.read_text() + "# edited\n")


def compiler_version(run: Run) -> None:
    distribution(run, "jaxlib", "99.0")


def flag(run: Run) -> None:
    run.recipe = {"target": "cpu", "flags": ["xla_cpu_prefer_vector_width=256"]}


def hlo(run: Run) -> None:
    """The other program, of the same shapes."""
    store = Store(run.store)
    receipt = json.loads(run.given.read_bytes())
    proto = store.path(lowered(store).outputs["decode.hlo.pb"]).read_bytes()
    other = store.put_bytes(proto.replace(b"multiply", b"subtract"))
    receipt["outputs"]["decode.hlo.pb"] = other.model_dump()
    run.given.write_text(json.dumps(receipt))


def code(run: Run) -> None:
    run.code = clone(run)
    edit(run.code / "recipes" / "executable.py")


def code_that_is_imported(run: Run) -> None:
    run.code = clone(run)
    edit(run.code / "serve" / "runtime" / "pjrt.py")


def cores(run: Run) -> None:
    run.prefix = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]


@pytest.mark.parametrize(
    "change",
    [
        compiler_version,
        flag,
        hlo,
        code,
        code_that_is_imported,
        pytest.param(cores, marks=pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")),
    ],
)
def test_a_key_changes_with(change: Change, run: Run, usual: tuple[str, dict[str, object]]) -> None:
    change(run)
    assert run.key()[0] != usual[0]


def test_a_byte_of_the_weights_is_another_key(tmp_path: Path) -> None:
    """By the receipt of fetch, which names files by their bytes: stage tables, which makes a file of them."""
    import torch

    from tests.build import TEXT_CONFIG, fetched, write_checkpoint

    keys = []
    for value in (1.0, 2.0):
        folder = tmp_path / str(value)
        (folder / "checkpoint").mkdir(parents=True)
        widths = {"embed_tokens": 96, "embed_tokens_per_layer": 5 * 24}
        tensors = {
            f"model.language_model.{name}.weight": torch.full((512, width), value, dtype=torch.bfloat16)
            for name, width in widths.items()
        }
        write_checkpoint(folder / "checkpoint", TEXT_CONFIG, tensors)
        fetched(folder / "checkpoint", Store(folder / "store")).write(folder / "fetch.json")
        flags = ["--recipe", "{}", "--input", f"fetch={folder}/fetch.json", "--store", f"{folder}/store"]
        command = [sys.executable, "-m", "recipes.tables", *flags, "--out", f"{folder}/tables.json"]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        keys.append(json.loads((folder / "tables.json").read_bytes())["key"])
    assert len(set(keys)) == 2
