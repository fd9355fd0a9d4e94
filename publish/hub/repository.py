"""One repository of the Hub: its branches, tags and trees, and the three ways to change it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Literal, Self

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.hf_api import RepoFile
from huggingface_hub.utils._headers import build_hf_headers

from ledger.errors import BadInput, GateFailed
from publish.hub.client import attempts, patient
from publish.hub.errors import sentences
from publish.hub.trees import OWN, Entry, check_remote

Operation = CommitOperationAdd | CommitOperationCopy | CommitOperationDelete
MAIN = "main"
_COMMIT_DIGITS = 40


@dataclass(frozen=True)
class Refs:
    """Commit by branch and by tag."""

    branches: dict[str, str]
    tags: dict[str, str]


@dataclass(frozen=True)
class Commit:
    """What an upload or a promotion ended with.

    `oid` is the commit that the branch is at; `unchanged` tells that it was there before and none was made.
    `files_sent` and `bytes_sent` are what moved to the Hub, `skipped` the files whose content it had.
    """

    oid: str
    files_sent: int
    bytes_sent: int
    skipped: int
    unchanged: bool


class Repository:
    """The repository `name` (OWNER/NAME), as a context: within it the library's client is the patient one.

    Without `token` and `endpoint` the library's usual places count: HF_TOKEN or the token file, and HF_ENDPOINT.
    Every method raises BadInput or GateFailed with one sentence.
    """

    def __init__(self, name: str, *, token: str | None = None, endpoint: str | None = None) -> None:
        self.name = name
        self.api = HfApi(endpoint=endpoint, token=token)
        self._patient = patient()

    def __enter__(self) -> Self:
        self._patient.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._patient.__exit__(None, None, None)

    @property
    def headers(self) -> dict[str, str]:
        """What the library sends with every request, the token among it."""
        return build_hf_headers(token=self.api.token)

    def asking(self, what: str) -> AbstractContextManager[None]:
        """Within it, what the library raises becomes a sentence about `what`."""
        return sentences(self.name, what)

    def refs(self) -> Refs:
        """All branches and tags as they are now."""
        with self.asking("its branches and tags"):
            found = self.api.list_repo_refs(self.name)
        return Refs(*({ref.name: ref.target_commit for ref in refs} for refs in (found.branches, found.tags)))

    def resolve(self, revision: str) -> str:
        """The commit that a branch, tag or full commit id names; BadInput for anything else."""
        if is_commit(revision):
            return revision
        refs = self.refs()
        found = {commits[revision] for commits in (refs.branches, refs.tags) if revision in commits}
        if len(found) != 1:
            known = ", ".join(sorted({*refs.branches, *refs.tags})) or "none"
            problem = "is a branch and a tag" if found else "is not known"
            raise BadInput(
                f"Hub repository {self.name}: revision {revision!r} {problem}; accepted: a commit in {_COMMIT_DIGITS} "
                f"hex digits, or one of: {known}"
            )
        return found.pop()

    def tree(self, commit: str) -> dict[str, Entry]:
        """Every file of `commit` by path, but the Hub's own .gitattributes."""
        with self.asking(f"the tree of {commit}"):
            listed = list(self.api.list_repo_tree(self.name, recursive=True, revision=commit))
        files = [item for item in listed if isinstance(item, RepoFile) and item.path != OWN]
        for file in files:
            check_remote(self.name, file.path)
        return {
            file.path: Entry(file.size, f"sha256:{file.lfs.sha256}" if file.lfs else f"blob:{file.blob_id}")
            for file in sorted(files, key=lambda file: file.path)
        }

    def branch(self, name: str) -> str:
        """The commit that branch `name` is at; a branch that is missing is made where main is."""
        return self._listed("branch", name, partial(self.api.create_branch, self.name, branch=name, exist_ok=True))

    def commit(self, branch: str, operations: Sequence[Operation], parent: str, message: str) -> str | None:
        """Make one commit on `branch`, which must still be at `parent`; None when it is not, or is being changed."""
        with self.asking(f"a commit on branch {branch}"):
            try:
                made = self.api.create_commit(
                    self.name, operations, commit_message=message, revision=branch, parent_commit=parent
                )
            except HfHubHTTPError as error:
                # 412: the branch moved. 409: "another commit operation is in progress".
                if error.response.status_code in {409, 412}:
                    return None
                raise
        return made.oid

    def tag(self, name: str, commit: str) -> None:
        """Make the tag unless it is there on this commit. BadInput if it is on another: tags never move."""
        create = partial(self.api.create_tag, self.name, tag=name, revision=commit, exist_ok=True)
        if (found := self._listed("tag", name, create)) != commit:
            raise BadInput(tag_taken(self.name, name, found, commit))

    def _listed(self, kind: Literal["branch", "tag"], name: str, create: Callable[[], None]) -> str:
        """The commit of a branch or tag, which is made if it is missing.

        Of two that make it at once one is told that it is there, and both read on.
        """
        for _ in attempts():
            refs = self.refs()
            if found := (refs.branches if kind == "branch" else refs.tags).get(name):
                return found
            with self.asking(f"a new {kind} {name}"):
                create()
        raise GateFailed(f"Hub repository {self.name}: the {kind} {name} was made and is not listed; accepted: listed")


def is_commit(revision: str) -> bool:
    """Whether it is a full commit id, which no later push can move."""
    return len(revision) == _COMMIT_DIGITS and set(revision) <= set("0123456789abcdef")


def tag_taken(repo: str, tag: str, found: str, commit: str) -> str:
    """The sentence about a tag that is somewhere else."""
    return (
        f"Hub repository {repo}: tag {tag} is on commit {found}, and tags never move; accepted: a new tag for {commit}"
    )
