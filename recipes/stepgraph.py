"""The step graph: Hugging Face's own Gemma 4 text model, with the little that static shapes need.

Departs from `Gemma4ForCausalLM` in this, and in nothing else:
- embeddings come in as inputs (host tables), so the model has no table on the device;
- the cache writes rows into fixed buffers through 0/1 selectors that the host computes: no dynamic index;
- masks come in as inputs, one per attention kind; the lowest finite value stands for "hidden";
- only the last real token of a chunk reaches the head;
- tanh-GELU is spelled out in elementary operations (in float32, rounded once);
- every expert of a mixture is computed, as `recipes.experts` says: the library's loop goes over data;
- every weight is an argument of the graph, buffers (`layer_scalar`, RoPE frequencies) included;
- a rank program is the same model at a rank's share of heads, MLP columns and experts, with an all-reduce after
  o_proj, down_proj and the experts, and the head's columns gathered by an all-reduce of disjoint parts.
Shared layers read their donor's rows as live tensors of the graph, through the library's `shared_kv_states`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from recipes.experts import DenseExperts, DenseRouter
from recipes.forms import Form, TanhGelu, linear_of
from recipes.kinds import kind_of_text
from recipes.ranks import RowParallel, all_reduce, rank_config
from serve.manifest import DType, Parameter

FULL, SLIDING = "full_attention", "sliding_attention"
TORCH: dict[DType, torch.dtype] = {"float32": torch.float32, "bfloat16": torch.bfloat16, "int32": torch.int32}
DTYPES: dict[torch.dtype, DType] = {value: key for key, value in TORCH.items()}
HEAD, RANK = "lm_head.weight", "rank.onehot"


def weight_name(module_name: str) -> str:
    """The graph's name of a tensor of `StepGraph`: the checkpoint's, less `model.language_model.`."""
    return {"head": HEAD, "rank": RANK}.get(module_name, module_name.removeprefix("text.").replace(".linear.", "."))


class StaticCache:
    """KV buffers of the owning layers for one step; `update` is what the library's attention calls."""

    def __init__(self, state: dict[str, Tensor], selectors: dict[int, Tensor], slot: Tensor | None) -> None:
        """`state` maps k.N / v.N to [B, K, R, d]; `selectors` maps layer to [b, 1, R, T], 1 where row takes token.

        With `slot`, a one-hot [B], one sequence (b = 1) works in that slot of the state; without, all B do.
        """
        self.state = dict(state)
        self._selectors = selectors
        self._chosen = None if slot is None else slot[:, None, None, None].bool()

    def update(self, key: Tensor, value: Tensor, layer: int, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Write T new rows and return the working sequences' whole buffers [b, K, R, d]."""
        return self._write(f"k.{layer}", key, layer), self._write(f"v.{layer}", value, layer)

    def _write(self, name: str, new: Tensor, layer: int) -> Tensor:
        selector, old = self._selectors[layer], self.state[name]
        rows = new if new.shape[2] == 1 else selector @ new
        taken = selector.sum(-1, keepdim=True).bool()
        if self._chosen is None:
            self.state[name] = torch.where(taken, rows, old)
            return self.state[name]
        self.state[name] = torch.where(self._chosen & taken, rows, old)
        mine = torch.where(self._chosen, old, torch.zeros_like(old)).sum(0, keepdim=True)
        return torch.where(taken, rows, mine)


class StepGraph(nn.Module):
    """One rank's step at a fixed batch and width; parameters live on the meta device and are given at call time."""

    def __init__(self, text_config: dict[str, Any], tp: int, dtype: DType, form: Form) -> None:
        """Build from config.json's text_config; with tp > 1 this is any one rank's program."""
        super().__init__()
        self.config = rank_config(text_config, tp)
        self.ple_width: int = text_config.get("hidden_size_per_layer_input") or 0
        self.tp, self.form, self.dtype = tp, form, TORCH[dtype]
        with torch.device("meta"):
            text = kind_of_text(text_config).text_model()(self.config).to(self.dtype)
            # As in the library: a frequency rounded to bfloat16 puts position 1,000 off by a radian.
            text.rotary_emb.float()
            self.head = nn.Parameter(
                torch.empty(self.config.vocab_size // tp, self.config.hidden_size, dtype=self.dtype)
            )
            if tp > 1:
                self.rank = nn.Parameter(torch.empty(tp, dtype=torch.float32))
        del text.embed_tokens
        if self.ple_width:
            del text.embed_tokens_per_layer
        text.config._attn_implementation = "neff_grouped" if form.grouped_attention else "eager"
        for layer in text.layers:
            self._adapt(layer)
        self.text = text.eval()

    def _adapt(self, layer: Any) -> None:
        """Put the target's forms, the all-reduces and the dense experts into one of the library's layers."""
        attention, mlp, tp = layer.self_attn, layer.mlp, self.tp
        for owner, names in ((attention, ("q_proj", "k_proj", "v_proj")), (mlp, ("gate_proj", "up_proj"))):
            for name in names:
                # Layers that share K and V have no projections of their own, and those with K = V no v_proj.
                if linear := getattr(owner, name, None):
                    setattr(owner, name, linear_of(linear, self.form))
        for owner, name in ((attention, "o_proj"), (mlp, "down_proj")):
            linear = linear_of(getattr(owner, name), self.form)
            setattr(owner, name, RowParallel(linear, tp) if tp > 1 else linear)
        mlp.act_fn = TanhGelu()
        if self.ple_width:
            layer.act_fn = TanhGelu()
        if getattr(layer, "enable_moe_block", False):
            layer.router = DenseRouter(layer.router)
            with torch.device("meta"):
                layer.experts = DenseExperts(layer.experts, self.form, tp, self.rank if tp > 1 else None)

    def owners(self) -> list[int]:
        """Layers that own a KV buffer."""
        return [i for i, layer in enumerate(self.text.layers) if not layer.self_attn.is_kv_shared_layer]

    def weights(self) -> Iterator[Parameter]:
        """Every parameter and buffer of the graph, under its checkpoint name where it has one."""
        for name, tensor in (*self.named_parameters(), *self.named_buffers()):
            if not name.endswith("_original_inv_freq"):
                yield Parameter(
                    name=weight_name(name),
                    role="weight",
                    shape=tuple(tensor.shape),
                    dtype=DTYPES[tensor.dtype],
                )

    def weight_names(self) -> Iterator[str]:
        """Module names of `weights`, in the same order."""
        for name, _ in (*self.named_parameters(), *self.named_buffers()):
            if not name.endswith("_original_inv_freq"):
                yield name

    def inputs(self, batch: int, tokens: int, kv_max: int, ring: int, slots: int = 1) -> Iterator[Parameter]:
        """What the host computes for one step of `tokens` positions in each of `batch` sequences.

        With `slots` > `batch` = 1 the sequence is in one slot of a larger state, and `slot` says in which.
        """
        config, dtype = self.config, DTYPES[self.dtype]

        def real(name: str, *shape: int) -> Parameter:
            return Parameter(name=name, role="input", shape=(batch, *shape), dtype=dtype)

        yield real("inputs_embeds", tokens, config.hidden_size)
        if self.ple_width:
            yield real("per_layer_inputs", tokens, config.num_hidden_layers, self.ple_width)
        yield Parameter(name="position_ids", role="input", shape=(batch, tokens), dtype="int32")
        for kind, rows in (("full", kv_max), ("sliding", ring)):
            yield real(f"{kind}_mask", 1, tokens, rows)
            yield real(f"{kind}_select", 1, rows, tokens)
        if tokens > 1:
            yield real("last", tokens)
        if slots > batch:
            yield Parameter(name="slot", role="input", shape=(slots,), dtype=dtype)

    def states(self, batch: int, kv_max: int, ring: int) -> Iterator[Parameter]:
        """Key and value buffers [B, kv heads of the rank, rows, head size] of the owning layers."""
        for layer in self.owners():
            attention = self.text.layers[layer].self_attn
            heads = attention.k_proj.out_features // attention.head_dim
            shape = (batch, heads, ring if attention.is_sliding else kv_max, attention.head_dim)
            for kind in ("k", "v"):
                yield Parameter(name=f"{kind}.{layer}", role="state", shape=shape, dtype=DTYPES[self.dtype])

    def forward(self, inputs: dict[str, Tensor], state: dict[str, Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
        """Logits [B, V] float32 of the last real token, and the new state under the same names."""
        kinds = self.config.layer_types
        selector = {FULL: inputs["full_select"], SLIDING: inputs["sliding_select"]}
        cache = StaticCache(state, {i: selector[kinds[i]] for i in self.owners()}, inputs.get("slot"))
        hidden = self.text(
            inputs_embeds=inputs["inputs_embeds"],
            **({"per_layer_inputs": inputs["per_layer_inputs"]} if self.ple_width else {}),
            position_ids=inputs["position_ids"],
            attention_mask={FULL: inputs["full_mask"], SLIDING: inputs["sliding_mask"]},
            past_key_values=cache,
            use_cache=True,
        ).last_hidden_state
        if "last" in inputs:
            hidden = inputs["last"][:, None, :] @ hidden
        return self._logits(hidden[:, 0]), cache.state

    def _logits(self, hidden: Tensor) -> Tensor:
        logits = (hidden @ self.head.t()).float()
        if self.tp > 1:
            parts = self.rank[None, :, None] * logits[:, None, :]
            logits = all_reduce(parts, self.tp).reshape(len(logits), -1)
        cap = self.config.final_logit_softcapping
        return logits if cap is None else torch.tanh(logits / cap) * cap
