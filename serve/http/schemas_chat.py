"""`/v1/chat/completions`: the request as this server supports it, and its answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints, model_validator

from serve.http.schemas_common import DETAIL, Body, Detail, Finish, Int, Items, Label, OpenAIFields, Usage

TOOLS = 128  # as in OpenAI's API
Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:/-]{1,64}$")]


class TextPart(Body):
    """A part of a message; images and audio are not supported."""

    type: Literal["text"]
    text: str


class FunctionCall(Body):
    """A function with the JSON text of its arguments."""

    name: Name
    arguments: str


class ToolCall(Body):
    """A call that the model made in an earlier turn."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall
    index: Int | None = None


class Message(Body):
    """A turn of the chat."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Items[TextPart] | None = None
    name: Label = None
    tool_calls: Items[ToolCall] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = Field(None, description="thoughts of an earlier turn, for templates that use them")
    refusal: None = None

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and not (self.role == "assistant" and self.tool_calls):
            raise ValueError(f"a message of role {self.role} has no content; text is accepted")
        return self


class Function(Body):
    """A function that the model may call."""

    name: Name
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: Literal[False] | None = None


class Tool(Body):
    """A tool; functions are the only kind."""

    type: Literal["function"]
    function: Function


class ResponseFormat(Body):
    """Plain text is the only format."""

    type: Literal["text"]


class TemplateArguments(Body):
    """What the chat template is told."""

    enable_thinking: bool | None = None


class ChatRequest(OpenAIFields):
    """A chat to continue. Fields of OpenAI's API that are not here are refused by name."""

    messages: Items[Message] = Field(min_length=1)
    max_tokens: Int | None = Field(None, ge=1, description="absent: as many as fit")
    max_completion_tokens: Int | None = Field(None, ge=1, description="the newer name of max_tokens")
    logprobs: bool | None = None
    top_logprobs: Int | None = Field(None, ge=0, le=20)
    tools: Annotated[Items[Tool], Field(max_length=TOOLS)] | None = None
    tool_choice: Literal["none", "auto"] | None = None
    parallel_tool_calls: bool | None = Field(None, description="false ends the answer after its first call")
    response_format: ResponseFormat | None = None
    reasoning_effort: Literal["none"] | None = Field(None, description="the same as enable_thinking false")
    chat_template_kwargs: TemplateArguments | None = None
    metadata: dict[str, str] | None = Field(None, description="labels of the client; change nothing")
    safety_identifier: Label = None
    prompt_cache_key: Label = None
    store: Literal[False] | None = None
    service_tier: Literal["auto", "default"] | None = None

    @model_validator(mode="after")
    def _fields_agree(self) -> ChatRequest:
        if self.top_logprobs is not None and not self.logprobs:
            raise ValueError("top_logprobs is given without logprobs; accepted: with logprobs true")
        if None not in (self.max_tokens, self.max_completion_tokens) and self.max_tokens != self.max_completion_tokens:
            raise ValueError("max_tokens and max_completion_tokens differ; accepted: one of them")
        if self.thinking and self.reasoning_effort == "none":
            raise ValueError("reasoning_effort none and enable_thinking true differ; accepted: one of them")
        return self

    @property
    def limit(self) -> int | None:
        """The most tokens of an answer."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def limit_name(self) -> str:
        """The field that `limit` came from."""
        return "max_tokens" if self.max_completion_tokens is None else "max_completion_tokens"

    @property
    def thinking(self) -> bool:
        """Whether the model is to think first."""
        return bool(self.chat_template_kwargs and self.chat_template_kwargs.enable_thinking)

    @property
    def offered(self) -> list[dict[str, Any]]:
        """The tools as the chat template takes them."""
        if self.tool_choice == "none":
            return []
        return [tool.model_dump(exclude_none=True) for tool in self.tools or ()]


class TopLogprob(BaseModel):
    """A token that could have been chosen; a log-probability below -9999 is given as -9999."""

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """A token of the answer's content."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """One entry per token of the content."""

    content: list[TokenLogprob] | None
    refusal: None = None


class AnswerCall(BaseModel):
    """A call that the model makes."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class AnswerMessage(BaseModel):
    """The model's turn."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    reasoning_content: str | None = Field(None, description="the thinking channel, where the model used it")
    tool_calls: list[AnswerCall] | None = None


class ChatChoice(BaseModel):
    """One answer."""

    index: int
    message: AnswerMessage
    logprobs: ChatLogprobs | None
    finish_reason: Finish
    finish_detail: Detail | None = DETAIL


class ChatCompletion(BaseModel):
    """The answer to a chat request."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
