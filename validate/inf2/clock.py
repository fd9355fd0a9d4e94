"""Time as a run sees it, so that a test can have an hour pass in no time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """Seconds since 1970, a way to let some pass, and a number between 0 and 1 by which callers get out of step."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep
    jitter: Callable[[], float] = random.random
