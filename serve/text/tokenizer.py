"""Text in, ids out: the checkpoint's tokenizer, chat template and sampling defaults, loaded once per artifact."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from serve.errors import ServeError
from serve.text.channels import Channels
from serve.text.defaults import Defaults
from serve.text.messages import Message
from serve.text.pieces import Pieces
from serve.text.reader import Reader, ends_in_thought
from serve.text.stops import Stops
from serve.text.template import ChatTemplate


class Text:
    """Everything the server knows about text; it holds no state of requests and may be used by several threads."""

    def __init__(self, tokenizer: Tokenizer, pieces: Pieces, template: ChatTemplate | None, bos: int | None) -> None:
        """Put together what `from_files` reads; `bos` begins a raw prompt."""
        self._tokenizer = tokenizer
        self._template = template
        self._bos = bos
        self.pieces = pieces
        self.defaults = Defaults()

    @classmethod
    def from_files(
        cls,
        tokenizer: Path,
        tokenizer_config: Path,
        chat_template: Path | None = None,
        generation_config: Path | None = None,
    ) -> Text:
        """Read the files of a checkpoint; ServeError names the file that is missing or is not what it should be.

        A base checkpoint has no chat template; without generation_config the defaults filter nothing.
        """
        try:
            loaded = Tokenizer.from_file(str(tokenizer))
        except Exception as error:  # nothing narrower: tokenizers raises Exception itself
            raise ServeError(f"{tokenizer} is no tokenizer ({error}); a tokenizer.json is accepted") from None
        loaded.no_truncation()
        loaded.no_padding()
        settings = _object(tokenizer_config)
        # transformers hands all of them to the chat template by these names.
        named = {name: _token(value) for name, value in settings.items() if name.endswith("_token")}
        tokens = {name: token for name, token in named.items() if token is not None}
        template = None if chat_template is None else ChatTemplate(_read(chat_template), tokens, str(chat_template))
        bos = loaded.token_to_id(tokens["bos_token"]) if "bos_token" in tokens else None
        text = cls(loaded, Pieces(loaded, str(tokenizer)), template, bos)
        if generation_config is not None:
            text.defaults = Defaults.of(_object(generation_config), str(generation_config))
        return text

    @property
    def has_template(self) -> bool:
        """Whether there is a chat template, so that `render` works."""
        return self._template is not None

    def encode(self, text: str, *, add_special: bool) -> list[int]:
        """Token ids of `text`, special tokens in it read as such.

        `add_special` puts BOS in front of a raw prompt that has none: Gemma's tokenizer never adds it, and without it
        the output degenerates. A rendered chat brings its own. ServeError for text that is not Unicode.
        """
        try:
            ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False).ids
        except TypeError:
            raise ServeError("the text holds half of a surrogate pair; text that UTF-8 can carry is accepted") from None
        if add_special and self._bos is not None and ids[:1] != [self._bos]:
            ids.insert(0, self._bos)
        return ids

    def decode(self, ids: Sequence[int], *, skip_special: bool = True) -> str:
        """The text of all `ids` at once."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=skip_special)
        return text

    def render(
        self,
        messages: Sequence[Message],
        tools: Sequence[Mapping[str, Any]] | None = None,
        *,
        enable_thinking: bool = False,
        add_generation_prompt: bool = True,
    ) -> str:
        """The prompt of a chat, to be encoded with `add_special=False`; `tools` as in an OpenAI request.

        ServeError when there is no template, or for messages that it cannot render.
        """
        if self._template is None:
            raise ServeError("this checkpoint has no chat template; raw prompts are accepted")
        return self._template.render(
            messages, tools, enable_thinking=enable_thinking, add_generation_prompt=add_generation_prompt
        )

    def completion(self, stop: Sequence[str] = (), *, include_stop: bool = False, skip_special: bool = True) -> Reader:
        """A reader of a raw continuation, all of it content; ServeError for bad stop strings."""
        return Reader(self.pieces, Stops(stop, include=include_stop), None, skip_special=skip_special)

    def chat(
        self,
        prompt: Sequence[int],
        tools: Sequence[Mapping[str, Any]] | None = None,
        stop: Sequence[str] = (),
        *,
        include_stop: bool = False,
    ) -> Reader:
        """A reader of the answer to a rendered `prompt` that offered `tools`; ServeError for bad stop strings."""
        names = [str(tool["function"]["name"]) for tool in tools or ()]
        channels = Channels(names, in_thought=ends_in_thought(prompt, self.pieces.special))
        return Reader(self.pieces, Stops(stop, include=include_stop), channels)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ServeError(f"{path}: cannot be read ({error.strerror}); a file of the checkpoint is accepted") from None
    except UnicodeDecodeError as error:
        raise ServeError(f"{path}: byte {error.start} is not UTF-8; a text file is accepted") from None


def _object(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        raise ServeError(f"{path} is not JSON ({error}); a JSON object is accepted") from None
    if not isinstance(found, dict):
        raise ServeError(f"{path} is a JSON {type(found).__name__}; a JSON object is accepted")
    return found


def _token(value: Any) -> str | None:
    """A special token of tokenizer_config.json, which is a string or an object with its content."""
    content = value.get("content") if isinstance(value, dict) else value
    return content if isinstance(content, str) else None
