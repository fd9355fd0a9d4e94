"""Whether config.json is one that the library and the step graph compute alike. Imports transformers when called.

Departs from a schema check: the oracle builds its model from this file, so the library itself is asked, and what
it would fill in by itself (an angle per attention kind) or accept otherwise (another activation) must be as the
step graph spells it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ledger.errors import BadInput

# recipes/stepgraph.py spells this one out.
ACTIVATION = "gelu_pytorch_tanh"
KINDS = ("sliding_attention", "full_attention")
# The full model replaces the embedding of these ids by that of padding or of what was seen or heard.
PLACEHOLDERS = ("image_token_id", "audio_token_id", "video_token_id")


def check_spelt_out(config: Mapping[str, Any], path: Path) -> None:
    """BadInput naming the first key of `path` whose value the step graph does not compute or the encoder cannot use."""
    for key in PLACEHOLDERS:
        found = config.get(key)
        if found is not None and type(found) is not int:
            raise BadInput(f"{path}: {key} is {found!r}; accepted: a token id")
    text = config["text_config"]
    if (activation := text.get("hidden_activation")) != ACTIVATION:
        raise BadInput(f"{path}: text_config.hidden_activation is {activation!r}; accepted: {ACTIVATION!r}")
    rope = text.get("rope_parameters")
    for kind in KINDS:
        found = rope.get(kind) if isinstance(rope, dict) else None
        if not isinstance(found, dict):
            raise BadInput(
                f"{path}: text_config.rope_parameters.{kind} is {found!r}; accepted: a mapping with rope_theta"
            )


def check_library(config: Mapping[str, Any], path: Path) -> None:
    """BadInput naming `path` and the first line of the reason if transformers refuses `config`."""
    # Imported here: it takes seconds, and only the stage fetch asks.
    from transformers import Gemma4Config

    try:
        Gemma4Config(**config)
    except Exception as error:  # nothing narrower: the library's own validators raise many kinds
        raise BadInput(f"{path} is refused by transformers ({_reason(error)}); accepted: its Gemma4Config") from None


def _reason(error: Exception) -> str:
    """The first line of what was said, and the second where the first only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
