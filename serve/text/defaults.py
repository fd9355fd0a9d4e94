"""How the checkpoint wants to be sampled when a request does not say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

from serve.errors import ServeError


@dataclass(frozen=True, slots=True)
class Defaults:
    """Sampling values as `serve.sampling` reads them: temperature 0 is greedy, top_k 0 and top_p 1 filter nothing."""

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0

    @classmethod
    def of(cls, generation: Mapping[str, Any], origin: str) -> Defaults:
        """From the content of generation_config.json; ServeError that names `origin` and the key of a bad value.

        A missing or null value filters nothing; `do_sample` false means greedy.
        """
        temperature = _number(generation, "temperature", 1.0, origin)
        top_k = _number(generation, "top_k", 0, origin)
        top_p = _number(generation, "top_p", 1.0, origin)
        if not (0 <= temperature < inf and 0 <= top_k < inf and top_k == int(top_k) and 0 < top_p <= 1):
            raise ServeError(
                f"{origin}: temperature {temperature}, top_k {top_k}, top_p {top_p}; a temperature of 0 or more, "
                "a whole top_k of 0 or more and a top_p above 0 and up to 1 are accepted"
            )
        greedy = generation.get("do_sample") is False
        return cls(0.0 if greedy else float(temperature), int(top_k), float(top_p))


def _number(generation: Mapping[str, Any], key: str, absent: float, origin: str) -> float:
    value = generation.get(key)
    if value is None:
        return absent
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ServeError(f"{origin}: {key} is {value!r}; a number is accepted")
    return value
