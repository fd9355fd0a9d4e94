"""The server on a socket that a chat talks to."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from tests.serve.chat.plain import Plain


@pytest.fixture
def plain() -> Iterator[Plain]:
    made = Plain()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()
