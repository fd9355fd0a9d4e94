"""The page: everything that the other files make of a run, put into one template.

Values are escaped by the template, and the page forbids itself (by its content security policy) to load anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ledger.store import Store
from recipes.hub.findings import Upstream
from validate.report import gaps, graph, matrix, plots, theme, versions
from validate.report.full import Full
from validate.report.run import Run

# Read by name, so named for those who ask what this module is made of.
DATA_FILES: tuple[str, ...] = ("page.html.jinja", "parts.html.jinja", "page.css")

_FOLDER = Path(__file__).resolve().parent
_SPEED = (
    plots.Series(plots.OURS, "decode_tok_s", theme.OURS),
    plots.Series(plots.THEIRS, "transformers_decode_tok_s", theme.THEIRS),
)
_TTFT = (
    plots.Series(plots.OURS, "ttft_ms", theme.OURS),
    plots.Series(plots.THEIRS, "transformers_ttft_ms", theme.THEIRS),
)
_MEMORY = (
    plots.Series("peak RSS", "peak_rss_mb", theme.OURS),
    plots.Series("files", "size_mb", theme.BOUND),
    plots.Series("its own files", "added_mb", theme.MARK),
)


@dataclass(frozen=True)
class Section:
    """All that the page says of one checkpoint."""

    name: str
    rows: list[dict[str, Any]]
    picture: graph.Picture
    strange: list[str]
    speed: list[plots.Figure]
    contexts: list[plots.Figure]
    gaps: list[plots.Figure]
    notes: list[str]
    parity: list[dict[str, Any]]
    mismatches: list[Any]
    exemptions: list[Any]
    digests: list[versions.Digest]


def page(run: Run, store: Store, full: Full | None = None, upstream: Upstream | None = None, unasked: str = "") -> str:
    """The HTML of a run; `store` is where its oracles are, `upstream` what the Hub had beside the pinned commits.

    `unasked` is what to say of upstream where it should be known and is not.
    """
    sections = [_section(run, name, store, f"c{number}") for number, name in enumerate(run.checkpoints)]
    packages, host = versions.versions(run)
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["num"] = number
    environment.filters["size"] = size
    return environment.get_template("page.html.jinja").render(
        run=run,
        headline=matrix.headline(run, [row for section in sections for row in section.rows]),
        sections=sections,
        box=(graph.WIDTH, graph.HEIGHT),
        packages=packages,
        host=host,
        hosts=versions.hosts(run),
        full=full,
        upstream=upstream,
        unasked=unasked,
        css=(_FOLDER / "page.css").read_text(),
    )


def number(value: float | None, form: str = ",.1f") -> str:
    """`value` for people; what is not there is a dash."""
    return "–" if value is None else format(value, form)


def size(count: int | None) -> str:
    """Bytes for people, in powers of ten."""
    if count is None:
        return ""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            return f"{count / factor:.3g} {unit}"
    return f"{count} B"


def _section(run: Run, name: str, store: Store, key: str) -> Section:
    rows = matrix.rows(run, name)
    nodes = run.of(name)
    edges, strange = graph.edges(nodes)
    histograms, notes = gaps.histograms(run, name, store, f"{key}-gaps")
    return Section(
        name=name,
        rows=rows,
        picture=graph.draw(nodes, edges),
        strange=[f"{node.name} was made from a {label} that is not among these receipts." for node, label in strange],
        speed=_speed(key, rows),
        contexts=_contexts(run, name, key),
        gaps=histograms,
        notes=notes,
        parity=_parity(run, name),
        mismatches=gaps.exemptions(run, name, "mismatches"),
        exemptions=gaps.exemptions(run, name),
        digests=versions.digests(run, name),
    )


def _speed(key: str, rows: Sequence[dict[str, Any]]) -> list[plots.Figure]:
    figures = (
        plots.bars(f"{key}-decode", "Decode, tok/s", rows, _SPEED, ",.0f", mark="bound_tok_s"),
        plots.bars(f"{key}-ttft", "Time to first token, ms", rows, _TTFT, ",.1f"),
        plots.bars(f"{key}-memory", "Memory and disk, MB", rows, _MEMORY, ",.4g"),
    )
    return [figure for figure in figures if figure]


def _contexts(run: Run, checkpoint: str, key: str) -> list[plots.Figure]:
    panels = []
    for variant in run.variants(checkpoint):
        bench = run.receipts(checkpoint, variant).get("bench")
        if bench and (panel := plots.speeds(variant, bench.measured, bench.facts)):
            panels.append(panel)
    return plots.context_panels(f"{key}-context", panels)


def _parity(run: Run, checkpoint: str) -> list[dict[str, Any]]:
    """Facts of each parity receipt that there is, and its verdict."""
    found = []
    for variant in run.variants(checkpoint):
        if receipt := run.receipts(checkpoint, variant).get("parity"):
            heldout = receipt.facts.get("heldout") or {}
            apart = heldout.get("logprob_difference") or {}
            found.append(
                receipt.facts | {"variant": variant, "verdict": receipt.verdict, "held": heldout, "apart": apart}
            )
    return found
