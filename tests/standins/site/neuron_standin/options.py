"""Environment switches of the stand-ins: faults to inject, and answers to what the documentation leaves open."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


def choice(name: str, accepted: tuple[str, ...]) -> str:
    """The value of a switch; the first of `accepted` when it is not set; ValueError for another one."""
    value = os.environ.get(name) or accepted[0]
    if value not in accepted:
        raise ValueError(f"{name} is {value!r}; accepted: {', '.join(accepted)}")
    return value


def devices() -> int:
    """STANDIN_DEVICES: Inferentia2 chips on this host (default 1), two NeuronCores each; 0 is a host without."""
    return int(os.environ.get("STANDIN_DEVICES") or "1")


def root() -> Path:
    """STANDIN_ROOT: the folder with the locks of this pretended host; by default one per user."""
    named = os.environ.get("STANDIN_ROOT")
    folder = Path(named) if named else Path(tempfile.gettempdir()) / f"neuron-standin-{os.getuid()}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def aliased_outputs_returned() -> bool:
    """STANDIN_ALIASED_OUTPUTS=stripped|returned: whether a plain trace returns its states too (section 2.2, open)."""
    return choice("STANDIN_ALIASED_OUTPUTS", ("stripped", "returned")) == "returned"


def host_writes_reach() -> bool:
    """STANDIN_HOST_WRITES=reach|lost: whether writes to loaded state reach the graph (section 3.6 point 2, open)."""
    return choice("STANDIN_HOST_WRITES", ("reach", "lost")) == "reach"


def cpu_trace_needs_device() -> bool:
    """STANDIN_CPU_TRACE=works|needs-device: whether trace(cpu_backend=True) opens one (section 11 point 1, open)."""
    return choice("STANDIN_CPU_TRACE", ("works", "needs-device")) == "needs-device"
