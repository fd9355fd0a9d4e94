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
from recipes.kinds import kind_of

# recipes/stepgraph.py spells the activation out, shards no bias, and has masks that look back only: "vision" looks
# ahead inside an image, "all" everywhere.
SPELT_OUT: dict[str, tuple[Any, ...]] = {
    "hidden_activation": ("gelu_pytorch_tanh",),
    "attention_bias": (False, None),
    "use_bidirectional_attention": ("vision", None),
}
# What the classes of the 12B do not have, and a configuration may state all the same.
NOT_UNIFIED = ("hidden_size_per_layer_input", "enable_moe_block", "num_experts")
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
    for key, accepted in SPELT_OUT.items():
        if (found := text.get(key)) not in accepted:
            raise BadInput(f"{path}: text_config.{key} is {found!r}; accepted: {' or '.join(map(repr, accepted))}")
    for key in NOT_UNIFIED if config.get("model_type") == "gemma4_unified" else ():
        if found := text.get(key):
            raise BadInput(
                f"{path}: text_config.{key} is {found!r}; accepted: 0 or nothing, as in every gemma4_unified"
            )
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
    accepted = kind_of(config, str(path)).config()
    try:
        accepted(**config)
    except Exception as error:  # nothing narrower: the library's own validators raise many kinds
        raise BadInput(
            f"{path} is refused by transformers ({_reason(error)}); accepted: its {accepted.__name__}"
        ) from None


def _reason(error: Exception) -> str:
    """The first line of what was said, and the second where the first only announces it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
