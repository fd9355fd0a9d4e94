"""What an upload or a promotion would do, file by file and with sizes, without doing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from publish.hub.promote import state
from publish.hub.repository import MAIN, Repository
from publish.hub.sending import survey
from publish.hub.trees import Difference, Tree, difference, read_folder
from publish.hub.upload import check_branch

State = Literal["new", "changed", "deleted", "there"]


@dataclass(frozen=True)
class Move:
    """A file of `bytes`: what becomes of it on the branch, and how many bytes have to be sent for that."""

    path: str
    bytes: int
    state: State
    sent: int


@dataclass(frozen=True)
class Plan:
    """What would become of `branch`, which is at `parent`, or would be made there if `made` says so."""

    repo: str
    branch: str
    parent: str
    made: bool
    moves: tuple[Move, ...]

    @property
    def unchanged(self) -> bool:
        """Whether no commit would be made."""
        return all(move.state == "there" for move in self.moves)

    @property
    def bytes_sent(self) -> int:
        """What would move."""
        return sum(move.sent for move in self.moves)

    def lines(self) -> Iterator[str]:
        """The plan for people: a line a file that changes, then a sum."""
        for move in self.moves:
            if move.state != "there":
                note = "" if move.state == "deleted" else f", {move.sent:,} sent"
                yield f"{move.state:8} {move.path} ({move.bytes:,} bytes{note})"
        there = sum(move.state == "there" for move in self.moves)
        yield (
            f"{self.repo}, branch {self.branch} at {self.parent}{' (would be made)' if self.made else ''}: "
            f"{len(self.moves) - there} files change, {there} are there, {self.bytes_sent:,} bytes would be sent"
        )


def plan_upload(folder: Path, repo: str, *, branch: str, token: str | None = None, endpoint: str | None = None) -> Plan:
    """What `publish.hub.upload.upload` would do now; the token needs the right to write, as the upload's does."""
    check_branch(branch)
    files = read_folder(folder)
    with Repository(repo, token=token, endpoint=endpoint) as hub:
        made = branch not in hub.refs().branches
        # A branch that would be made begins where main is.
        base = MAIN if made else branch
        parent = hub.resolve(base)
        found = hub.tree(parent)
        change = difference(files, found)
        written = {path: files[path] for path in change.written}
        additions = survey(hub, base, written) if written else []
    sent = {addition.path: addition.file.bytes for addition in additions if addition.moves}
    sizes = {path: file.bytes for path, file in files.items()}
    return Plan(repo, branch, parent, made, tuple(_moves(change, sizes, found, sent)))


def plan_promotion(
    repo: str, from_commit: str, *, tag: str, to: str = MAIN, token: str | None = None, endpoint: str | None = None
) -> Plan:
    """What `publish.hub.promote.promote` would do now; BadInput if the tag is taken."""
    with Repository(repo, token=token, endpoint=endpoint) as hub:
        staged = hub.tree(from_commit)
        head, change = state(hub, staged, tag, to)
        found = hub.tree(head)
    sizes = {path: entry.bytes for path, entry in staged.items()}
    sent = {path: sizes[path] for path in change.written if not staged[path].large}
    return Plan(repo, to, head, False, tuple(_moves(change, sizes, found, sent)))


def _moves(change: Difference, sizes: Mapping[str, int], found: Tree, sent: Mapping[str, int]) -> Iterator[Move]:
    states: dict[State, tuple[str, ...]] = {
        "new": change.new,
        "changed": change.changed,
        "deleted": change.deleted,
        "there": change.there,
    }
    for name, paths in states.items():
        for path in paths:
            size = found[path].bytes if name == "deleted" else sizes[path]
            yield Move(path, size, name, sent.get(path, 0))
