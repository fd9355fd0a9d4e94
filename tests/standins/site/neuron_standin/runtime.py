"""The Neuron runtime's view of this host: chips, NeuronCores, and who owns them (sections 2.6, 3.6 point 6, 7.3).

A core is a file cores/<index> under STANDIN_ROOT that its owner locks (flock) and fills with its process id.
"""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from neuron_standin import options

if TYPE_CHECKING:
    from collections.abc import Iterator

CORES_PER_CHIP = 2
_claimed: dict[int, int] = {}
_next = 0
_lock = threading.RLock()
_loading = threading.local()


def core_count() -> int:
    """NeuronCores of this host."""
    return CORES_PER_CHIP * options.devices()


def _listed(text: str) -> list[int]:
    cores: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        cores.extend(range(int(first), int(last or first) + 1))
    return cores


def init() -> list[int]:
    """Claim this process's cores, once, and return them; RuntimeError in the words of nrt_init."""
    with _lock:
        if not _claimed:
            _claim()
        return sorted(_claimed)


def _claim() -> None:
    if options.devices() < 1:
        raise RuntimeError(
            "The PyTorch Neuron Runtime could not be initialized: nrt_init status=1 (NRT_FAILURE): "
            "no neuron device found; is the driver (aws-neuronx-dkms) loaded?"
        )
    every = list(range(core_count()))
    visible, number = os.environ.get("NEURON_RT_VISIBLE_CORES"), int(os.environ.get("NEURON_RT_NUM_CORES") or "0")
    wanted = _listed(visible) if visible else every
    if beyond := [core for core in wanted if core not in every]:
        raise RuntimeError(f"nrt_init status=2 (NRT_INVALID): NEURON_RT_VISIBLE_CORES has {beyond}; cores are {every}")
    needed = len(wanted) if visible or not number else number
    for core in wanted:
        if len(_claimed) < needed and (handle := _take(core)) is not None:
            _claimed[core] = handle
    if len(_claimed) < needed:
        available = len(_claimed)
        for handle in _claimed.values():
            os.close(handle)
        _claimed.clear()
        raise RuntimeError(
            f"nrt_init status=9 (NRT_LOAD_NOT_ENOUGH_NC): Logical Neuron Core(s) not available - "
            f"Requested:{needed} Available:{available} Logical Core size:1"
        )


def _take(core: int) -> int | None:
    folder = options.root() / "cores"
    folder.mkdir(exist_ok=True)
    handle = os.open(folder / str(core), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
    return handle


def place(start: int = -1, count: int = 1) -> list[int]:
    """The cores a model is loaded to, process-relative: round-robin, or from `start` (section 2.1)."""
    global _next  # noqa: PLW0603 - the runtime's counter is per process
    cores = init()
    with _lock:
        if start < 0:
            start = _next % len(cores) if count == 1 else 0
            _next += 1
    if start + count > len(cores):
        raise RuntimeError(
            f"status=9 (NRT_LOAD_NOT_ENOUGH_NC): the model needs cores {start} to {start + count - 1}, "
            f"this process has {len(cores)}"
        )
    return list(range(start, start + count))


@contextmanager
def disable_nrt_load() -> Iterator[None]:
    """Models made or loaded inside are not put on a core, and calls of them return zeros (sections 2.4, 3.1)."""
    before = load_disabled()
    _loading.disabled = True
    try:
        yield
    finally:
        _loading.disabled = before


def load_disabled() -> bool:
    """Whether this thread is inside `disable_nrt_load`."""
    return getattr(_loading, "disabled", False)
