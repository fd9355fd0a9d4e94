"""The oracle: transformers' own Gemma 4 in float32, with its own cache, its own masks and its own `generate`.

It shares no code with the builds it judges. What it departs from is the published generation settings, in that it is
greedy; suppressed ids and stop ids stay as generation_config.json has them. Float32 weights are the stored bfloat16
ones, widened without loss.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForMultimodalLM
from transformers.utils import logging as transformers_logging

from ledger.errors import BadInput

# Tensors that published files hold for layers which read another layer's keys and values; no model uses them.
_DECOY = re.compile(r"^model\.language_model\.layers\.(\d+)\.self_attn\.(k_proj|v_proj|k_norm)\.weight$")
_ROWS = 256


@dataclass(frozen=True, slots=True)
class Picks:
    """Greedy choices [n]: token, its logit, the gap to the next best logit; suppressed ids do not compete."""

    tokens: list[int]
    tops: list[float]
    gaps: list[float]


class OracleModel:
    """A loaded checkpoint that answers greedily."""

    def __init__(self, folder: Path, *, threads: int) -> None:
        """Load `folder` in float32 and check that every tensor found its place.

        Raises BadInput for a missing, surplus or misshapen tensor.
        """
        torch.set_num_threads(threads)
        transformers_logging.disable_progress_bar()
        # The library chooses the class by config.json: gemma4 or gemma4_unified.
        model, info = AutoModelForMultimodalLM.from_pretrained(
            folder,
            dtype=torch.bfloat16,
            attn_implementation="sdpa",
            output_loading_info=True,
            local_files_only=True,
        )
        self.model = _widened(model).eval()
        self.text_config = model.config.get_text_config()
        _check_loading(info, self._shared_layers(), folder)
        greedy = copy.deepcopy(model.generation_config)
        # None: left to `generate`, which warns about sampling values that a greedy run does not use.
        greedy.update(do_sample=False, temperature=None, top_k=None, top_p=None)
        endless = copy.deepcopy(greedy)
        endless.eos_token_id = None
        self._settings = {True: greedy, False: endless}
        self.bos: int = model.generation_config.bos_token_id
        self._suppressed = torch.tensor(greedy.suppress_tokens or [], dtype=torch.long)

    def _shared_layers(self) -> frozenset[int]:
        layers = self.text_config.num_hidden_layers
        return frozenset(range(layers - self.text_config.num_kv_shared_layers, layers))

    @torch.inference_mode()
    def generate(self, ids: Sequence[int], *, max_new: int, stop: bool) -> Picks:
        """The greedy answer to `ids`, at most `max_new` tokens, ended by a stop id if `stop`."""
        # `generate` reads unset values from here: only the model's own settings can say "no stop id".
        self.model.generation_config = self._settings[stop]
        prompt = torch.tensor([list(ids)])
        made = self.model.generate(
            input_ids=prompt,
            # Left to itself, the library takes every padding id inside a prompt for padding and hides it.
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=max_new,
            return_dict_in_generate=True,
            output_scores=True,
        )
        tokens = made.sequences[0, len(ids) :]
        scores = torch.cat(made.scores)
        picks = _picks(scores)
        if not torch.equal(scores.gather(1, tokens[:, None])[:, 0], scores.amax(1)):
            raise AssertionError("generate chose a token that does not have the best score")
        return Picks(tokens.tolist(), picks.tops, picks.gaps)

    @torch.inference_mode()
    def forced(self, ids: Sequence[int], *, start: int = 0) -> Picks:
        """The choice after each of `ids[start:]` from one forward without a cache, with eager attention."""
        return _joined([_picks(self._suppress(rows)) for rows in self._logits(ids, start)])

    @torch.inference_mode()
    def scored(self, ids: Sequence[int]) -> tuple[Picks, list[float | None]]:
        """`forced` from the first id, and the log-probability of each id but the first; a suppressed id has none."""
        picks: list[Picks] = []
        logprobs: list[float | None] = []
        following = torch.tensor(ids[1:])
        for rows in self._logits(ids, 0):
            allowed = self._suppress(rows)
            picks.append(_picks(allowed))
            targets, following = following[: len(rows)], following[len(rows) :]
            found = allowed.log_softmax(-1)[: len(targets)].gather(1, targets[:, None])[:, 0]
            logprobs += [None if value == -math.inf else value for value in _rounded(found)]
        return _joined(picks), logprobs

    @torch.inference_mode()
    def last_logits(self, ids: Sequence[int]) -> torch.Tensor:
        """Logits [V] after the last of `ids`, after the soft-cap, nothing suppressed, without a cache."""
        return next(self._logits(ids, len(ids) - 1))[-1]

    def _logits(self, ids: Sequence[int], start: int) -> Iterator[torch.Tensor]:
        """Logits [n, V] after ids[start:], in parts: those of a long window are gigabytes at 262,144 ids."""
        self.model.model.language_model.set_attn_implementation("eager")
        try:
            out = self.model.model(input_ids=torch.tensor([list(ids)]), use_cache=False)
        finally:
            self.model.model.language_model.set_attn_implementation("sdpa")
        cap = self.text_config.final_logit_softcapping
        for rows in out.last_hidden_state[0, start:].split(_ROWS):
            logits = self.model.lm_head(rows)
            yield logits if cap is None else torch.tanh(logits / cap) * cap

    def _suppress(self, logits: torch.Tensor) -> torch.Tensor:
        return logits.index_fill(-1, self._suppressed, -torch.inf)


class _WideRows(nn.Module):
    """A scaled embedding whose table stays bfloat16: rows are cast up as they are looked up, then scaled in float32."""

    def __init__(self, narrow: Any) -> None:
        super().__init__()
        self.weight = narrow.weight
        self.scale = torch.tensor(narrow.scalar_embed_scale, dtype=torch.float32)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Rows [.., width] of `ids` in float32, bit-equal to those of a float32 table."""
        return nn.functional.embedding(ids, self.weight).float() * self.scale


