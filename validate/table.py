"""The table that a person reads at the end of a run, from the objects that machines read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ledger.columns import aligned
from validate.rows import Row

_FIGURES = (
    ("TTFT ms", "ttft_ms", ".1f"),
    ("decode tok/s", "decode_tok_s", ".1f"),
    ("x transformers", "decode_vs_transformers", ".1f"),
    ("all slots tok/s", "batch_tok_s", ".1f"),
    ("load s", "load_s", ".2f"),
    ("peak RSS MB", "peak_rss_mb", ".0f"),
    ("size MB", "size_mb", ".1f"),
    ("added MB", "added_mb", ".2f"),
)


def table(rows: Sequence[Row]) -> str:
    """Aligned columns, one line a variant; a figure that is not there is a dash, a parity that fails is in capitals."""
    several = len({row["checkpoint"] for row in rows}) > 1
    lines = [["variant", "parity", *(title for title, _, _ in _FIGURES)]]
    for row in rows:
        name = f"{row['checkpoint']}/{row['variant']}" if several else row["variant"]
        figures = ["-" if row[key] is None else format(row[key], form) for _, key, form in _FIGURES]
        lines.append([name, _verdict(row["parity"]), *figures])
    return "\n".join(aligned(lines, figures=range(2, len(lines[0]))))


def exemption_lines(variant: str, exemptions: Sequence[Mapping[str, Any]]) -> list[str]:
    """Every use of the bfloat16 exemption, one a line."""
    return [
        f"exempt: {variant}, {one['check']}, prompt {one['prompt']}, position {one['position']}: expected "
        f"{one['expected']}, got {one['got']}, oracle's gap {one['gap']:.4f}"
        for one in exemptions
    ]


def foreign_lines(rows: Sequence[Row]) -> list[str]:
    """What must not be read as a NeuronCore's: variants that another compiler than AWS's built."""
    said = {row["foreign_sdk"]: row["variant"] for row in rows if row["foreign_sdk"]}
    end = "times are not a NeuronCore's, and it cannot be packaged"
    return [f"no release: built with other than the Neuron SDK ({sentence}): {end}" for sentence in said]


def _verdict(parity: Mapping[str, Any]) -> str:
    match parity["verdict"]:
        case "passed":
            return f"passed, {parity['exemptions']} exempt" if parity["exemptions"] else "passed"
        case "failed":
            return f"FAILED, {parity['mismatches']} differ"
        case other:
            return str(other)
