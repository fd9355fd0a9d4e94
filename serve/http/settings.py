"""Settings of the server: each has a flag and an environment variable, the flag wins; printed at start."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from serve.errors import ServeError
from serve.service.limits import Limits

MEGABYTE = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server is started with; counts and seconds are checked."""

    artifact: Path
    host: str = "127.0.0.1"
    port: int = 8080
    model_name: str = ""
    queue: int = 64
    queue_tokens: int = 0
    receive_seconds: float = 60.0
    queue_seconds: float = 30.0
    request_seconds: float = 600.0
    drain_seconds: float = 100.0
    linger_seconds: float = 0.5
    body_limit: int = MEGABYTE
    api_key: str = ""
    spot: str = ""
    spot_seconds: float = 2.0
    log_text: bool = False

    @property
    def limits(self) -> Limits:
        """What the service is told."""
        return Limits(self.queue, self.queue_tokens, self.queue_seconds, self.request_seconds)

    def lines(self) -> list[str]:
        """One `name = value` line per setting, the key masked."""
        shown = {field.name: getattr(self, field.name) for field in fields(self)}
        shown["api_key"] = "(set)" if self.api_key else "(none: every request is answered)"
        return [f"{name} = {value}" for name, value in shown.items()]


def _whole(least: int, most: int = 2**31) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not (text.isdecimal() and least <= int(text) <= most):
            raise ValueError(f"whole numbers from {least} to {most} are accepted")
        return int(text)

    return read


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.01 <= value <= 1e6:
        raise ValueError("seconds from 0.01 to 1000000 are accepted")
    return value


def _switch(text: str) -> bool:
    if text.lower() not in ("0", "1", "false", "true"):
        raise ValueError("0, 1, false and true are accepted")
    return text.lower() in ("1", "true")


def _address(text: str) -> str:
    if text and not text.startswith(("http://", "https://")):
        raise ValueError("an address that begins with http:// or https:// is accepted")
    return text.rstrip("/")


_OPTIONS: dict[str, tuple[Callable[[str], Any], str]] = {
    "host": (str, "address to listen on; 0.0.0.0 for all"),
    "port": (_whole(0, 65535), "port to listen on; 0 for any free one"),
    "model_name": (str, "name that requests give as `model`; the checkpoint's when empty"),
    "queue": (_whole(0, 100_000), "answers that may wait for a slot"),
    "queue_tokens": (_whole(0), "prompt tokens admitted at once; 0: what fills the slots and half of the queue"),
    "receive_seconds": (_seconds, "longest time for a request to arrive, head and body, then 408"),
    "queue_seconds": (_seconds, "longest wait for a slot, then 429"),
    "request_seconds": (_seconds, "longest time for a request; its answer ends there with finish_reason length"),
    "drain_seconds": (_seconds, "longest time that running requests get after SIGTERM or a spot notice"),
    "linger_seconds": (_seconds, "how long 503 is answered after the last running request, so that others notice"),
    "body_limit": (_whole(1), "largest request body in bytes, then 413"),
    "api_key": (str, "key that /v1/* and /generate want as bearer token; better given as API_KEY than as a flag"),
    "spot": (
        _address,
        "where to poll for EC2 spot notices, such as http://169.254.169.254; empty: nowhere",
    ),
    "spot_seconds": (_seconds, "time between two polls"),
    "log_text": (_switch, "1 writes prompts to the log"),
}


def parse(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> Settings:
    """Settings of a command line; ServeError names the flag or variable with a bad value. --help ends it."""
    parser = argparse.ArgumentParser("python -m serve", description="Serve an artifact over HTTP.", exit_on_error=False)
    parser.add_argument("artifact", type=Path, nargs="?", help="folder with manifest.json")
    defaults = {field.name: field.default for field in fields(Settings)}
    for name, (_, words) in _OPTIONS.items():
        whole = f"{words} [{name.upper()}; default {defaults[name]!r}]"
        parser.add_argument(_flag(name), dest=name, metavar="VALUE", help=whole)
    try:
        found, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ServeError(f"{error}; see --help") from None
    if rest:
        raise ServeError(f"{rest[0]} is not known; accepted: {', '.join(map(_flag, _OPTIONS))}")
    if found.artifact is None:
        raise ServeError("no artifact is named; the folder of one is accepted: python -m serve ARTIFACT")
    values = {}
    for name, (read, _) in _OPTIONS.items():
        flag = getattr(found, name)
        text, source = (flag, _flag(name)) if flag is not None else (environment.get(name.upper()), name.upper())
        if text is not None:
            try:
                values[name] = read(text)
            except ValueError as error:
                raise ServeError(f"{source} is {text!r}; {error}") from None
    return Settings(found.artifact, **values)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
