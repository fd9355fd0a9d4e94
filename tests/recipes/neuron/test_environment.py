"""What a build process sees before it imports the SDK."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from multiprocessing.connection import Listener
from pathlib import Path

import pytest

from ledger.sources import ROOT
from ledger.store import Store
from recipes.neuron.environment import clean, variables, workspace


def test_every_build_has_folders_of_its_own_and_leaves_none(tmp_path: Path) -> None:
    store, shared = Store(tmp_path), Path(tempfile.gettempdir())
    links = set(shared.glob("neff-*"))
    with workspace(store) as one, workspace(store) as other:
        seen = [variables(space, {}) for space in (one, other)]
        for name in ("NEURON_COMPILE_CACHE_URL", "TMPDIR"):
            assert seen[0][name] != seen[1][name]
            assert all(Path(env[name]).is_dir() for env in seen)
        assert Path(seen[0]["TMPDIR"]).resolve().parent == one.work != other.work
        assert Path(seen[0]["NEURON_COMPILE_CACHE_URL"]).parent == one.work
        left = [one.work, other.work, one.short, other.short]
        # What a killed stage cannot remove.
        assert set(shared.glob("neff-*")) <= links
    assert not any(os.path.lexists(path) for path in left)


def test_a_socket_fits_however_deep_the_store_is(tmp_path: Path) -> None:
    with workspace(Store(tmp_path / ("d" * 60) / ("e" * 60))) as space:
        # What multiprocessing makes of TMPDIR for the manager that parallel_model_trace starts.
        folder = space.short / "pymp-abcdefgh"
        folder.mkdir()
        with Listener(str(folder / "listener-abcdefgh"), family="AF_UNIX"):
            pass
        with pytest.raises(OSError, match="AF_UNIX path too long"):
            Listener(str(space.work / "tmp/pymp-abcdefgh/listener-abcdefgh"), family="AF_UNIX")


def test_what_a_shell_set_for_something_else_is_dropped() -> None:
    shell = {"NEURON_CC_FLAGS": "--cache_dir=/x -O1", "XLA_FLAGS": "--y", "NXD_CPU_MODE": "1", "HOME": "/h"}
    shell |= {"NEURON_PLATFORM_TARGET_OVERRIDE": "trn2", "NEURON_FUSE_SOFTMAX": "1", "PYTHONHASHSEED": "7"}
    env = clean(shell)
    assert {"NEURON_CC_FLAGS", "XLA_FLAGS", "NXD_CPU_MODE", "NEURON_FUSE_SOFTMAX"}.isdisjoint(env)
    assert (env["HOME"], env["NEURON_PLATFORM_TARGET_OVERRIDE"], env["PYTHONHASHSEED"]) == ("/h", "inf2", "0")


def test_programs_beside_the_interpreter_are_found_first_and_the_hosts_after_them(tmp_path: Path) -> None:
    beside, host = tmp_path / "venv", tmp_path / "host"
    for folder in (beside, host):
        folder.mkdir()
        (folder / "neuronx-cc").touch(mode=0o755)
    path = clean({"PATH": str(host)})["PATH"]
    assert path.split(os.pathsep) == [str(Path(sys.executable).parent), str(host)]
    assert shutil.which("neuronx-cc", path=path) == str(host / "neuronx-cc")


def test_importable_packages_stay_importable(tmp_path: Path) -> None:
    (tmp_path / "torch_neuronx_of_the_host.py").touch()
    command = [sys.executable, "-c", "import torch_neuronx_of_the_host, recipes.neuron.environment"]
    subprocess.run(command, cwd=tmp_path.parent, env=clean({"PYTHONPATH": str(tmp_path)}), check=True)


_IMPORTS = """
import sys
{before}
from serve.runtime.neuron.environment import stand_for_fx
stand_for_fx(sys.modules)
from transformers.utils.fx import HFTracer
print(getattr(sys.modules["transformers.utils.fx"], "__file__", None))
"""


def _fx(before: str, path: str = "") -> str:
    env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [path, str(ROOT)]))}
    command = [sys.executable, "-c", _IMPORTS.format(before=before)]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.strip()


def test_the_module_that_transformers_dropped_is_stubbed() -> None:
    assert _fx("") == "None"
    with pytest.raises(subprocess.CalledProcessError):
        _fx("import serve.runtime.neuron.environment as e; e.stand_for_fx = lambda modules: None")


def test_the_module_of_an_older_transformers_is_left_alone(tmp_path: Path) -> None:
    package = tmp_path / "transformers/utils"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "fx.py").write_text("class HFTracer: ...\n")
    assert _fx("", str(tmp_path)) == str(package / "fx.py")
