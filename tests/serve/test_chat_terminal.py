"""The terminal chat as a process of its own: against the real application, and against a server that misbehaves."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self

import pytest
import uvicorn
from tokenizers import Tokenizer

from tests.serve.http.scripted import Scene, scene, write_text

COMMAND = [sys.executable, "-m", "serve.chat"]
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
ENDED = "the connection ended before the answer did"
DONE = b"data: [DONE]\n\n"


def chunk(finish: str | None = None, detail: str | None = None, **delta: str) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish}
    if detail:
        choice["finish_detail"] = detail
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def saying(*pieces: str, finish: str = "stop") -> bytes:
    return STREAM + b"".join(chunk(content=piece) for piece in pieces) + chunk(finish) + DONE


def refusing(status: str, body: bytes) -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def envelope(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "t", "param": None, "code": None}}).encode()


class Plain:
    """A server on a socket that answers each question with the next of `replies`, bytes as they are."""

    def __init__(self) -> None:
        self.models = refusing("200 OK", b'{"data": [{"id": "fake"}]}')
        self.replies: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.paths: list[str] = []
        plain = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                plain.paths.append(self.path)
                plain.keys.append(self.headers["authorization"])
                self.wfile.write(plain.models)

            def do_POST(self) -> None:
                plain.paths.append(self.path)
                plain.keys.append(self.headers["authorization"])
                plain.asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
                self.wfile.write(plain.replies.pop(0))

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def messages(self) -> list[list[tuple[str, str]]]:
        """Role and content of every message of every question."""
        return [[(one["role"], one["content"]) for one in asked["messages"]] for asked in self.asked]


@pytest.fixture
def plain() -> Iterator[Plain]:
    made = Plain()
    thread = threading.Thread(target=made.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def chat(url: str, typed: str, *flags: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A chat in which everything is typed ahead."""
    known = {name: value for name, value in os.environ.items() if name not in ("API_KEY", "NO_COLOR")}
    return subprocess.run(
        [*COMMAND, "--url", url, *flags],
        input=typed,
        capture_output=True,
        encoding="utf-8",
        env=known | environment,
        timeout=30,
        check=False,
    )


def test_only_answers_go_to_a_pipe(plain: Plain) -> None:
    plain.replies = [
        STREAM
        + chunk(role="assistant", content="")
        + chunk(reasoning_content="Hm, ")
        + chunk(reasoning_content="a greeting.")
        + b": a comment\n\n"
        + chunk(content="Good ")
        + chunk(content="day, \u00fc\U0001f600")
        + chunk("stop")
        + b'data: {"choices": [], "usage": {}}\n\n'
        + DONE
    ]
    done = chat(plain.url, "Hello\n")
    assert (done.returncode, done.stdout) == (0, "Good day, \u00fc\U0001f600\n")
    assert done.stderr.splitlines() == [
        f"fake at {plain.url}; /reset forgets the chat, /quit ends it, Ctrl-C ends an answer",
        "Hm, a greeting.",
    ]


def test_the_history_goes_along_until_it_is_reset(plain: Plain) -> None:
    plain.replies = [saying("one"), saying("tw", "o"), saying("three")]
    done = chat(plain.url, "first\n\n  second \n/reset\nthird\n/quit\nfourth\n", "--system", "Be brief.")
    assert (done.returncode, done.stdout) == (0, "one\ntwo\nthree\n")
    system, first, second = ("system", "Be brief."), ("user", "first"), ("user", "second")
    assert plain.messages() == [
        [system, first],
        [system, first, ("assistant", "one"), second],
        [system, ("user", "third")],
    ]


def test_what_the_flags_say_is_asked_and_nothing_else(plain: Plain) -> None:
    plain.replies = [saying("a"), saying("b")]
    assert chat(plain.url + "/v1/", "Hi", "--api-key", "flag", API_KEY="variable").returncode == 0
    flags = ("--max-tokens", "7", "--temperature", "0.5", "--think")
    assert chat(plain.url, "Hi", *flags, API_KEY="variable").returncode == 0
    bare = {"model": "fake", "messages": [{"role": "user", "content": "Hi"}], "stream": True}
    limits = {"max_tokens": 7, "temperature": 0.5, "chat_template_kwargs": {"enable_thinking": True}}
    assert plain.asked == [bare, bare | limits]
    assert plain.keys == ["Bearer flag"] * 2 + ["Bearer variable"] * 2
    assert set(plain.paths) == {"/v1/models", "/v1/chat/completions"}


def test_a_word_with_a_slash_is_a_command_or_nothing(plain: Plain) -> None:
    plain.replies = [saying("A folder.")]
    done = chat(plain.url, "/help\n/etc is what?\n")
    assert "/help is not known; /reset forgets the chat, /quit ends it" in done.stderr
    assert plain.messages() == [[("user", "/etc is what?")]]


