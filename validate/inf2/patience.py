"""What a machine has on S3, asked for again while AWS does not answer: its work is worth more than a bad moment."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from validate.inf2.clock import Clock
from validate.inf2.folder import Folder
from validate.inf2.refusals import AWS_ERRORS, hopeless

T = TypeVar("T")

PATIENCE = 900.0
"""Seconds for which AWS may not answer before a caller or a machine gives up."""
_LONGEST_PAUSE = 30.0


@dataclass(frozen=True)
class Patient:
    """A folder that is asked again for PATIENCE seconds; then its error comes through, and a hopeless one at once."""

    folder: Folder
    clock: Clock

    @property
    def address(self) -> str:
        """Where it is."""
        return self.folder.address

    def above(self) -> Patient:
        """The folder that this one is in."""
        return Patient(self.folder.above(), self.clock)

    def read(self, name: str) -> bytes | None:
        """The file; None when there is none."""
        return self._asked(lambda: self.folder.read(name))

    def write(self, name: str, data: bytes) -> None:
        """Write the file, over one that may be there."""
        self._asked(lambda: self.folder.write(name, data))

    def _asked(self, call: Callable[[], T]) -> T:
        began, pause = self.clock.now(), 1.0
        while True:
            try:
                return call()
            except AWS_ERRORS as error:
                if hopeless(error) or self.clock.now() - began > PATIENCE:
                    raise
            self.clock.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
