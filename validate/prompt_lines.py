"""Anyone's own prompts: one JSON object a line, `{"prompt": ...}`, `{"messages": [...]}` or `{"ids": [...]}`.

Every error names the file and the line. Token ids are taken as they are; text gets BOS; messages go through the
checkpoint's chat template.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ledger.digest import parse_json
from ledger.errors import BadInput
from validate.encode import Encoder
from validate.records import Prompt, PromptSet

_ROLES = ("system", "developer", "user", "assistant", "model", "tool")
_ACCEPTED = 'accepted: an object with exactly one of "prompt", "messages" or "ids"'


def read_prompts(path: Path, encoder: Encoder, *, kv_max: int, vocab_size: int, max_new: int) -> PromptSet:
    """The prompts of a JSONL file, answered by up to `max_new` tokens with stop ids honoured; blank lines are skipped.

    Raises BadInput for a file that cannot be read or holds no prompt, and for a line that is not one, or whose ids do
    not fit a context of `kv_max` tokens, are outside the vocabulary, or stand for images and sounds.
    """
    try:
        text = path.read_bytes().decode()
    except OSError as error:
        raise BadInput(f"--prompts {path} cannot be read: {error.strerror}; accepted: a JSONL file") from None
    except UnicodeDecodeError as error:
        raise BadInput(f"--prompts {path} is not UTF-8 at byte {error.start}; accepted: JSONL in UTF-8") from None
    prompts = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        origin = f"{path} line {number}"
        kind, ids = _ids(parse_json(line.encode(), origin), origin, encoder)
        _check(ids, origin, kv_max, vocab_size, encoder.placeholders)
        limit = min(max_new, kv_max - len(ids))
        prompts.append(Prompt(name=f"line-{number}", kind=kind, ids=tuple(ids), max_new=limit, stop=True))
    if not prompts:
        raise BadInput(f"--prompts {path} holds no prompt; {_ACCEPTED}, one a line")
    return PromptSet(prompts=tuple(prompts))


def _ids(row: Any, origin: str, encoder: Encoder) -> tuple[str, list[int]]:
    if not isinstance(row, dict) or len(row) != 1 or not row.keys() <= {"prompt", "messages", "ids"}:
        found = f"the keys {', '.join(map(repr, row)) or 'none'}" if isinstance(row, dict) else repr(row)
        raise BadInput(f"{origin}: found {found}; {_ACCEPTED}")
    readers: dict[str, tuple[Callable[[Any], bool], str, Callable[[Any], list[int]]]] = {
        "prompt": (lambda value: isinstance(value, str), "text", encoder.text),
        "messages": (_is_chat, "a list of objects with role and content", encoder.chat),
        "ids": (_is_ids, "a list of at least one whole number", list),
    }
    ((key, value),) = row.items()
    fits, accepted, read = readers[key]
    if not fits(value):
        raise BadInput(f"{origin}: {key} is {str(value)[:60]!r}; accepted: {accepted}")
    for message in value if key == "messages" else ():
        _check_message(message, origin)
    try:
        return key, read(value)
    except BadInput as error:
        raise BadInput(f"{origin}: {error}") from None


def _is_chat(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(isinstance(m, dict) and {"role", "content"} <= m.keys() for m in value)
    )


def _check_message(message: dict[str, Any], origin: str) -> None:
    role, content = message["role"], message["content"]
    if role not in _ROLES:
        raise BadInput(f"{origin}: role is {str(role)[:60]!r}; accepted: {', '.join(_ROLES)}")
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    if not all(isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str) for p in parts):
        raise BadInput(f"{origin}: content is {str(content)[:60]!r}; accepted: text, or a list of parts of type text")


def _is_ids(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(type(token) is int for token in value)


def _check(ids: list[int], origin: str, kv_max: int, vocab_size: int, placeholders: frozenset[int]) -> None:
    if len(ids) >= kv_max:
        raise BadInput(f"{origin}: {len(ids)} tokens; accepted: at most {kv_max - 1}, as the artifact holds {kv_max}")
    for token in ids:
        if not 0 <= token < vocab_size:
            raise BadInput(f"{origin}: token id {token}; accepted: 0 to {vocab_size - 1}")
        if token in placeholders:
            raise BadInput(f"{origin}: token id {token} stands for an image or a sound; accepted: text")