@pytest.mark.parametrize(
    ("reply", "note"),
    [
        (saying("a", finish="length"), "(cut at the token limit)"),
        (STREAM + chunk(content="a") + chunk("length", "timeout") + DONE, "(cut at the time limit)"),
        (saying(), "(an empty answer)"),
    ],
)
def test_an_answer_that_is_not_whole_says_so(plain: Plain, reply: bytes, note: str) -> None:
    plain.replies = [reply]
    done = chat(plain.url, "Hi")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (0, note)


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        (refusing("429 Too Many Requests", envelope("the queue is\nfull")), "429: the queue is full"),
        (refusing("502 Bad Gateway", b"<html>"), "502: Bad Gateway"),
        (refusing("503 Service Unavailable", b'["error"]'), "503: Service Unavailable"),
        (STREAM + chunk(content="hal") + b"data: " + envelope("device lost") + b"\n\n", "device lost"),
        (STREAM + chunk(content="hal"), ENDED),
        (STREAM[:-2] + b"Transfer-Encoding: chunked\r\n\r\nff\r\n" + chunk(content="hal"), ENDED),
        (STREAM + b"data: {broken\n\n", "a chunk is b' {broken\\n'; those of a chat completion are accepted"),
        (STREAM + b"data: 7\n\n", "those of a chat completion are accepted"),
        (STREAM + b'data: {"choices": [7]}\n\n', "those of a chat completion are accepted"),
        (STREAM + b'data: {"choices": [{"delta": {"content": 7}}]}\n\n', "those of a chat completion are accepted"),
        (STREAM + b'data: {"error": "no"}\n\n', "an error without a message"),
        (b"nonsense\r\n\r\n", "the connection broke off: nonsense"),
        (b"", "the connection broke off: Remote end closed connection without response"),
    ],
)
def test_a_failure_is_one_sentence_and_the_chat_goes_on_without_that_turn(
    plain: Plain, reply: bytes, sentence: str
) -> None:
    plain.replies = [reply, saying("fine")]
    done = chat(plain.url, "one\ntwo\n")
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines()[1:] if line]
    assert line.startswith(f"error: {plain.url}: {sentence}") or line.endswith(sentence)
    assert done.stdout.splitlines() == (["hal", "fine"] if b"hal" in reply else ["fine"])
    assert plain.messages()[1] == [("user", "two")]


@pytest.mark.parametrize(
    ("models", "sentence"),
    [
        (refusing("401 Unauthorized", envelope("the key is wrong")), "401: the key is wrong"),
        (refusing("200 OK", b'{"data": []}'), "names no model; an OpenAI-compatible server is accepted"),
        (refusing("200 OK", b"<html>"), "names no model; an OpenAI-compatible server is accepted"),
    ],
)
def test_a_server_that_has_no_model_to_give(plain: Plain, models: bytes, sentence: str) -> None:
    plain.models = models
    done = chat(plain.url, "Hi")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.rstrip("\n").endswith(sentence)
    assert done.stderr.count("\n") == 1


def test_no_server() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
    done = chat(url, "Hi")
    expected = f"error: {url} cannot be reached: Connection refused; `python -m serve` starts a server\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", expected)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ["--url", "localhost:8080"],
            "--url is 'localhost:8080'; an address such as http://127.0.0.1:8080 is",
        ),
        (["--url", "http://host:port"], "--url is 'http://host:port'; an address such as"),
        (["--url", "http://me@host"], "--url is 'http://me@host'; an address such as"),
        (["--max-tokens", "0"], "--max-tokens is 0; 1 or more is accepted"),
        (["--max-tokens", "few"], "argument --max-tokens: invalid int value: 'few'; see --help"),
        (["--temperature", "nan"], "--temperature is nan; 0 to 2 is accepted"),
        (["--api-key", "k\u00e9y"], "--api-key holds characters that no header can carry"),
        (["--colour"], "--colour is not known; see --help"),
    ],
)
def test_a_bad_flag_is_one_sentence(flags: list[str], sentence: str) -> None:
    done = subprocess.run([*COMMAND, *flags], input="", capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {sentence}")
    assert done.stderr.count("\n") == 1


def test_a_reader_that_leaves_ends_the_chat_quietly(plain: Plain) -> None:
    plain.replies = [saying("one"), saying("two")]
    process = subprocess.Popen(
        [*COMMAND, "--url", plain.url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stdin is not None
    process.stdin.write("Hi\nHo\n")
    process.stdin.close()
    assert process.stderr is not None
    with process.stderr as log:
        assert "Traceback" not in log.read()
    assert process.wait(30) == 0
    assert len(plain.asked) == 1


class Terminal:
    """A chat at a pseudo-terminal."""

    def __init__(self, url: str, *flags: str, **environment: str) -> None:
        self._master, slave = pty.openpty()
        known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "API_KEY")}
        env = known | {"TERM": "dumb"} | environment
        self.process = subprocess.Popen(
            [*COMMAND, "--url", url, *flags], stdin=slave, stdout=slave, stderr=slave, env=env
        )
        os.close(slave)
        self.shown = ""

    def until(self, text: str, seconds: float = 20.0) -> str:
        """What is shown up to `text`, since the last call; TimeoutError when nothing comes for so long."""
        while text not in self.shown:
            if not select.select([self._master], [], [], seconds)[0]:
                raise TimeoutError(f"{text!r} does not come after {self.shown!r}")
            self.shown += os.read(self._master, 4096).decode().replace("\r\n", "\n")
        before, _, self.shown = self.shown.partition(text)
        return before

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def interrupt(self, until: str) -> None:
        """Ctrl-C, again where it came just before the interpreter began to wait, which then does not see it."""
        for _ in range(40):
            self.process.send_signal(signal.SIGINT)
            with suppress(TimeoutError):
                self.until(until, 0.5)
                return
        raise TimeoutError(until)

    def leave(self) -> int:
        """The exit code after Ctrl-D, which must be typed at the prompt."""
        self.type("\x04")
        return self.process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._master)


