"""The line as a graph: receipts are nodes, and an edge is a digest that one receipt has among its inputs.

Columns follow the stages, rows the variants, and what variants share stands once, above them. Departs from layered
graph drawing (Sugiyama): the rows are known, so nothing is searched and the same receipts give the same picture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from validate.report.run import Node

WIDTH, HEIGHT = 122, 40
"""Of a box, in units of the picture, which are pixels at full size."""
STEP, ROW, GAP = 156, 52, 26

# For stages whose receipts are missing and so tell nothing of what they would have been made from.
_AFTER = {
    "fetch": (),
    "lower": ("fetch",),
    "weights": ("fetch",),
    "tables": ("fetch",),
    "prompts": ("fetch",),
    "compile": ("lower",),
    "oracle": ("prompts",),
    "assemble": ("weights", "tables", "compile"),
    "parity": ("assemble", "oracle"),
    "bench": ("parity",),
    "package": ("bench",),
}


@dataclass(frozen=True)
class Edge:
    """`source` was an input of `target`; `implied` when a longer way says so too."""

    source: Node
    target: Node
    implied: bool = False


@dataclass(frozen=True)
class Box:
    """A node and where its box begins, x to the right, y down."""

    node: Node
    x: float
    y: float


@dataclass(frozen=True)
class Picture:
    """Everything that is drawn: boxes, the way of every edge (SVG path data), a label per row of a variant."""

    width: float
    height: float
    boxes: tuple[Box, ...]
    ways: tuple[tuple[str, Edge], ...]
    labels: tuple[tuple[str, float], ...]


def edges(nodes: Sequence[Node]) -> tuple[list[Edge], list[tuple[Node, str]]]:
    """The edges among the receipts of one checkpoint, and (node, input) for inputs that none of them is."""
    by_digest: dict[str, list[Node]] = {}
    for node in nodes:
        if node.receipt:
            by_digest.setdefault(node.receipt.digest, []).append(node)
    found: list[Edge] = []
    strange: list[tuple[Node, str]] = []
    for target in nodes:
        for label, digest in target.receipt.inputs.items() if target.receipt else ():
            source = _source(by_digest.get(digest, ()), target, label)
            if source is None:
                strange.append((target, label))
            elif source != target:
                found.append(Edge(source, target))
    return _with_implied(found), strange


def draw(nodes: Sequence[Node], found: Sequence[Edge]) -> Picture:
    """Where everything goes."""
    columns = _columns(nodes, found)
    lanes: dict[str | None, list[Node]] = {None: []}
    for node in nodes:
        lanes.setdefault(node.variant, []).append(node)
    joins = {edge.target for edge in found if edge.source.variant and not edge.target.variant}
    joins |= {node for node in nodes if node.stage == "package"}
    boxes: list[Box] = []
    labels: list[tuple[str, float]] = []
    top = 4.0
    for variant, lane in lanes.items():
        stacked = [node for node in lane if node not in joins]
        if not stacked:
            continue
        boxes += _stack(stacked, columns, top)
        if variant:
            labels.append((variant, top + HEIGHT / 2))
        top = max(box.y for box in boxes) + ROW + (0 if variant else GAP)
    middle = [place for _, place in labels] or [top - ROW + HEIGHT / 2]
    centre = (middle[0] + middle[-1]) / 2 - HEIGHT / 2
    boxes += _stack([node for node in nodes if node in joins], columns, centre)
    return Picture(
        width=max(box.x for box in boxes) + WIDTH + 4,
        height=max(box.y for box in boxes) + HEIGHT + 4,
        boxes=tuple(boxes),
        ways=_ways(boxes, found),
        labels=tuple(labels),
    )


def _source(candidates: Sequence[Node], target: Node, label: str) -> Node | None:
    """Two variants may make the same thing: their own comes first, then what the input is called."""
    return max(
        candidates,
        key=lambda node: (node.name == label, node.variant == target.variant, node.variant is None),
        default=None,
    )


def _with_implied(found: Sequence[Edge]) -> list[Edge]:
    followers: dict[Node, set[Node]] = {}
    for edge in found:
        followers.setdefault(edge.source, set()).add(edge.target)

    def reached(start: Iterable[Node]) -> set[Node]:
        seen: set[Node] = set()
        waiting = list(start)
        while waiting:
            for node in followers.get(waiting.pop(), set()) - seen:
                seen.add(node)
                waiting.append(node)
        return seen

    beyond = {source: reached(targets) for source, targets in followers.items()}
    return [Edge(edge.source, edge.target, edge.target in beyond[edge.source]) for edge in found]


def _columns(nodes: Sequence[Node], found: Sequence[Edge]) -> dict[str, int]:
    """A column per stage: one more than the last of those that it follows."""
    after: dict[str, set[str]] = {node.stage: set(_AFTER.get(node.stage, ())) for node in nodes}
    for edge in found:
        after[edge.target.stage].add(edge.source.stage)
    column = dict.fromkeys(after, 0)
    # As often as there are stages is enough for the longest way, and ends if receipts should name each other.
    for _ in after:
        for stage, earlier in after.items():
            column[stage] = max((column[one] + 1 for one in earlier if one in column), default=0)
    return column


def _stack(nodes: Iterable[Node], columns: Mapping[str, int], top: float) -> list[Box]:
    filled: dict[int, int] = {}
    boxes = []
    for node in nodes:
        column = columns[node.stage]
        row = filled.get(column, 0)
        filled[column] = row + 1
        boxes.append(Box(node, 4 + column * STEP, top + row * ROW))
    return boxes


def _ways(boxes: Sequence[Box], found: Sequence[Edge]) -> tuple[tuple[str, Edge], ...]:
    at = {box.node: box for box in boxes}
    ways = []
    # Implied ones first, so that the others lie on top.
    for edge in sorted(found, key=lambda edge: not edge.implied):
        start, end = at[edge.source], at[edge.target]
        x1, y1, x2, y2 = start.x + WIDTH, start.y + HEIGHT / 2, end.x, end.y + HEIGHT / 2
        bend = (x1 + x2) / 2 if x2 - x1 < STEP else x1 + (STEP - WIDTH)
        ways.append((f"M{x1:g} {y1:g}C{bend:g} {y1:g} {x2 - (STEP - WIDTH):g} {y2:g} {x2:g} {y2:g}", edge))
    return tuple(ways)
