"""One point of the matrix: the static shapes and the placement of one pair of graphs (prefill and decode)."""

from typing import Any, Literal, get_args

from pydantic import Field, ValidationInfo, field_validator

from config.base import Name, Strict

Target = Literal["cpu", "inf2"]
DType = Literal["float32", "bfloat16"]
Kv = Literal["device", "host"]
# Degrees the Neuron SDK supports on inf2 (libraries/nxd-inference/developer_guides/feature-guide.rst).
TensorParallel = Literal[1, 2, 4, 8, 24]


class Variant(Strict):
    """What is built, validated and published under one tag."""

    name: Name = Field(description="tag of the variant: small letters, digits, dots and dashes")
    kv_max: int = Field(ge=2, description="rows of the KV cache: the limit of prompt plus answer, in tokens")
    kv_bucket: int = Field(
        ge=1, description="tokens of one prefill call, at most kv_max; longer prompts take several calls"
    )
    tp: TensorParallel = Field(default=1, description="tensor parallel degree; must divide the attention heads")
    slim: bool = Field(
        default=False,
        description="for hosts with little memory: the host holds the embedding tables and no model",
    )
    batch: int = Field(
        default=1, ge=1, le=64, description="slots: sequences that decode in one step; prefill takes one at a time"
    )
    dtype: DType = Field(default="float32", description="dtype of the graph's weights, activations and cache")
    kv: Kv = Field(default="device", description="where the cache lives between steps: device (aliased) or host")
    target: Target = Field(default="cpu", description="what the graphs are compiled for")

    # pydantic's Literal compares with ==, for which true is 1.
    @field_validator("tp", mode="before")
    @classmethod
    def _tp_is_a_number(cls, tp: Any) -> Any:
        if isinstance(tp, bool | float):
            raise ValueError(f"found {tp!r}; accepted: {', '.join(map(str, get_args(TensorParallel)))}")
        return tp

    @field_validator("kv_bucket")
    @classmethod
    def _bucket_fits(cls, kv_bucket: int, info: ValidationInfo) -> int:
        kv_max = info.data.get("kv_max")
        if kv_max is not None and kv_bucket > kv_max:
            raise ValueError(f"found {kv_bucket}; accepted: 1 to {kv_max}, the variant's kv_max")
        return kv_bucket

    @property
    def size(self) -> tuple[int, int]:
        """(kv_max, kv_bucket): variants of one size share prompts and oracle."""
        return self.kv_max, self.kv_bucket
