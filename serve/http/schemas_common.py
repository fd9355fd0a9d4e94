"""What the requests have in common: strict types, the fields of sampling, and the parts of every answer."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, model_validator

T = TypeVar("T")
STOPS = 4
STOP_LENGTH = 1000
BIASES = 1024

# What is wrong with a body is said of one place. A list in it may be wrong in a hundred thousand, and to find them all
# would keep everybody else waiting for seconds.
Items = Annotated[list[T], Field(fail_fast=True)]

# JSON Schema counts 1.0 among the integers; strict types alone would not.
Int = Annotated[int, BeforeValidator(lambda value: int(value) if _is_whole(value) else value)]
StopString = Annotated[str, StringConstraints(min_length=1, max_length=STOP_LENGTH)]
TokenId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")]
Bias = Annotated[float, Field(ge=-100, le=100)]
Label = str | None


def _is_whole(value: Any) -> bool:
    return isinstance(value, float) and value.is_integer()


def _few(values: Any) -> Any:
    if isinstance(values, dict) and len(values) > BIASES:
        raise ValueError(f"found {len(values)} entries; at most {BIASES} are accepted")
    return values


class Body(BaseModel):
    """A request, or a part of one: unknown fields are refused, and a string is no number."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _one_unknown_field(cls, fields: Any) -> Any:
        """The first field that is not known stands for all of them."""
        if not isinstance(fields, dict) or len(fields) <= len(cls.model_fields):
            return fields
        unknown = next(name for name in fields if name not in cls.model_fields)
        return {name: value for name, value in fields.items() if name in cls.model_fields or name == unknown}


class StreamOptions(Body):
    """What a stream carries besides the answer."""

    include_usage: bool | None = Field(None, description="one more chunk, with the usage and no choices")
    continuous_usage_stats: bool | None = Field(None, description="the usage so far in every chunk (vLLM)")


class SamplingFields(Body):
    """How tokens are chosen; what is absent or null comes from the checkpoint's generation_config."""

    temperature: float | None = Field(None, ge=0, le=2, description="0 takes the likeliest token")
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: Int | None = Field(None, ge=-1, description="0 and -1 keep all")
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, gt=0, le=100, description="over prompt and answer; 1 is none")
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: Annotated[dict[TokenId, Bias], Field(max_length=BIASES), BeforeValidator(_few)] | None = Field(
        None, description="token id to what is added to its logit"
    )
    seed: Int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: StopString | Annotated[Items[StopString], Field(max_length=STOPS)] | None = Field(
        None, description="the answer ends before the first of these"
    )
    ignore_eos: bool | None = Field(None, description="go on after the checkpoint's own stop tokens")
    stream: bool | None = None

    @property
    def stops(self) -> list[str]:
        """The stop strings, none or more."""
        return [self.stop] if isinstance(self.stop, str) else self.stop or []


class OpenAIFields(SamplingFields):
    """What OpenAI's two completion requests share besides."""

    model: str | None = Field(None, description="the name that /v1/models gives; another one is refused")
    n: Int | None = Field(None, ge=1, le=128, description="answers to the prompt")
    stream_options: StreamOptions | None = None
    user: Label = Field(None, description="a label of the client; changes nothing")

    @model_validator(mode="after")
    def _options_need_a_stream(self) -> OpenAIFields:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options is given without stream; accepted: with stream true")
        return self

    @property
    def include_usage(self) -> bool:
        """Whether a stream ends with the usage."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def continuous_usage(self) -> bool:
        """Whether every chunk has the usage so far."""
        return bool(self.stream_options and self.stream_options.continuous_usage_stats)


class Usage(BaseModel):
    """Tokens; generated ones count for every answer, stop tokens included."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


Finish = Literal["stop", "length", "tool_calls", "content_filter"]
Detail = Literal["timeout"]
DETAIL = Field(None, description="`timeout` when the answer ended with `length` because its time was up")
