"""One point of the matrix: the static shapes and the placement of one pair of graphs (prefill and decode)."""

from typing import Any, Literal, Self, cast, get_args

from pydantic import Field, ValidationInfo, field_validator, model_validator

from config.base import Name, Strict, as_tuple
from config.builders import DEFAULTS, Builder, refusal
from config.flags import flags_refusal

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
    builder: Builder = Field(
        # None is how it may be given and never what is read: the validator below puts a builder in its place.
        default=cast("Builder", None),
        validate_default=True,
        description="what compiles them; null: xla for cpu, on inf2 trace for a cache on the host and nxd for one on "
        "the device",
    )
    flags: tuple[str, ...] = Field(
        default=(),
        description="more words for the compiler, a list: XLA's options for cpu, such as "
        "xla_cpu_prefer_vector_width=256, and neuronx-cc's flags for inf2, such as -O1",
    )

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

    @field_validator("builder", mode="before")
    @classmethod
    def _default_builder(cls, builder: Any, info: ValidationInfo) -> Any:
        # Without a valid target and kv there is an error to report already, and it is not the builder's.
        target, kv = info.data.get("target", "cpu"), info.data.get("kv", "device")
        return DEFAULTS[target, kv].builder if builder is None else builder

    @field_validator("flags", mode="before")
    @classmethod
    def _list_becomes_tuple(cls, flags: Any) -> tuple[Any, ...]:
        return as_tuple(flags, "a list of flags")

    @model_validator(mode="after")
    def _can_be_built(self) -> Self:
        said = refusal(
            self.builder, target=self.target, kv=self.kv, tp=self.tp, batch=self.batch, kv_bucket=self.kv_bucket
        ) or flags_refusal(self.target, self.flags)
        if said:
            raise ValueError(said)
        return self

    @property
    def size(self) -> tuple[int, int]:
        """(kv_max, kv_bucket): variants of one size share prompts and oracle."""
        return self.kv_max, self.kv_bucket
