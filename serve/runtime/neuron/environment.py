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
    """Let neuronx_distributed be imported beside transformers 5, which has no `transformers.utils.fx` any more.

    NxD imports HFTracer from there for pipeline training, which nobody does here.
    """
    name = "transformers.utils.fx"
    if name not in modules and find_spec("transformers"):
        module = ModuleType(name, "Stands for a module that transformers dropped.")
        module.HFTracer = type("HFTracer", (), {})  # type: ignore[attr-defined]
        modules[name] = module
