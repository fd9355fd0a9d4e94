"""The documented API as the questions use it, and what a call returns made comparable.

Every import is inside a function: the child's variables must be set, and a failure to import is told as an answer.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from validate.probe.question import Work

TARGET = ("--target", "inf2")
CPU_BACKEND = "cpu_backend.json"


def torch_neuronx() -> Any:
    """The module; importing it registers what saved graphs need."""
    return importlib.import_module("torch_neuronx")


def trace(
    module: torch.nn.Module, inputs: tuple[torch.Tensor, ...], work: Work, *flags: str, **options: Any
) -> torch.jit.ScriptModule:
    """Compile `module` for inf2 in the question's own folder, by the backend that `tiny` found to work."""
    options.setdefault("cpu_backend", cpu_backend(work))
    traced: torch.jit.ScriptModule = torch_neuronx().trace(
        module.eval(),
        inputs,
        compiler_workdir=str(folder(work, "compile")),
        compiler_args=[*TARGET, *flags],
        **options,
    )
    return traced


def cpu_backend(work: Work) -> bool:
    """Whether to trace on the CPU; True until `tiny` has found otherwise."""
    file = Path(work.shared) / CPU_BACKEND
    return bool(json.loads(file.read_bytes())) if file.exists() else True


def folder(work: Work, name: str) -> Path:
    """A new folder of the question's own; one that is there gets a number."""
    base = Path(work.own)
    path = next(one for one in (base / f"{name}{number or ''}" for number in range(1000)) if not one.exists())
    path.mkdir(parents=True)
    return path


def save(traced: torch.jit.ScriptModule, path: Path) -> Path:
    """The graph's archive."""
    torch.jit.save(traced, str(path))  # type: ignore[no-untyped-call]
    return path


def load(path: Path) -> Any:
    """A saved graph, on the device."""
    torch_neuronx()
    return torch.jit.load(str(path))  # type: ignore[no-untyped-call]


def outputs(returned: Any) -> list[torch.Tensor]:
    """What a call returned, flat and on the host: a tensor, or a list, tuple or mapping of them."""
    if isinstance(returned, torch.Tensor):
        return [returned.detach().cpu()]
    parts: Sequence[Any] = list(returned.values()) if isinstance(returned, Mapping) else list(returned)
    return [one for part in parts for one in outputs(part)]


def numbers(tensor: torch.Tensor, most: int = 8) -> list[float]:
    """The first values of a tensor, as evidence; what is not finite as its name, for JSON has none of them."""
    return [value if _finite(value) else str(value) for value in tensor.flatten()[:most].tolist()]  # type: ignore[misc]


def _finite(value: float) -> bool:
    return value - value == 0