@pytest.mark.parametrize(("environment", "dim", "plainly"), [({}, "\x1b[2m", "\x1b[0m"), ({"NO_COLOR": "1"}, "", "")])
def test_a_terminal_shows_thoughts_dimmed_and_obeys_no_answer(
    plain: Plain, environment: dict[str, str], dim: str, plainly: str
) -> None:
    plain.replies = [STREAM + chunk(reasoning_content="Hm.") + chunk(content="\x1b[31mred\x07\tok") + DONE]
    with Terminal(plain.url, **environment) as terminal:
        terminal.until("> ")
        terminal.type("Hello\n")
        assert terminal.until("red") == f"Hello\n{dim}Hm.{plainly}\n\ufffd[31m"
        assert terminal.until("\n> ") == "\ufffd\tok"
        assert terminal.leave() == 0


def test_ctrl_c_at_the_prompt_does_not_end_the_chat(plain: Plain) -> None:
    plain.replies = [saying("still here")]
    with Terminal(plain.url) as terminal:
        terminal.until("> ")
        terminal.interrupt("/quit ends it\x1b[0m\n> ")
        terminal.type("Hello\n")
        terminal.until("still here\n> ")
        assert terminal.leave() == 0


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("chat")
    write_text(made)
    return made


@asynccontextmanager
async def listening(one: Scene) -> AsyncIterator[str]:
    """The real application on a real socket."""
    server = uvicorn.Server(uvicorn.Config(one.app, log_level="error", lifespan="off"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        task = asyncio.create_task(server.serve([listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await task


@pytest.mark.anyio
async def test_against_the_real_server(folder: Path) -> None:
    async with scene(folder, api_key="secret") as one, listening(one) as url:
        one.says("<|channel>thought\nHm.\n<channel|>The weather in Paris is fine \u4f60\u597d.")
        flags = ("--think", "--system", "Brief.", "--temperature", "0")
        done = await asyncio.to_thread(chat, url, "Hi\nAgain\n", *flags, API_KEY="secret")
        assert done.stdout.splitlines() == ["The weather in Paris is fine \u4f60\u597d."] * 2
        assert done.stderr.splitlines()[1:] == ["Hm."] * 2
        assert done.returncode == 0
        refused = await asyncio.to_thread(chat, url, "Hi\n", "--api-key", "wrong")
        assert (refused.returncode, refused.stdout) == (2, "")
        assert refused.stderr.startswith(f"error: {url}: 401: ")


@pytest.mark.anyio
async def test_ctrl_c_ends_an_answer_frees_its_slot_and_the_chat_goes_on(folder: Path) -> None:
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    async with scene(folder, batch=1) as one, listening(one) as url:
        long = one.text.encode("The weather in Paris is fine today. " * 5, add_special=False)
        short = one.text.encode("In France.", add_special=False)
        prompts: list[str] = []

        def answer(prompt: list[int]) -> list[int]:
            prompts.append(tokenizer.decode(prompt))
            return short if "Where?" in prompts[-1] else long

        one.runtime.answer = answer
        with Terminal(url, "--temperature", "0") as terminal:
            await asyncio.to_thread(terminal.until, "> ")
            one.runtime.go(20)
            terminal.type("Hello\n")
            await asyncio.to_thread(terminal.until, "weather")
            await asyncio.to_thread(terminal.interrupt, "(stopped)\x1b[0m\n> ")
            one.runtime.go()
            await one.idle()
            assert "The weather" not in prompts[-1]
            terminal.type("Where?\n")
            await asyncio.to_thread(terminal.until, "In France.\n> ")
            assert "The weather" in prompts[-1]
            assert await asyncio.to_thread(terminal.leave) == 0
