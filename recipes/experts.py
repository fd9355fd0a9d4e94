"""A mixture of experts with static shapes: every expert is computed, and the weights outside the top k are zero.

Departs from the library's router and experts in this, and in nothing else:
- the k best are found by k rounds of taking the largest, in elementary operations: neuronx-cc refuses topk
  (EVRF001), and a gather over experts would be an index that depends on data. Among equals the first wins, where
  torch.topk promises no order;
- all experts' gate and up projections are one matrix [E * 2I, H], and all down projections one matrix [H, E * I]
  that takes the weighted activations of every expert at once: two products and no tensor larger than [N, E * 2I].
  This is the form that a published 26B build is known to have compiled with neuronx-cc;
- experts are divided among ranks, which is a division of the rows of the first and the columns of the second matrix.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from recipes.forms import Form, TanhGelu, linear_of
from recipes.ranks import RowParallel


class DenseRouter(nn.Module):
    """The library's router, whose answer is one weight for every expert: zero where it was not chosen."""

    def __init__(self, router: Any) -> None:
        """Take over the weights of `router`, a Gemma4TextRouter."""
        super().__init__()
        self.norm, self.proj = router.norm, router.proj
        self.scale, self.per_expert_scale = router.scale, router.per_expert_scale
        self._root: float = router.scalar_root_size
        self._count: int = router.config.top_k_experts

    def forward(self, hidden: Tensor) -> tuple[None, Tensor, None]:
        """hidden [N, H], the residual, to weights [N, E] in float32; in the places of the library's three answers."""
        hidden = self.norm(hidden) * self.scale * self._root
        scores = torch.softmax(self.proj(hidden), dim=-1, dtype=torch.float32)
        kept = keep_best(scores, self._count)
        return None, kept / kept.sum(-1, keepdim=True) * self.per_expert_scale.float(), None


class DenseExperts(nn.Module):
    """A rank's experts over all tokens; the sum over ranks is what the library's experts give."""

    def __init__(self, experts: Any, form: Form, tp: int, onehot: nn.Parameter | None) -> None:
        """Take the shape of `experts`, a Gemma4TextExperts; `onehot` [tp] says at run time which rank this is."""
        super().__init__()
        self._count = experts.num_experts // tp
        self._tp = tp
        dtype, width = experts.gate_up_proj.dtype, experts.intermediate_dim
        rows, columns = self._count * 2 * width, self._count * width
        self.gate_up_proj = linear_of(nn.Linear(experts.hidden_dim, rows, bias=False, dtype=dtype), form)
        down = linear_of(nn.Linear(columns, experts.hidden_dim, bias=False, dtype=dtype), form)
        self.down_proj = RowParallel(down, tp) if tp > 1 else down
        self.act_fn = TanhGelu()
        self.onehot = onehot

    def forward(self, hidden: Tensor, _: None, weights: Tensor) -> Tensor:
        """hidden [N, H], normed, and weights [N, E] to the weighted sum [N, H] of what the experts say."""
        if self.onehot is not None:
            # The rank must not be a number of the trace, or every rank would take the first one's share.
            shares = weights.reshape(len(weights), self._tp, self._count)
            weights = (shares * self.onehot[None, :, None]).sum(1)
        gate, up = self.gate_up_proj(hidden).reshape(len(hidden), self._count, 2, -1).unbind(-2)
        said = self.act_fn(gate) * up * weights[..., None]
        # As a batch of one, which is how a layer's other projections come: for an operand of two dimensions XLA:CPU
        # runs the loop over pieces of a row element by element, 20 times slower.
        summed: Tensor = self.down_proj(said.to(hidden.dtype).flatten(-2)[None])
        return summed[0]


def keep_best(scores: Tensor, count: int) -> Tensor:
    """scores [N, E], none negative, with all but the `count` largest of each row at zero; the first of equals wins."""
    places = torch.arange(scores.shape[-1], dtype=torch.float32, device=scores.device)
    kept, left = torch.zeros_like(scores), scores
    for _ in range(count):
        largest = left == left.amax(-1, keepdim=True)
        first = torch.where(largest, places, torch.full_like(places, scores.shape[-1])).amin(-1, keepdim=True)
        taken = places == first
        kept = torch.where(taken, scores, kept)
        left = torch.where(taken, torch.full_like(left, -1.0), left)
    return kept
