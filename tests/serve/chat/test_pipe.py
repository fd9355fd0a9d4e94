"""A chat whose questions come through a pipe: what is asked, and what goes where."""

from __future__ import annotations

import subprocess

import pytest

from tests.serve.chat.plain import DONE, STREAM, Plain, chunk, saying
from tests.serve.chat.running import COMMAND, chat


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
