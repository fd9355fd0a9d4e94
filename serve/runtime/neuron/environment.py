"""The process environment that the SDK reads once, when it is imported."""

from __future__ import annotations

import sys
from collections.abc import MutableMapping
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from serve.errors import ServeError

Environment = MutableMapping[str, str]

VISIBLE, COUNT = "NEURON_RT_VISIBLE_CORES", "NEURON_RT_NUM_CORES"
MOST_CORES = 128
"""No host with NeuronCores has more (trn2.48xlarge: 16 chips of 8)."""
FLAGS = "NEURON_CC_FLAGS"
FX = "transformers.utils.fx"
NO_COMPILATION = "--compilation-is-forbidden-while-serving"
"""No option of neuronx-cc: a graph that should be compiled here fails at once instead of taking half an hour."""


def prepare(environment: Environment, tp: int) -> None:
    """Claim `tp` cores unless the user chose, find the SDK's programs, forbid the compiler.

    ServeError when the user's choice is not a choice of cores, or is of fewer than `tp`.
    """
    visible, count = visible_cores(environment), environment.get(COUNT)
    if visible is not None:
        _enough(VISIBLE, environment[VISIBLE], len(visible), tp)
    elif count is None:
        environment[COUNT] = str(tp)
    elif not count.isdecimal():
        raise ServeError(f"{COUNT}: found {count!r}; accepted: a number of cores, {tp} or more")
    elif int(count):  # 0 is every core of the host
        _enough(COUNT, count, int(count), tp)
    # Importing torch_neuronx runs libneuronpjrt-path, a program beside this interpreter.
    programs, path = str(Path(sys.executable).parent), environment.get("PATH", "")
    if programs not in path.split(":"):
        environment["PATH"] = f"{path}:{programs}" if path else programs
    environment[FLAGS] = NO_COMPILATION


def visible_cores(environment: Environment) -> frozenset[int] | None:
    """The cores this process may use; None when it may use any. ServeError when the list cannot be read."""
    text = environment.get(VISIBLE)
    if text is None:
        return None
    cores: set[int] = set()
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            chosen = range(int(first), int(last or first) + 1)
            if chosen and chosen[-1] >= MOST_CORES:
                raise ServeError(f"{VISIBLE}: found {part.strip()}; accepted: core numbers from 0 to {MOST_CORES - 1}")
            cores.update(chosen)
    except ValueError as error:
        raise ServeError(f"{VISIBLE}: found {text!r}; accepted: core numbers and ranges, such as 0 or 0-1,3") from error
    return frozenset(cores)


def _enough(variable: str, text: str, cores: int, tp: int) -> None:
    if cores < tp:
        raise ServeError(
            f"{variable}: found {text}, {cores} cores; accepted: {tp} or more, as the artifact has tp {tp}"
        )


def stand_for_fx(modules: MutableMapping[str, ModuleType]) -> None:
    """Put an empty `transformers.utils.fx` into `modules` where transformers has none any more (5.x).

    neuronx_distributed imports HFTracer from it whenever transformers is there, for a pipeline that is not used here.
    """
    transformers = find_spec("transformers")
    # Looked up as a file: to ask for the module itself would import transformers, which takes seconds.
    folders = (transformers and transformers.submodule_search_locations) or ()
    missing = folders and not any((Path(folder) / "utils/fx.py").is_file() for folder in folders)
    if missing and FX not in modules:
        stub = ModuleType(FX, "Stands for a module that transformers dropped.")
        stub.HFTracer = type("HFTracer", (), {})  # type: ignore[attr-defined]
        modules[FX] = stub
