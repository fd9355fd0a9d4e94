"""The demo checkpoint's model: the library's own class at a tiny geometry, made to train quickly.

Departs from the library's initialisation in four places. `layer_scalar` is far from 1 and differs per layer,
as in the official files: a loader that forgets the buffer must show. The key norms start at head_dim**-0.5,
because Gemma's attention scale is 1.0 and unit norms would start training with saturated softmaxes (the
official files hold 0.12 there). Matrices start at a deviation of hidden_size**-0.5, as the configured 0.02 is
for wide models and costs a minute's training a tenth of a nat. Routers of experts start decided, with scores that
differ by about one: near-equal ones would let rounding choose the experts, which no trained router does; and their
scales per expert are far from 1, so that a build without them must show.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as library_logging

from ledger.digest import parse_json
from ledger.errors import BadInput
from recipes.kinds import kind_of

LAYER_SCALARS = (0.375, 0.8125, 0.5, 0.65625, 0.40625, 0.75, 0.5625, 0.703125, 0.453125)


def new_model(config: Mapping[str, Any], seed: int) -> Any:
    """An untrained float32 ForConditionalGeneration of this config.json's kind; seeds torch's global generator."""
    kind = kind_of(config, "config.json")
    torch.manual_seed(seed)
    with quiet_library():
        typed = kind.config().from_dict(dict(config))
        model = kind.full_model()._from_config(typed, dtype=torch.float32, attn_implementation="sdpa")
    text = model.model.language_model
    with torch.no_grad():
        for parameter in text.parameters():
            if parameter.ndim > 1:
                parameter.mul_(text.config.hidden_size**-0.5 / text.config.initializer_range)
        for index, layer in enumerate(text.layers):
            layer.layer_scalar.fill_(LAYER_SCALARS[index % len(LAYER_SCALARS)])
            attention = layer.self_attn
            if not attention.is_kv_shared_layer:
                attention.k_norm.weight.fill_(attention.head_dim**-0.5)
            if getattr(layer, "enable_moe_block", False):
                layer.router.proj.weight.mul_(text.config.hidden_size**0.5)
                layer.router.per_expert_scale.uniform_(0.5, 1.5)
    return model


def load_model(folder: Path) -> Any:
    """The checkpoint in `folder` through `from_pretrained`, computed in float32 from the stored bfloat16.

    BadInput if the library misses a tensor, meets one it does not know (decoys are known to it) or of another shape.
    """
    path = folder / "config.json"
    full_model = kind_of(parse_json(path.read_bytes(), str(path)), str(path)).full_model()
    with quiet_library():
        model, info = full_model.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", output_loading_info=True
        )
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if keys := sorted(map(str, info[kind])):
            raise BadInput(f"{folder}: transformers reports {kind} {keys[:3]}; accepted: none")
    return model


def next_token_loss(model: Any, rows: torch.Tensor) -> torch.Tensor:
    """Mean cross-entropy in nats of predicting rows[:, 1:] from what precedes; `rows` is [B, L + 1] token ids."""
    text = model.model.language_model
    cap = text.config.final_logit_softcapping
    hidden = text(input_ids=rows[:, :-1], use_cache=False).last_hidden_state
    # The division by the cap is done on the narrow side of the product: [B, L, H], not [B, L, V].
    logits = cap * torch.tanh(torch.nn.functional.linear(hidden / cap, text.embed_tokens.weight))
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten())


@contextmanager
def quiet_library() -> Iterator[None]:
    """No progress bars and no warnings of transformers inside."""
    verbosity, bars = library_logging.get_verbosity(), library_logging.is_progress_bar_enabled()
    library_logging.set_verbosity_error()
    library_logging.disable_progress_bar()
    try:
        yield
    finally:
        library_logging.set_verbosity(verbosity)
        if bars:
            library_logging.enable_progress_bar()
