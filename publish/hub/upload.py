"""A release folder as one commit on a branch of a Hub repository, on a parent that is known.

The Hub's upload_folder keeps what it finds, and where files are many it makes several commits. Here the commit makes
the branch hold exactly the folder, in one step, on the commit that was compared with: when the branch moved in
between, what is there now is compared again. Large files are sent before, by content, so a run that was killed goes
on where it was.
"""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import CommitOperationDelete

from ledger.errors import BadInput, GateFailed
from publish.hub.client import attempts
from publish.hub.repository import MAIN, Commit, Operation, Repository
from publish.hub.sending import send, survey
from publish.hub.trees import Difference, difference, read_folder


def upload(
    folder: Path,
    repo: str,
    *,
    branch: str,
    parent: str | None = None,
    message: str,
    token: str | None = None,
    endpoint: str | None = None,
) -> Commit:
    """Make `branch` of `repo` hold exactly the files of `folder`, by one commit with `message`, or by none.

    A branch that is missing begins where main is. With `parent` the branch must be at that commit, unless it holds
    the folder already; without it the commit goes onto whatever the branch is at. Other publishers at the same time
    are waited for, a few times.

    Raises BadInput for a folder, repository, branch or token that will not do (`main` is for promotion alone), and
    GateFailed when the Hub does not answer, keeps moving, or holds something else in the end.
    """
    check_branch(branch)
    files = read_folder(folder)
    sent: dict[str, int] = {}
    with Repository(repo, token=token, endpoint=endpoint) as hub:
        for number in attempts():
            head = hub.branch(branch)
            change = difference(files, hub.tree(head))
            if not change:
                return _commit(head, sent, len(files), unchanged=number == 0)
            if parent not in {None, head}:
                raise GateFailed(
                    f"Hub repository {repo}: branch {branch} is at {head}; accepted: {parent}, as --parent says"
                )
            additions = survey(hub, branch, {path: files[path] for path in change.written})
            send(hub, additions)
            sent |= {addition.path: addition.file.bytes for addition in additions if addition.moves}
            operations: list[Operation] = [*deletions(change), *(addition.operation for addition in additions)]
            if made := hub.commit(branch, operations, head, message):
                if difference(files, hub.tree(made)):
                    raise GateFailed(
                        f"Hub repository {repo}: commit {made} on branch {branch} does not hold what {folder} held "
                        "when it was read; accepted: a folder that nobody changes during an upload"
                    )
                return _commit(made, sent, len(files), unchanged=False)
    raise GateFailed(moving(repo, branch))


def check_branch(branch: str) -> None:
    """BadInput for the branch that users pull: only a promotion writes it."""
    if branch == MAIN or branch.startswith("refs/"):
        raise BadInput(f"--branch {branch}: {MAIN} is for promotion alone; accepted: the name of another, as staging")


def deletions(change: Difference) -> list[CommitOperationDelete]:
    """What a commit takes away, to come before what it writes."""
    return [CommitOperationDelete(path, is_folder=False) for path in change.deleted]


def moving(repo: str, branch: str) -> str:
    """The sentence about a branch that others would not leave alone."""
    return (
        f"Hub repository {repo}: branch {branch} moved at every try; accepted: one publisher at a time; run again, "
        "what has arrived is not sent again"
    )


def _commit(oid: str, sent: dict[str, int], files: int, *, unchanged: bool) -> Commit:
    return Commit(oid, len(sent), sum(sent.values()), files - len(sent), unchanged)
