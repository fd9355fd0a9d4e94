"""The same mathematics in the form that one target runs best; the step graph asks for parts, the target chooses.

What XLA:CPU wants beyond this is done on its own module (`recipes.cpu_dots`), so that the HLO for another target
never sees it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS


@dataclass(frozen=True)
class Form:
    """How the same mathematics is written for one target.

    `grouped` attention multiplies the queries of a KV head's group in one product instead of repeating K and V.
    A bfloat16 Linear with more inputs than `longest_contraction` becomes a float32 sum of products over pieces.
    """

    grouped_attention: bool
    longest_contraction: int | None


FORMS = {
    "cpu": Form(grouped_attention=True, longest_contraction=3072),
    # The form that published builds are known to have compiled with neuronx-cc 2.23.
    "inf2": Form(grouped_attention=False, longest_contraction=None),
}


def linear_of(linear: nn.Linear, form: Form) -> nn.Module:
    """`linear` as the target wants it: as it is, or in pieces."""
    longest = form.longest_contraction
    if longest is None or linear.weight.dtype != torch.bfloat16 or linear.in_features <= longest:
        return linear
    return PiecewiseLinear(linear, longest)


class PiecewiseLinear(nn.Module):
    """A Linear [out, in] as a float32 sum of products with contiguous pieces of its columns, each its own weight."""

    def __init__(self, linear: nn.Linear, longest: int) -> None:
        super().__init__()
        fewest = -(-linear.in_features // longest)
        count = next(n for n in range(fewest, linear.in_features + 1) if linear.in_features % n == 0)
        self.width, self.out_features = linear.in_features // count, linear.out_features
        shape = (linear.out_features, self.width)
        self.pieces = nn.ParameterList(
            nn.Parameter(torch.empty(shape, device="meta", dtype=linear.weight.dtype)) for _ in range(count)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x [.., in] to [.., out] in the dtype of x."""
        parts = torch.split(x, self.width, dim=-1)
        products = [(part @ piece.t()).float() for part, piece in zip(parts, self.pieces, strict=True)]
        return torch.stack(products).sum(0).to(x.dtype)


class TanhGelu(nn.Module):
    """GELU, tanh approximation (Hendrycks & Gimpel, arXiv:1606.08415), in elementary operations."""

    def forward(self, x: Tensor) -> Tensor:
        """Elementwise, computed in float32 and rounded once to the dtype of `x`."""
        y = x.float()
        inner = math.sqrt(2.0 / math.pi) * (y + 0.044715 * y * y * y)
        return (0.5 * y * (1.0 + torch.tanh(inner))).to(x.dtype)


def grouped_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor,
    scaling: float,
    **_: Any,
) -> tuple[Tensor, None]:
    """Eager attention without repeated K and V: query [B, H, T, d], key and value [B, K, R, d], mask [B, 1, T, R]."""
    batch, heads, tokens, width = query.shape
    kv_heads, rows = key.shape[1:3]
    grouped = query.reshape(batch, kv_heads, heads // kv_heads * tokens, width)
    scores = (grouped @ key.transpose(2, 3) * scaling).reshape(batch, heads, tokens, rows) + attention_mask
    weights = torch.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    output = weights.reshape(batch, kv_heads, heads // kv_heads * tokens, rows) @ value
    return output.reshape(batch, heads, tokens, width).transpose(1, 2).contiguous(), None


ALL_ATTENTION_FUNCTIONS.register("neff_grouped", grouped_attention)
