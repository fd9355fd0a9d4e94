"""A checkpoint from the Hub: the pinned commit, whole and checked, in the client library's own cache.

Departs from `snapshot_download`: licence and room are looked at before the first large file, a download goes on where
it stopped, and the content of every file, the cached ones included, is compared with the digest that the Hub lists for
it: the sha256 of a large file, the git blob id of a regular one. The library keeps what it always keeps, so a
checkpoint that it has already is not fetched again, and HF_HUB_OFFLINE=1 works on a cache that is whole.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

from httpx import HTTPError
from huggingface_hub import HfApi, ModelInfo, constants, snapshot_download
from huggingface_hub.errors import HFValidationError, RevisionNotFoundError
from huggingface_hub.hf_api import RepoSibling

from config.sources import HubSource
from ledger.errors import BadInput
from recipes.hub.refusals import refusal
from recipes.hub.transfer import Listed, blob, digest_of, partial, receive

TIMEOUT = constants.HF_HUB_ETAG_TIMEOUT
DIGEST = r"[0-9a-f]{40}([0-9a-f]{24})?"


def obtain(source: HubSource, licence: str, patterns: Iterable[str]) -> tuple[Path, dict[str, str]]:
    """The folder that holds the files of `source` that match `patterns`, and the Hub's digest of each.

    Only files at the top of the repository. BadInput, one sentence for each kind of reason: no network, a gated, a
    disabled or a vanished repository, an unknown revision or token, another licence, no room, a file that is not what
    the Hub lists, an incomplete cache when offline.
    """
    try:
        if constants.is_offline_mode():
            folder = _assembled(source, patterns)
            digests = {
                path.name: path.resolve().name for path in sorted(folder.iterdir()) if _wanted(path.name, patterns)
            }
        else:
            files = _listed(source, licence, patterns)
            _check_room(files, source)
            for file in files:
                receive(file, source)
            folder, digests = _assembled(source, patterns), {file.name: file.digest for file in files}
    except (HTTPError, OSError, HFValidationError) as error:
        raise refusal(error, source) from None
    for name, digest in digests.items():
        check(folder / name, digest)
    return folder, digests


def check(path: Path, digest: str) -> None:
    """BadInput, and the file removed from the cache, if its content does not have the digest that the Hub lists."""
    if re.fullmatch(DIGEST, digest) is None:
        raise BadInput(f"{path} is no link to a blob named by its digest; accepted: a cache as the hub client makes it")
    if (found := digest_of(path, digest)) != digest:
        path.resolve().unlink()
        kind = "sha256" if len(digest) == 64 else "git blob id"
        raise BadInput(f"{path} has {kind} {found} and is removed; accepted: {digest}, as the Hub lists it")


def _listed(source: HubSource, licence: str, patterns: Iterable[str]) -> list[Listed]:
    """What the Hub lists at the pinned commit, whose licence is the configured one."""
    api = HfApi()
    try:
        info = api.model_info(source.repo, revision=source.revision, timeout=TIMEOUT, files_metadata=True)
    except RevisionNotFoundError:
        main = api.model_info(source.repo, timeout=TIMEOUT).sha
        raise BadInput(
            f"source.revision {source.revision} is no commit of {source.repo}, whose main is at {main}; "
            "accepted: a commit that the repository still has"
        ) from None
    if info.sha != source.revision:
        raise BadInput(f"source.revision {source.revision} of {source.repo} names {info.sha}; accepted: a commit")
    _check_licence(info, licence, source)
    return [_file(one) for one in info.siblings or () if _wanted(one.rfilename, patterns)]


def _file(one: RepoSibling) -> Listed:
    digest = one.lfs.sha256 if one.lfs else one.blob_id
    # It becomes the name of a file here.
    if digest is None or one.size is None or re.fullmatch(DIGEST, digest) is None:
        raise BadInput(f"{one.rfilename} is listed with digest {digest!r}; accepted: a sha256, or a git blob id")
    return Listed(one.rfilename, digest, one.size)


def _check_licence(info: ModelInfo, accepted: str, source: HubSource) -> None:
    found = info.card_data.get("license") if info.card_data else None
    if str(found).lower() != accepted.lower():
        raise BadInput(
            f"source.repo {source.repo} at revision {source.revision} has the licence {found!r} in its metadata; "
            f"accepted: {accepted!r}, as configured under licence"
        )


def _check_room(files: list[Listed], source: HubSource) -> None:
    cache = Path(constants.HF_HUB_CACHE)
    cache.mkdir(parents=True, exist_ok=True)
    missing = [file for file in files if not blob(file, source).exists()]
    kept = sum(path.stat().st_size for path in (partial(file, source) for file in missing) if path.exists())
    needed, free = sum(file.bytes for file in missing) - kept, shutil.disk_usage(cache).free
    if needed > free:
        raise BadInput(
            f"{cache} has room for {free:,} bytes; accepted: {needed:,}, which {source.repo} still needs there "
            "(HF_HOME names another folder)"
        )


def _assembled(source: HubSource, patterns: Iterable[str]) -> Path:
    """The library's own folder of the commit: links to blobs that are there already."""
    return Path(
        snapshot_download(
            source.repo,
            revision=source.revision,
            allow_patterns=list(patterns),
            ignore_patterns=["*/*"],
            local_files_only=constants.is_offline_mode(),
        )
    )


def _wanted(name: str, patterns: Iterable[str]) -> bool:
    return "/" not in name and any(fnmatch(name, pattern) for pattern in patterns)
