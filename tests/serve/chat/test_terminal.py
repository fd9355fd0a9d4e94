"""A chat at a terminal: thoughts, control characters, Ctrl-C."""

from __future__ import annotations

import pytest

from tests.serve.chat.plain import DONE, STREAM, Plain, chunk, saying
from tests.serve.chat.running import Terminal


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
