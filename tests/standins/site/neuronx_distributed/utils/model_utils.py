"""Stand-in for utils.model_utils; SDK document, section 3.3: modules without values."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def init_on_device(
    device: torch.device, include_buffers: bool = False, force_custom_init_on_device: bool = False
) -> Iterator[None]:
    """Everything that is made inside lands on `device`: on "meta" a loader's own module has no values either."""
    with device:
        yield
