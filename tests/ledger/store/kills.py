"""python -m tests.ledger.store.kills BUCKET PREFIX FOLDER MOMENT: record an action, and die by SIGKILL on the way.

MOMENT is `request:N`, before the N-th request to S3, or `bytes:N`, once N bytes have been sent, which tears what is
under way. A moment that never comes ends in peace.
"""

from __future__ import annotations

import http.client
import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ledger.receipts import Receipt
from ledger.store.asked import Asked
from ledger.store.remote import Bucket
from ledger.store.shared import SharedStore

KEY = "ab" * 32
PART = 5 << 20  # the least that S3 takes
LARGE = bytes(range(256)) * (PART // 256 * 2 + 1000)
_PIECE = 1 << 16


def record(store: SharedStore) -> Receipt:
    """What is done when it is killed: a file in three parts, a small one, what was asked, and the record."""
    outputs = {"weights": store.put_bytes(LARGE), "graph": store.put_bytes(b"graph")}
    known: dict[str, Any] = {"stage": "lower", "key": KEY, "recipe": {}, "inputs": {}, "toolchain": {}, "source": ""}
    store.ask(Asked(**known))
    return store.record_action(Receipt(**known, outputs=outputs, facts={}, measured={}, verdict="done"))


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _before_request(bucket: Bucket, last: int) -> None:
    count = itertools.count(1)

    def look(**_: object) -> None:
        if next(count) == last:
            _die()

    bucket._client.meta.events.register("before-send.s3", look)


def _after_bytes(last: int) -> None:
    send, sent = http.client.HTTPConnection.send, itertools.count(0, _PIECE)

    def torn(connection: http.client.HTTPConnection, data: Any) -> None:
        data = data.read() if hasattr(data, "read") else data
        for start in range(0, len(data), _PIECE):
            send(connection, data[start : start + _PIECE])
            if len(data) > _PIECE and next(sent) >= last:
                _die()

    http.client.HTTPConnection.send = torn  # type: ignore[method-assign, assignment]


def main(name: str, prefix: str, folder: Path, moment: str) -> None:
    bucket = Bucket(name, prefix, part=PART)
    kind, _, number = moment.partition(":")
    if kind == "request":
        _before_request(bucket, int(number))
    else:
        _after_bytes(int(number))
    record(SharedStore(folder, bucket))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), sys.argv[4])
