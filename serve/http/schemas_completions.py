"""`/v1/completions` and `/generate`: requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, model_validator

from serve.http.schemas_common import DETAIL, Detail, Finish, Int, Items, OpenAIFields, SamplingFields, Usage

PROMPTS = 2048


def _whole(ids: Any) -> Any:
    """As `Int` does, for a list at once: a prompt may have many ids, and hardly one of them is written as 1.0."""
    if isinstance(ids, list) and any(type(id_) is float for id_ in ids):
        return [int(id_) if isinstance(id_, float) and id_.is_integer() else id_ for id_ in ids]
    return ids


Ids = Annotated[Items[Annotated[int, Field(ge=0)]], Field(min_length=1), BeforeValidator(_whole)]
Texts = Annotated[Items[str], Field(min_length=1, max_length=PROMPTS)]
IdLists = Annotated[Items[Ids], Field(min_length=1, max_length=PROMPTS)]


class CompletionRequest(OpenAIFields):
    """Prompts to continue as they are; BOS is put in front of text that has none, and never of token ids."""

    prompt: str | Texts | Ids | IdLists
    max_tokens: Int | None = Field(None, ge=0, description="16 when absent; 0 with echo only")
    logprobs: Int | None = Field(None, ge=0, le=20)
    echo: bool | None = Field(None, description="the prompt is part of the text, and of the log-probabilities")
    best_of: Int | None = Field(None, ge=1, le=128, description="the same as n, or absent")
    suffix: None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> CompletionRequest:
        if self.max_tokens == 0 and not self.echo:
            raise ValueError("max_tokens is 0 without echo; accepted: 1 or more, or 0 with echo true")
        if self.best_of is not None and self.best_of != (self.n or 1):
            raise ValueError("best_of differs from n; accepted: the same, or none")
        return self

    @property
    def prompts(self) -> list[str | list[int]]:
        """Each prompt, text or token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        found: list[str | list[int]] = []
        ids: list[int] = []
        for part in self.prompt:
            if isinstance(part, int):
                ids.append(part)
            else:
                found.append(part)
        return found or [ids]


class CompletionLogprobs(BaseModel):
    """One entry per token, prompt tokens first where they are echoed; the first token of all has no log-probability."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None] | None
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One answer; `index` counts the answers of all prompts."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Finish
    finish_detail: Detail | None = DETAIL


class Completion(BaseModel):
    """The answer to a completion request."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage


class GenerateRequest(SamplingFields):
    """One prompt to continue; the route of the predecessor."""

    prompt: str
    max_tokens: Int | None = Field(None, ge=1, description="absent: as many as fit")


class Generated(BaseModel):
    """The answer; in a stream, `text` is the next piece and the last event has `finish_reason` and `usage`."""

    text: str
    finish_reason: Finish
    finish_detail: Detail | None = DETAIL
    usage: Usage
