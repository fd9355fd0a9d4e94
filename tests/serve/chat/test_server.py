"""A chat against the real application on a real socket."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from tests.serve.chat.running import Terminal, chat
from tests.serve.http.listening import listening
from tests.serve.http.scripted import scene


@pytest.mark.anyio
async def test_against_the_real_server(folder: Path) -> None:
    async with scene(folder, api_key="secret") as one, listening(one) as port:
        url = f"http://127.0.0.1:{port}"
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
    async with scene(folder, batch=1) as one, listening(one) as port:
        url = f"http://127.0.0.1:{port}"
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
