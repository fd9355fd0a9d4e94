"""What a look at the Hub may have found, one of each kind."""

from __future__ import annotations

import json
from typing import Any

from recipes.hub.findings import Upstream

PINNED, HEAD = "1" * 40, "2" * 40
SAME = {"state": "same", "repo": "me/same", "pinned": PINNED, "head": PINNED}
MOVED = {
    "state": "changed",
    "repo": "me/<i>moved</i>",
    "pinned": PINNED,
    "head": HEAD,
    "reason": "its licence is 'gemma' there, configured is 'apache-2.0'",
    "files": [
        {
            "name": "model.safetensors",
            "pinned": {"digest": "a" * 64, "bytes": 10_000_000_000},
            "head": {"digest": "b" * 64, "bytes": 10_500_000_000},
            "fetched": True,
        },
        {"name": "<b>new</b>", "pinned": None, "head": {"digest": "c" * 40, "bytes": 12}, "fetched": False},
        {"name": "old.json", "pinned": {"digest": "d" * 40, "bytes": 7}, "head": None, "fetched": False},
    ],
}
GONE = {"state": "gone", "repo": "me/gone", "pinned": PINNED, "head": HEAD}
UNKNOWN = {"state": "unknown", "repo": "me/gated", "pinned": PINNED, "reason": "me/gated is gated; accepted: a token"}
UNWATCHED = {"state": "unwatched", "reason": "source.kind is path, which pins no commit of the Hub"}


def upstream(**checkpoints: dict[str, Any]) -> Upstream:
    """Findings of these checkpoints."""
    text = json.dumps({"asked": "2026-01-02T03:04:05+00:00", "endpoint": "https://hub", "checkpoints": checkpoints})
    return Upstream.model_validate_json(text)