def _widened(model: Any) -> Any:
    """The text part of `model` in float32, with its two tables left as stored: full size then fits 24 GB."""
    text = model.model.language_model
    for tower in ("vision_tower", "audio_tower", "embed_vision", "embed_audio"):
        setattr(model.model, tower, None)
    vocabulary, width = text.embed_tokens.weight.shape
    head = nn.Linear(width, vocabulary, bias=False, device="meta")
    head.weight = nn.Parameter(text.embed_tokens.weight.detach().float(), requires_grad=False)
    model.lm_head = head
    text.embed_tokens = _WideRows(text.embed_tokens)
    if hasattr(text, "embed_tokens_per_layer"):
        text.embed_tokens_per_layer = _WideRows(text.embed_tokens_per_layer)
    for module in (text.layers, text.norm, text.rotary_emb):
        module.float()
    for name in ("per_layer_model_projection", "per_layer_projection_norm"):
        if hasattr(text, name):
            getattr(text, name).float()
    return model


def _picks(logits: torch.Tensor) -> Picks:
    """Choices from logits [n, V]."""
    values, ids = logits.topk(2)
    gaps = values[:, 0] - values[:, 1]
    return Picks(ids[:, 0].tolist(), _rounded(values[:, 0]), _rounded(gaps))


def _joined(parts: Sequence[Picks]) -> Picks:
    return Picks(
        [token for part in parts for token in part.tokens],
        [top for part in parts for top in part.tops],
        [gap for part in parts for gap in part.gaps],
    )


def _rounded(values: torch.Tensor) -> list[float]:
    return [round(value, 6) for value in values.tolist()]


def _check_loading(info: dict[str, list[str]], shared: frozenset[int], folder: Path) -> None:
    surplus = [key for key in info["unexpected_keys"] if not ((match := _DECOY.match(key)) and int(match[1]) in shared)]
    for what, keys in (
        ("missing", info["missing_keys"]),
        ("unexpected", surplus),
        ("of another shape", info["mismatched_keys"]),
        ("not loaded", info["error_msgs"]),
    ):
        if keys:
            raise BadInput(
                f"{folder}: {len(keys)} tensors are {what} for the oracle, first {min(map(str, keys))}; "
                "accepted: every tensor of the model, and besides only k_proj, v_proj and k_norm of layers "
                "that read another layer's keys and values"
            )
