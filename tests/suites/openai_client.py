"""OpenAI's own client against a server: python tests/suites/openai_client.py URL. Sync, async, streams, errors."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import openai

MESSAGES: Any = [{"role": "user", "content": "The weather in Paris"}]
GREEDY: Any = {"max_tokens": 12, "temperature": 0}


def alone(url: str) -> str:
    """The synchronous client; the text of a chat, which a stream must give as well."""
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        [model] = [card.id for card in client.models.list()]
        answer = client.chat.completions.create(model=model, messages=MESSAGES, **GREEDY)
        text = answer.choices[0].message.content or ""
        usage: Any = {"include_usage": True}
        chunks = list(
            client.chat.completions.create(model=model, messages=MESSAGES, stream=True, stream_options=usage, **GREEDY)
        )
        assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == text
        assert chunks[-1].usage == answer.usage
        assert [choice.finish_reason for choice in chunks[-2].choices] == [answer.choices[0].finish_reason]
        whole = client.completions.create(model=model, prompt="The weather", logprobs=2, **GREEDY)
        pieces = list(client.completions.create(model=model, prompt="The weather", stream=True, **GREEDY))
        assert "".join(choice.text for piece in pieces for choice in piece.choices) == whole.choices[0].text
        for field, value in (("temperature", 3), ("n", 0), ("logit_bias", {"x": 1})):
            try:
                client.chat.completions.create(model=model, messages=MESSAGES, extra_body={field: value})
            except openai.BadRequestError as error:
                assert (error.param or "").startswith(field), error
            else:
                raise AssertionError(f"{field} = {value!r} was not refused")
        return text


async def together(url: str, text: str) -> None:
    """The asynchronous client, twenty streams at once, all of which say `text`."""
    async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=4) as client:
        model = (await client.models.list()).data[0].id

        async def one() -> str:
            stream = await client.chat.completions.create(model=model, messages=MESSAGES, stream=True, **GREEDY)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

        assert await asyncio.gather(*(one() for _ in range(20))) == [text] * 20


if __name__ == "__main__":
    asyncio.run(together(sys.argv[1], alone(sys.argv[1])))
