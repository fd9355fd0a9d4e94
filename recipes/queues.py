"""What each job asks of whoever runs it: memory, cores, NeuronCores; and which of a pair of rules has it.

A site names its queues for rules, so what is for a NeuronCore, and what only the machine that was asked can do, are
rules of their own. They have the same outputs, and each takes the checkpoints and variants that are its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Sequence
from pathlib import Path
from typing import Protocol

from snakemake.settings.types import SharedFSUsage  # type: ignore[import-untyped]

from config.models import PathSource
from ledger.errors import BadInput
from ledger.location import bucket_of
from recipes import memory
from recipes.travel import require_shared, travelling
from recipes.workflow import Plan, Wildcards

# Containers that snakemake's plugin for AWS Batch lets through: cores, least and most memory, step of it (MB). In place
# of another figure it takes the least memory of those cores, with a warning that nobody sees.
_CONTAINERS = (
    (1, 2048, 8192, 1024),
    (2, 4096, 16384, 1024),
    (4, 8192, 30720, 1024),
    (8, 16384, 61440, 4096),
    (16, 32768, 122880, 8192),
)
# Below this a measurement would have fewer threads than its recipe says; fetch trains the demo's checkpoint on both.
_LEAST_CORES = {"bench": 2, "fetch": 2}


def container(mb: int, cores: int = 1) -> tuple[int, int]:
    """Cores and memory (MB) of the smallest container for `mb` and `cores`; `mb` itself where none is large enough."""
    for has, least, most, step in _CONTAINERS:
        if has >= cores and mb <= most:
            return has, least + max(0, -(-(mb - least) // step)) * step
    return _CONTAINERS[-1][0], mb


class Storage(Protocol):
    """What of snakemake's settings of storage is looked at."""

    default_storage_provider: str | None
    default_storage_prefix: str | None
    shared_fs_usage: Container[object]


class Queues:
    """Resources, threads and constraints of the rules of one plan."""

    def __init__(self, plan: Plan, storage: Storage | None = None, configs: Sequence[Path] = ()) -> None:
        """Raises BadInput for what jobs could not find where they see no folder of this machine."""
        self._plan = plan
        self._containers: dict[tuple[str, str, str], tuple[int, int]] = {}
        if storage and SharedFSUsage.INPUT_OUTPUT not in storage.shared_fs_usage:
            require_shared(plan.factory.store)
            _require_travel(plan, configs)
            _require_apart(storage.default_storage_prefix, plan.factory.store)
        in_bucket = storage is not None and storage.default_storage_provider is not None
        # The folder of links is for people: no stage reads it, and in a bucket it would be of no use to anyone.
        self.build = [] if in_bucket else ["--build", plan.build()]
        self.manifest = {} if in_bucket else {"manifest": f"{plan.artifact()}/manifest.json"}

    def mem_mb(self, stage: str) -> Callable[[Wildcards], int]:
        """The function that gives a job's memory, in MB."""
        return lambda wildcards: self._container(stage, wildcards)[1]

    def cores(self, stage: str, all_of: int | None = None) -> Callable[[Wildcards], int]:
        """The function that gives the cores that come with a job's memory, or `all_of` a machine's where given."""
        return lambda wildcards: all_of or self._container(stage, wildcards)[0]

    def inf2(self, wildcards: Wildcards) -> int:
        """NeuronCores that a job holds: each belongs to one process at a time."""
        variant = self._plan.variant(wildcards)
        return variant.tp if variant.target == "inf2" else 0

    def gres(self, wildcards: Wildcards) -> str | None:
        """The same in slurm's words, where they are a generic resource called neuroncore; None: asks for none."""
        cores = self.inf2(wildcards)
        return f"neuroncore:{cores}" if cores else None

    def of_target(self, target: str) -> str:
        """Constraint of {checkpoint}: those whose {variant}, the next folder of the path, is for `target`."""
        checkpoints = self._plan.factory.checkpoints.values()
        return pairs((c.name, v.name) for c in checkpoints for v in c.variants if v.target == target)

    def of_source(self, *, here: bool) -> str:
        """Constraint of {checkpoint}: those whose files are in a folder of the machine that was asked, or are not."""
        checkpoints = self._plan.factory.checkpoints.values()
        return _either(c.name for c in checkpoints if isinstance(c.source, PathSource) == here)

    def _container(self, stage: str, wildcards: Wildcards) -> tuple[int, int]:
        # Snakemake asks several times for each job, and an estimate counts every layer.
        job = (stage, wildcards.checkpoint, wildcards.variant if stage in memory.OF_VARIANT else "")
        if job not in self._containers:
            geometry = self._plan.geometry(wildcards)
            if stage in memory.OF_VARIANT:
                mb = memory.OF_VARIANT[stage](geometry, self._plan.variant(wildcards))
            else:
                mb = memory.OF_CHECKPOINT[stage](geometry)
            self._containers[job] = container(mb, _LEAST_CORES.get(stage, 1))
        return self._containers[job]


def _require_travel(plan: Plan, configs: Sequence[Path]) -> None:
    """BadInput for what does not go along with the files of the working directory, which are all that a job is sent."""
    folder = Path.cwd().resolve()
    for config in configs:
        if not config.resolve().is_relative_to(folder):
            raise BadInput(f"--configfile {config}: accepted where jobs share no file system: a file below {folder}")
    for name, checkpoint in plan.factory.checkpoints.items():
        if checkpoint.geometry is None:
            raise BadInput(
                f"checkpoints.{name}.geometry: is missing; accepted where jobs share no file system with the folder of "
                "the checkpoint: the name of a file in config/geometry"
            )


def _require_apart(prefix: str | None, store: str) -> None:
    files, inside = bucket_of(travelling(prefix)), bucket_of(store)
    if files and inside and files[0] == inside[0] and f"{files[1]}/".startswith(f"{inside[1]}/".lstrip("/")):
        raise BadInput(f"--default-storage-prefix {prefix} is in the store {store}; accepted: a prefix beside it")


def pairs(chosen: Iterable[tuple[str, str]]) -> str:
    """Constraint of {checkpoint} in CHECKPOINT/VARIANT/... to chosen pairs; one for each would let in their product."""
    variants: dict[str, list[str]] = {}
    for checkpoint, variant in chosen:
        variants.setdefault(checkpoint, []).append(variant)
    return "|".join(f"{re.escape(name)}(?=/(?:{_either(ones)})/)" for name, ones in sorted(variants.items())) or "(?!)"


def _either(names: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(names))) or "(?!)"
