"""Public float32 vectors of real weights, which the parity oracle must reproduce before it judges anything.

A reference is a JSON file in config/reference; `cases` holds input ids, the top logits after them and greedy
ids.
"""

from pathlib import Path

from ledger.errors import BadInput

DATA_FILES: tuple[str, ...] = ("reference/*.json",)
_FOLDER = Path(__file__).parent / "reference"


def reference_names() -> tuple[str, ...]:
    """Names of the references that ship with the foundry, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def reference_path(name: str) -> Path:
    """The file of a shipped reference.

    Raises BadInput when there is none of that name.
    """
    if name not in reference_names():
        raise BadInput(f"reference: found {name!r}; accepted: {', '.join(reference_names())}")
    return _FOLDER / f"{name}.json"
