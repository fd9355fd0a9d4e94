"""What the Hub has today beside what is pinned: `python -m recipes.hub.upstream CONFIG ... --out FILE`.

A build follows its pins and never notices that the publisher has moved on. This looks, changes nothing, and records
what it finds for the report; what to do about a difference is for a person. So a difference is no failure, and what
could not be asked is unknown, with the reason, and never taken for unchanged. No receipt: what a network says today is
no function of what a build is made from.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from typing import TypeGuard

from httpx import HTTPError
from huggingface_hub import HfApi, ModelInfo, constants
from huggingface_hub.errors import RevisionNotFoundError

from config.loading import load
from config.models import Checkpoint
from config.sources import HubSource
from ledger.atomic import write_json
from ledger.errors import run_cli
from ledger.flags import Parser, check_file
from ledger.stage import say
from recipes.fetch import WANTED
from recipes.hub.findings import LARGEST, Content, Difference, Upstream, Watched
from recipes.hub.refusals import refusal
from recipes.hub.source import TIMEOUT


def look(checkpoint: Checkpoint, api: HfApi) -> Watched:
    """What became of a checkpoint's source: its pinned commit beside the head of the repository's default branch."""
    source = checkpoint.source
    if not isinstance(source, HubSource):
        return Watched(state="unwatched", reason=f"source.kind is {source.kind}, which pins no commit of the Hub")
    try:
        return _compared(checkpoint, source, api)
    # An answer that is no listing of a repository raises whatever the client stumbles over.
    except (HTTPError, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        # What was answered may stand in it, and need not be text that can be written.
        reason = str(refusal(error, source)).encode(errors="backslashreplace").decode()
        return Watched(state="unknown", repo=source.repo, pinned=source.revision, reason=reason)


def differences(pinned: Mapping[str, Content], head: Mapping[str, Content]) -> tuple[Difference, ...]:
    """Every file that is in one of two listings only, or in both with another content; by name."""
    return tuple(
        Difference(name=name, pinned=pinned.get(name), head=head.get(name), fetched=_fetched(name))
        for name in sorted(pinned.keys() | head.keys())
        if pinned.get(name) != head.get(name)
    )


def _compared(checkpoint: Checkpoint, source: HubSource, api: HfApi) -> Watched:
    head = api.model_info(source.repo, timeout=TIMEOUT, files_metadata=True)
    if not _is_hex(head.sha, 40):
        raise ValueError(f"the Hub tells no commit but {_shown(head.sha)}")
    known = Watched(state="same", repo=source.repo, pinned=source.revision, head=head.sha)
    if head.sha == source.revision:
        return known
    try:
        pinned = api.model_info(source.repo, revision=source.revision, timeout=TIMEOUT, files_metadata=True)
    except RevisionNotFoundError:
        return known.model_copy(update={"state": "gone"})
    if pinned.sha != source.revision:
        raise ValueError(f"the Hub answers with {_shown(pinned.sha)}")
    files = differences(_listed(pinned), _listed(head))
    return known.model_copy(update={"state": "changed", "files": files, "reason": _licence(head, checkpoint.licence)})


def _listed(info: ModelInfo) -> dict[str, Content]:
    if info.siblings is None:
        raise ValueError(f"the Hub lists no files of {info.sha}")
    found = {}
    for one in info.siblings:
        digest = one.lfs.sha256 if one.lfs else one.blob_id
        if not _is_text(one.rfilename):
            raise ValueError(f"the Hub lists a file with the name {_shown(one.rfilename)}")
        if not _is_hex(digest, 64 if one.lfs else 40) or type(one.size) is not int or not 0 <= one.size <= LARGEST:
            raise ValueError(f"the Hub lists {_shown(one.rfilename)} without digest or size")
        found[one.rfilename] = Content(digest=digest, bytes=one.size)
    return found


def _is_hex(value: object, letters: int) -> TypeGuard[str]:
    return isinstance(value, str) and re.fullmatch(rf"[0-9a-f]{{{letters}}}", value) is not None


def _is_text(value: object) -> bool:
    # JSON can say half of a surrogate pair, which no file can hold.
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)


def _shown(value: object) -> str:
    return ascii(value)[:80]


def _licence(head: ModelInfo, configured: str) -> str | None:
    found = head.card_data.get("license") if head.card_data else None
    if str(found).lower() == configured.lower():
        return None
    return f"its licence is {found!r} there, configured is {configured!r}"


def _fetched(name: str) -> bool:
    return "/" not in name and any(fnmatch(name, pattern) for pattern in WANTED)


def main() -> int:
    """The command; 0 also when something differs, as that is a finding."""
    parser = Parser("upstream", "Compares the pinned commits of a configuration with the heads of their repositories.")
    parser.add_argument(
        "config", nargs="+", type=Path, metavar="CONFIG", help="configuration, merged as snakemake does"
    )
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the findings go, as JSON")
    flags = parser.parse_args()
    check_file("--out", flags.out)
    factory, api = load(*flags.config), HfApi()
    found = Upstream(
        asked=datetime.now(UTC).isoformat(timespec="seconds"),
        endpoint=constants.ENDPOINT,
        checkpoints={name: look(checkpoint, api) for name, checkpoint in factory.checkpoints.items()},
    )
    for name, one in found.checkpoints.items():
        say(f"upstream: {one.sentence(name)}")
    write_json(flags.out, found.model_dump(mode="json"))
    return 0


if __name__ == "__main__":
    run_cli(main)
