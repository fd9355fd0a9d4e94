"""Everything about a process that must be settled before it imports the Neuron SDK, for one build.

Each build has folders of its own. Two that share ModelBuilder's default work folder, or the compiler's cache, spoil
each other ("cached failed neff"), and neuronx-cc leaves files in its current folder. What a shell may have set for
something else (flags of the compiler, switches that change the graph) is dropped: what ships must not depend on it.
"""

from __future__ import annotations

import os
import shutil
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ledger.sources import ROOT
from ledger.store import Store
from recipes.shell import is_foreign

TARGET = "inf2"
# Bytes of TMPDIR: multiprocessing puts sockets into folders there, and the path of a socket has 107.
_LONGEST = 60
# Each changes flags, the graph or where it is cached (SDK documentation: torch-neuron-envvars, neuron-caching; NxD), as
# do those of XLA (`recipes.shell`).
_DROPPED = (
    "NEURON_CC_FLAGS",
    "NEURON_FUSE_SOFTMAX",
    "NEURON_CUSTOM_SILU",
    "NEURON_COMBINE_KV_ALLOCATIONS",
    "NXD_CPU_MODE",
    "NXD_LAYOUT_TRANSFORMATION_OPTIONS",
    "NXD_SKIP_RENDEZVOUS",
    "TRANSPOSE_KERNEL_WEIGHTS",
    "BASE_COMPILE_WORK_DIR",
)


@dataclass(frozen=True)
class Workspace:
    """The folders of one build: `work` is its current folder, `short` a short name of one inside, for sockets."""

    work: Path
    short: Path

    @property
    def cache(self) -> Path:
        """The compiler's cache."""
        return self.work / "cache"


@contextmanager
def workspace(store: Store) -> Iterator[Workspace]:
    """Fresh folders in the store, where there is room for graphs of gigabytes; removed afterwards."""
    work = (store.root / "tmp" / f"neuron-{uuid.uuid4().hex}").resolve()
    temporary = work / "tmp"
    temporary.mkdir(parents=True)
    # A name that ends with this process, where the folder's own is too long.
    descriptor = os.open(temporary, os.O_RDONLY | os.O_DIRECTORY)
    fits = len(os.fsencode(temporary)) <= _LONGEST
    try:
        made = Workspace(work, temporary if fits else Path(f"/proc/{os.getpid()}/fd/{descriptor}"))
        made.cache.mkdir()
        yield made
    finally:
        os.close(descriptor)
        shutil.rmtree(work, ignore_errors=True)


def clean(base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables for any process that imports the SDK or runs its compiler."""
    kept = {name: value for name, value in base.items() if name not in _DROPPED and not is_foreign(name)}
    # neuronx-cc and libneuronpjrt-path are found by bare name: next to this interpreter, else where the host has them.
    path = [str(Path(sys.executable).parent), *kept.get("PATH", os.defpath).split(os.pathsep)]
    modules = [str(ROOT), *filter(None, kept.get("PYTHONPATH", "").split(os.pathsep))]
    return kept | {
        "PATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(modules)),
        # The library keeps names of attention kinds in a set: the order of its tensors must not vary.
        "PYTHONHASHSEED": "0",
        "NEURON_PLATFORM_TARGET_OVERRIDE": TARGET,
        # A rank's sum stays in the graph although the process that traces is alone.
        "XLA_ALWAYS_ALLREDUCE": "1",
    }


def variables(space: Workspace, base: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables of the process that builds in `space`."""
    return clean(base) | {"NEURON_COMPILE_CACHE_URL": str(space.cache), "TMPDIR": str(space.short)}
