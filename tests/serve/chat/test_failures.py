"""What is no chat: a server that misbehaves, none at all, and flags that are not accepted."""

from __future__ import annotations

import socket
import subprocess

import pytest

from tests.serve.chat.plain import ENDED, STREAM, Plain, chunk, envelope, refusing, saying
from tests.serve.chat.running import COMMAND, chat


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
