"""Faults on purpose, by request site, and the log of every request that came in.

A site is one route and method of the Hub: tests loop over `SITES`. What can happen there (`Fault`):

    status N    the answer is N at once and nothing was done (429 and 503 with Retry-After)
    "before"    the connection closes before the request is looked at
    "request"   the connection closes in the middle of the request's body
    "after"     the work is done, and the connection closes before the answer: the caller cannot know
    "answer"    the connection closes in the middle of the answer's body
    "stall"     nothing more comes after the middle of the answer's body, until the caller leaves
    "whole"     the Range header is not heeded
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from threading import Lock
from typing import Literal

Cut = Literal["before", "request", "after", "answer", "stall", "whole"]

UPLOAD_SITES = (
    "create_repo",
    "validate_yaml",
    "branch",
    "preupload",
    "lfs_batch",
    "lfs_put",
    "lfs_part",
    "lfs_complete",
    "lfs_verify",
    "commit",
    "tag",
)
DOWNLOAD_SITES = ("refs", "repo_info", "tree", "resolve_head", "file_head", "file_get", "storage_get")
OTHER_SITES = (
    "whoami",
    "auth_check",
    "commits",
    "paths_info",
    "resolve_get",
    "delete_branch",
    "delete_tag",
    "delete_repo",
)
SITES = UPLOAD_SITES + DOWNLOAD_SITES + OTHER_SITES
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Fault:
    """What happens at a site: `how`, after how many bytes of the body if it is cut, and the headers of a status."""

    how: int | Cut
    at: int | None = None
    retry_after: int = 0


@dataclass
class Exchange:
    """One request: bytes of the bodies received and sent; status 0 when the connection was cut before an answer."""

    site: str
    method: str
    path: str
    range: str | None
    authorized: bool
    status: int = 0
    received: int = 0
    sent: int = 0


@dataclass
class Watch:
    """The faults that are still to come and the requests that were."""

    log: list[Exchange] = field(default_factory=list)
    _faults: dict[str, deque[Fault]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fail(self, site: str, fault: Fault, times: int, skip: int) -> None:
        """Plan a fault for the next `times` requests at `site`, after `skip` that pass."""
        if site not in SITES:
            raise ValueError(f"site is {site!r}; accepted: {', '.join(SITES)}")
        passes = [Fault(0)] * skip
        with self._lock:
            self._faults.setdefault(site, deque()).extend([*passes, *[fault] * times])

    def clear(self) -> None:
        """Forget the faults that did not come yet."""
        with self._lock:
            self._faults.clear()

    @property
    def pending(self) -> dict[str, int]:
        """How many faults each site still has."""
        with self._lock:
            return {site: len(faults) for site, faults in self._faults.items() if faults}

    def take(self, site: str) -> Fault | None:
        """The fault for a request that just came in, if there is one."""
        with self._lock:
            faults = self._faults.get(site)
            fault = faults.popleft() if faults else None
        return fault if fault and fault.how != 0 else None
