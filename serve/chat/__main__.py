"""`python -m serve.chat [--url URL]`: a chat with a running server, in the terminal, as the tokens come.

Answers go to stdout and all else to stderr, so that a pipe gets answers alone: `echo Hello | python -m serve.chat`.
Ctrl-C ends an answer, which stays in the history as far as it came. Exit code 0; 2 for a bad flag or no server; 1
when the input was no terminal and a question in it got no answer.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from io import TextIOWrapper
from typing import Any

from serve.chat.client import Server
from serve.chat.screen import Screen
from serve.errors import ServeError

COMMANDS = "/reset forgets the chat, /quit ends it"
PROMPT = "> "
INTERRUPTED = 130
MOST_TEMPERATURE = 2


@dataclass(frozen=True, slots=True)
class Options:
    """What the flags say; a number that is None is the server's to choose."""

    url: str
    system: str
    max_tokens: int | None
    temperature: float | None
    think: bool
    api_key: str


class Chat:
    """A chat and its history; only turns that got an answer, or a part of one, stay in it."""

    def __init__(self, server: Server, screen: Screen, options: Options) -> None:
        """Asks the server for its model; ServeError when it has none to give."""
        self._server, self._screen = server, screen
        self._request: dict[str, Any] = {"model": server.model()}
        if options.max_tokens is not None:
            self._request["max_tokens"] = options.max_tokens
        if options.temperature is not None:
            self._request["temperature"] = options.temperature
        if options.think:
            self._request["chat_template_kwargs"] = {"enable_thinking": True}
        self._system = [{"role": "system", "content": options.system}] if options.system else []
        self._turns: list[dict[str, str]] = []
        screen.note(f"{self._request['model']} at {server.url}; {COMMANDS}, Ctrl-C ends an answer")

    def take(self, line: str) -> None:
        """A command or a question; ServeError when the server fails at it."""
        if line == "/reset":
            self._turns.clear()
            self._screen.note("forgotten")
        elif line.startswith("/") and len(line.split()) == 1:
            self._screen.note(f"{line} is not known; {COMMANDS}")
        else:
            self._ask(line)

    def _ask(self, words: str) -> None:
        asked, said, note = {"role": "user", "content": words}, "", ""
        request = self._request | {"messages": [*self._system, *self._turns, asked]}
        try:
            with closing(self._server.answer(request)) as pieces:
                for piece in pieces:
                    said += piece.text
                    self._screen.think(piece.thought)
                    self._screen.say(piece.text)
                    note = f"(cut at the {piece.cut} limit)" if piece.cut else note
        except KeyboardInterrupt:
            note = "(stopped)"
        finally:
            self._screen.end()
        if said:
            self._turns += [asked, {"role": "assistant", "content": said}]
        if note or not said:
            self._screen.note(note or "(an empty answer)")


def _lines(screen: Screen) -> Iterator[str]:
    """What is typed, line by line, until /quit or the end of the input; Ctrl-C only begins a new line."""
    edited = sys.stdin.isatty() and sys.stdout.isatty()
    if edited:
        with suppress(ImportError):
            # With it, input() edits a line and remembers those before.
            import readline  # noqa: F401
    while True:
        try:
            if sys.stdin.isatty() and not edited:
                sys.stderr.write(PROMPT)
                sys.stderr.flush()
            line = input(PROMPT if edited else "").strip()
        except EOFError:
            if sys.stdin.isatty():
                screen.note("\n", dim=False)
            return
        except KeyboardInterrupt:
            screen.note(f"\n{COMMANDS}")
            continue
        if line == "/quit":
            return
        if line:
            yield line


def _parse(arguments: Sequence[str]) -> Options:
    parser = argparse.ArgumentParser(
        "python -m serve.chat", description="Chat with a running server.", exit_on_error=False, allow_abbrev=False
    )
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="address of the server [%(default)s]")
    parser.add_argument("--system", default="", metavar="TEXT", help="system message before the chat")
    parser.add_argument("--max-tokens", type=int, metavar="N", help="tokens of an answer at most; else all that fit")
    parser.add_argument("--temperature", type=float, metavar="X", help="0 takes the likeliest token; else the server's")
    parser.add_argument("--think", action="store_true", help="let the model think first, where it can")
    parser.add_argument(
        "--api-key", default=os.environ.get("API_KEY", ""), metavar="KEY", help="the server's key [API_KEY]"
    )
    try:
        found, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ServeError(f"{error}; see --help") from None
    if rest:
        raise ServeError(f"{rest[0]} is not known; see --help")
    if found.max_tokens is not None and found.max_tokens < 1:
        raise ServeError(f"--max-tokens is {found.max_tokens}; 1 or more is accepted")
    if found.temperature is not None and not 0 <= found.temperature <= MOST_TEMPERATURE:
        raise ServeError(f"--temperature is {found.temperature}; 0 to {MOST_TEMPERATURE} is accepted")
    return Options(**vars(found))


def main(arguments: Sequence[str]) -> int:
    """Chat; the exit code."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")
    screen = Screen(sys.stdout, sys.stderr)
    try:
        options = _parse(arguments)
        chat = Chat(Server(options.url, options.api_key), screen, options)
    except ServeError as error:
        screen.note(f"error: {error}", dim=False)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    failed = False
    for line in _lines(screen):
        try:
            chat.take(line)
        except ServeError as error:
            failed = True
            screen.note(f"error: {error}", dim=False)
        except BrokenPipeError:
            # Whoever read the answers has left; what is buffered has nowhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        except KeyboardInterrupt:
            screen.end()
    return int(failed and not sys.stdin.isatty())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
