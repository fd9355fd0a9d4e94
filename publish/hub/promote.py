"""A staged commit becomes the release: its tree as one commit on main, compared entry by entry, and a tag.

Nothing is merged and nothing large moves: LFS objects are in the repository, and small files are copied from the
staged commit. Whether a commit may be promoted is not decided here but by publish.promotion, which has pulled it
back and checked it; this is its last step, and so no command line leads here.
"""

from __future__ import annotations

from huggingface_hub import CommitOperationCopy

from ledger.errors import BadInput, GateFailed
from publish.hub.client import attempts
from publish.hub.repository import MAIN, Commit, Repository, is_commit, tag_taken
from publish.hub.trees import Difference, Tree, difference
from publish.hub.upload import deletions, moving


def promote(
    repo: str,
    from_commit: str,
    *,
    tag: str,
    to: str = MAIN,
    message: str | None = None,
    token: str | None = None,
    endpoint: str | None = None,
) -> Commit:
    """Make branch `to` hold exactly the tree of `from_commit`, by one commit or by none, and put `tag` on it.

    A second run finds the tree and the tag and changes nothing; one that was cut off goes on. Raises BadInput when
    the tag is on another commit already (tags never move), and as `publish.hub.upload.upload` does otherwise.
    """
    if not is_commit(from_commit):
        raise BadInput(f"staged commit {from_commit!r}: a branch or tag could move; accepted: a full commit id")
    with Repository(repo, token=token, endpoint=endpoint) as hub:
        staged = hub.tree(from_commit)
        done = _bring(hub, staged, from_commit, tag, to, message or f"Release {tag}")
        if difference(staged, hub.tree(done.oid)):
            raise GateFailed(
                f"Hub repository {repo}: commit {done.oid} on branch {to} is not the tree of {from_commit}; accepted: "
                "the same files, sizes and digests; it is not tagged"
            )
        hub.tag(tag, done.oid)
    return done


def state(hub: Repository, staged: Tree, tag: str, to: str) -> tuple[str, Difference]:
    """The commit that branch `to` is at, and what it lacks of `staged`; BadInput if the tag is taken."""
    refs = hub.refs()
    if to not in refs.branches:
        raise BadInput(f"Hub repository {hub.name} has no branch {to}; accepted: {', '.join(sorted(refs.branches))}")
    head = refs.branches[to]
    change, tagged = difference(staged, hub.tree(head)), refs.tags.get(tag)
    if tagged is not None and (change or tagged != head):
        raise BadInput(tag_taken(hub.name, tag, tagged, "another release"))
    return head, change


def _bring(hub: Repository, staged: Tree, from_commit: str, tag: str, to: str, message: str) -> Commit:
    for number in attempts():
        head, change = state(hub, staged, tag, to)
        if not change:
            return Commit(head, 0, 0, len(staged), unchanged=number == 0)
        copies = [CommitOperationCopy(path, path, src_revision=from_commit) for path in change.written]
        if made := hub.commit(to, [*deletions(change), *copies], head, message):
            small = [staged[path].bytes for path in change.written if not staged[path].large]
            return Commit(made, len(small), sum(small), len(staged) - len(small), unchanged=False)
    raise GateFailed(moving(hub.name, to))
