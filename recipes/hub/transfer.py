"""One file of a Hub repository into the client library's cache, going on where an earlier run or connection stopped.

Departs from the library, which since 1.0 throws an incomplete file away when the process ends, and of a connection
that is cut up to 10 MiB: every byte that came is kept in `<blob>.incomplete`, and the next request asks for the rest
with Range (RFC 9110, section 14). The file takes its final name, its digest, once its content has it. It is not synced
to the disk: whoever takes a file from the cache reads it and compares its digest.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass
from pathlib import Path

from httpx import TransportError
from huggingface_hub import constants, get_session, hf_hub_url, hf_raise_for_status
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.file_download import repo_folder_name
from huggingface_hub.utils._fixes import WeakFileLock
from huggingface_hub.utils._headers import build_hf_headers

from config.sources import HubSource
from ledger.digest import sha256_file
from ledger.errors import BadInput
from ledger.stage import say

TRIES = 5  # in a row that bring nothing
LONGEST_WAIT = 60  # seconds, whatever Retry-After says
TRANSIENT = frozenset({408, 429, 500, 502, 503, 504})
_CHUNK = 4 << 20


@dataclass(frozen=True)
class Listed:
    """A file as the Hub lists it: its sha256 if it is a large one, its git blob id if not, and its size."""

    name: str
    digest: str
    bytes: int


def digest_of(path: Path, like: str) -> str:
    """The digest of a file's content, of the kind of `like`: hex sha256, or the sha1 of a git blob."""
    if len(like) == 64:
        return sha256_file(path)
    digest = hashlib.sha1(b"blob %d\0" % path.stat().st_size)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def blob(file: Listed, source: HubSource) -> Path:
    """Where the library's cache keeps this content."""
    folder = repo_folder_name(repo_id=source.repo, repo_type="model")
    return Path(constants.HF_HUB_CACHE, folder, "blobs", file.digest)


def partial(file: Listed, source: HubSource) -> Path:
    """Where the content is while it is not whole."""
    return blob(file, source).with_name(f"{file.digest}.incomplete")


def receive(file: Listed, source: HubSource) -> None:
    """Have the content of `file` in the cache.

    BadInput, and nothing kept, if what came has another digest; OSError or httpx.HTTPError, and what came kept, when
    the Hub refuses or the connection does not come back.
    """
    final, incomplete = blob(file, source), partial(file, source)
    lock = final.parents[2] / ".locks" / final.parents[1].name / f"{file.digest}.lock"
    for folder in (final.parent, lock.parent):
        folder.mkdir(parents=True, exist_ok=True)
    with WeakFileLock(lock):
        if final.exists():
            return
        _complete(file, source, incomplete)
        if (found := digest_of(incomplete, file.digest)) != file.digest:
            incomplete.unlink()
            raise BadInput(
                f"{file.name} of {source.repo} came with digest {found} and is not kept; "
                f"accepted: {file.digest}, as the Hub lists it at revision {source.revision}"
            )
        incomplete.replace(final)


def _complete(file: Listed, source: HubSource, incomplete: Path) -> None:
    incomplete.touch()
    fruitless = 0
    while (have := incomplete.stat().st_size) != file.bytes:
        if have > file.bytes:
            os.truncate(incomplete, 0)
            have = 0
        say(f"fetch: {file.name}, {file.bytes:,} bytes" + (f", from byte {have:,}" if have else ""))
        try:
            _receive(file, source, incomplete, have)
            return
        except (TransportError, HfHubHTTPError) as error:
            fruitless = 0 if incomplete.stat().st_size > have else fruitless + 1
            if fruitless == TRIES or not _transient(error):
                raise
            time.sleep(_wait(error, fruitless))


def _receive(file: Listed, source: HubSource, incomplete: Path, have: int) -> None:
    """Append the rest of the file from byte `have` on; a server that sends all of it again starts it anew."""
    url = hf_hub_url(source.repo, file.name, revision=source.revision)
    headers = build_hf_headers() | {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    timeout = constants.HF_HUB_DOWNLOAD_TIMEOUT
    with get_session().stream("GET", url, headers=headers, timeout=timeout) as response:
        hf_raise_for_status(response)
        with incomplete.open("ab" if response.status_code == 206 else "wb") as out:
            for chunk in response.iter_raw():
                out.write(chunk)


def _transient(error: Exception) -> bool:
    return not isinstance(error, HfHubHTTPError) or error.response.status_code in TRANSIENT


def _wait(error: Exception, fruitless: int) -> float:
    asked = error.response.headers.get("Retry-After", "") if isinstance(error, HfHubHTTPError) else ""
    return min(int(asked), LONGEST_WAIT) if asked.isdecimal() else min(2.0**fruitless, LONGEST_WAIT)
