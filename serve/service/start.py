"""From a folder to an engine that may be trusted: load, warm up, and answer a known prompt as recorded.

The recorded answer is `selfcheck.json` beside the manifest: {"prompt": [ids], "tokens": [ids]}, greedy, written by the
builder after parity. The file is optional; that it is missing is said, not passed over.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serve.engine import Engine
from serve.errors import ServeError
from serve.manifest import Manifest
from serve.service.memory import available_bytes, check_memory

SELFCHECK = "selfcheck.json"
Say = Callable[[str], None]


class SelfCheck(BaseModel):
    """A prompt and its greedy answer."""

    model_config = ConfigDict(extra="forbid")

    prompt: list[int] = Field(min_length=1)
    tokens: list[int] = Field(min_length=1)


def load(folder: Path, say: Say) -> Engine:
    """The engine of the artifact in `folder`, warm and checked; ServeError says what is wrong with it or this host."""
    check_memory(Manifest.read(folder), available_bytes())
    recorded = read_selfcheck(folder)
    say("reading and checking files")
    engine = Engine.load(folder)
    try:
        say("warming up")
        warm_up(engine)
        if recorded is None:
            say(f"no self-check: {folder / SELFCHECK} does not exist, so no answer is recorded")
        else:
            self_check(engine, recorded)
            say(f"self-check passed: {len(recorded.tokens)} tokens as recorded")
    except BaseException:
        engine.close()
        raise
    return engine


def read_selfcheck(folder: Path) -> SelfCheck | None:
    """The recorded answer; None where there is no file, ServeError where it is damaged."""
    path = folder / SELFCHECK
    try:
        return SelfCheck.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        words = str(error).splitlines()[0]
        raise ServeError(f"{path}: cannot be used ({words}); an object of prompt and tokens is accepted") from error


def warm_up(engine: Engine) -> None:
    """Run both graphs once more than a chunk, so that the first client pays for nothing that happens once."""
    bos, bucket = engine.manifest.tokens.bos, engine.manifest.variant.kv_bucket
    length = max(1, min(bucket + 1, engine.kv_max - 2))
    for _ in engine.generate([bos] * length, max_new=2, stop_ids=frozenset()):
        pass


def self_check(engine: Engine, recorded: SelfCheck) -> None:
    """ServeError when the engine answers otherwise than recorded."""
    tokens = [
        token.id for token in engine.generate(recorded.prompt, max_new=len(recorded.tokens), stop_ids=frozenset())
    ]
    if tokens != recorded.tokens:
        pairs = enumerate(zip(tokens, recorded.tokens, strict=False))
        place = next((place for place, (found, wanted) in pairs if found != wanted), len(tokens))
        found = tokens[place] if place < len(tokens) else "the end"
        raise ServeError(
            f"self-check: token {place} of the recorded answer is {found}; {recorded.tokens[place]} is accepted: "
            "this artifact does not compute here what it was validated for"
        )
