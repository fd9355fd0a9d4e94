"""A folder that is asked again: as long as waiting may be of use, and no longer than is said."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectionClosedError

from validate.inf2.clock import Clock
from validate.inf2.folder import Folder
from validate.inf2.patience import PATIENCE, Patient

CUT = ConnectionClosedError(endpoint_url="https://aws.test")


class Flaky(Folder):
    """A folder whose first answers are errors."""

    def __init__(self, errors: list[Exception]) -> None:
        self.address, self.errors, self.asked = "s3://bucket/run", errors, 0

    def read(self, name: str, start: int = 0) -> bytes | None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return name.encode()


def patient(folder: Folder) -> tuple[Patient, list[float]]:
    time = [0.0]

    def sleep(seconds: float) -> None:
        time[0] += seconds

    return Patient(folder, Clock(now=lambda: time[0], sleep=sleep)), time


def test_a_bad_moment_is_waited_for() -> None:
    asked, time = patient(Flaky([CUT] * 10))
    assert asked.read("job.json") == b"job.json"
    assert 60 < time[0] < PATIENCE


def test_it_ends_with_the_last_error() -> None:
    folder = Flaky([CUT] * 1000)
    asked, time = patient(folder)
    with pytest.raises(ConnectionClosedError):
        asked.read("job.json")
    assert PATIENCE < time[0] < PATIENCE + 60
    assert folder.asked > 20


def test_what_is_no_use_waiting_for_is_raised_at_once() -> None:
    denied: Any = {"Error": {"Code": "AccessDenied"}, "ResponseMetadata": {"HTTPStatusCode": 403}}
    asked, time = patient(Flaky([ClientError(denied, "GetObject")]))
    with pytest.raises(ClientError):
        asked.read("job.json")
    assert time[0] == 0
