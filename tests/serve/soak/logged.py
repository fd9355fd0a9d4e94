"""A server whose log is read: a pipe that nobody empties stops whoever writes to it after some hundred requests."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.serve.http.process import Server, server


@contextmanager
def logged(folder: Path, *flags: str) -> Iterator[Server]:
    """As `server`, for many requests; it is killed at the end, and its log is gone."""
    with server(folder, *flags) as running:
        log = running.process.stderr
        assert log is not None
        reader = threading.Thread(target=lambda: [None for _ in log])
        reader.start()
        try:
            yield running
        finally:
            running.process.kill()
            reader.join()
