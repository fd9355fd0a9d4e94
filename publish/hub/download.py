"""A revision of a Hub repository as a folder: exactly its files, each checked against the Hub's digest of it.

The library's own download keeps a cache, leaves notes in the folder, starts a file anew after a kill, and believes
sizes. Here the files gather in a hidden folder beside the wanted one, where a later run goes on within a file, and
the folder appears in one step when everything in it has been read and found right.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
from huggingface_hub import hf_hub_url
from huggingface_hub.file_download import http_get

from ledger.atomic import make_folder, sync
from ledger.digest import sha256_bytes
from ledger.errors import BadInput, GateFailed
from publish.hub.client import attempts
from publish.hub.repository import Repository
from publish.hub.trees import Entry, Tree, difference, local_file, read_folder

_AT_ONCE = 4


@dataclass(frozen=True)
class Download:
    """The commit that is in the folder, its number of files and bytes, and the bytes that came for it now."""

    commit: str
    files: int
    bytes: int
    bytes_received: int


def download(
    repo: str, revision: str, into: Path, *, token: str | None = None, endpoint: str | None = None
) -> Download:
    """Make `into` hold exactly the files of `revision` (a branch, tag or commit), but the Hub's own .gitattributes.

    `into` is made; it may also be there if it is empty or holds the revision already. Raises BadInput for a folder
    with other files and for what the repository has not, GateFailed for a file that does not have its digest.
    """
    with Repository(repo, token=token, endpoint=endpoint) as hub:
        commit = hub.resolve(revision)
        tree = hub.tree(commit)
        size = sum(entry.bytes for entry in tree.values())
        if not tree:
            raise BadInput(f"Hub repository {repo}: revision {revision} holds no file; accepted: a release")
        if _holds(into, tree, revision):
            return Download(commit, len(tree), size, 0)
        aside = into.with_name(f".{into.name}.{commit}.partial")
        with _alone(aside):
            received = _gather(hub, commit, tree, aside)
            (aside / "tree").replace(into)
            sync(into.parent)
            shutil.rmtree(aside)
    return Download(commit, len(tree), size, received)


def _holds(into: Path, tree: Tree, revision: str) -> bool:
    if into.is_symlink() or (into.exists() and not into.is_dir()):
        raise BadInput(f"{into} is no folder; accepted: a new or an empty folder")
    if not into.is_dir() or not any(into.iterdir()):
        return False
    if difference(read_folder(into), tree):
        raise BadInput(
            f"{into} holds other files than {revision}; accepted: a new or an empty folder, or that revision"
        )
    return True


@contextmanager
def _alone(aside: Path) -> Iterator[None]:
    """`aside` for this process alone: two that wrote to one file would spoil it."""
    make_folder(aside / "parts")
    with (aside / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BadInput(f"{aside} is being filled by another download; accepted: one at a time") from None
        yield


def _gather(hub: Repository, commit: str, tree: Tree, aside: Path) -> int:
    """Fill `aside`/tree, four files at once; the bytes that came. The first file that fails stops the rest."""
    for folder in {(aside / "tree" / path).parent for path in tree}:
        make_folder(folder)
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        work = [pool.submit(_bring, hub, commit, path, entry, aside) for path, entry in tree.items()]
        return sum(one.result() for one in as_completed(work))
    finally:
        pool.shutdown(cancel_futures=True)


def _bring(hub: Repository, commit: str, path: str, entry: Entry, aside: Path) -> int:
    """Bring one file; the bytes that came for it. What an earlier run left is read before it counts."""
    final, part = aside / "tree" / path, aside / "parts" / sha256_bytes(path.encode())
    if final.is_file() and local_file(final).matches(entry):
        return 0
    received = 0
    # A part that went wrong is fetched anew, once.
    for _ in range(2):
        received += _receive(hub, commit, path, entry, part)
        if (found := local_file(part)).matches(entry):
            sync(part)
            part.replace(final)
            return received
        part.unlink()
    raise GateFailed(
        f"Hub repository {hub.name}, {path} at {commit}: what came has {found.bytes} bytes and sha256 {found.sha256} "
        f"(git blob {found.blob}); accepted: {entry.bytes} bytes and {entry.digest}, as the tree says"
    )


def _receive(hub: Repository, commit: str, path: str, entry: Entry, part: Path) -> int:
    """Append to `part` what it lacks of the file; the bytes that came."""
    url = hf_hub_url(hub.name, path, revision=commit, endpoint=hub.api.endpoint)
    part.touch()
    before = part.stat().st_size
    with hub.asking(f"{path} at {commit}"):
        for _ in attempts():
            there = part.stat().st_size
            if there >= entry.bytes:
                break
            # The library goes on by itself after every other way to be cut off.
            with suppress(httpx.ReadError), part.open("ab") as file:
                http_get(url, file, resume_size=there, headers=hub.headers)
                break
    return part.stat().st_size - before
