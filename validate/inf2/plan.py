"""Which variant would run where, and what it may cost: `python -m validate.inf2 plan CONFIG`. Starts nothing.

Prices on demand are those of the price table and need no network. Today's spot prices are asked for with --prices,
which needs credentials that may list zones and prices.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from config.cloud import Inf2
from config.geometry import load_text_config
from config.models import Checkpoint
from ledger.columns import aligned
from ledger.errors import BadInput
from ledger.flags import Parser
from ledger.stage import say
from recipes.fit.instances import GIB
from recipes.fit.predict import Predictor
from validate.inf2.asking import limits_of
from validate.inf2.clients import Clients
from validate.inf2.clock import Clock
from validate.inf2.failed import RentFailed
from validate.inf2.places import Map
from validate.inf2.section import add_config, configured
from validate.inf2.sizes import size_of
from validate.inf2.telling import progress


@dataclass(frozen=True)
class Row:
    """One variant: its machine, GiB of host memory, US dollars an hour and in all at most, minutes, and places."""

    variant: str
    machine: str = ""
    host_gib: int = 0
    usd_per_hour: float = 0.0
    minutes: int = 0
    most_usd: float = 0.0
    places: tuple[str, ...] = ()
    cannot: str = ""


def main(argv: Sequence[str], clients: Clients | None = None) -> int:
    """Print the plan; RentFailed when a variant can be rented nowhere."""
    parser = Parser("validate.inf2 plan", (__doc__ or "").splitlines()[0])
    add_config(parser)
    parser.add_argument("--prices", action="store_true", help="ask AWS which zones have it, and for how much now")
    parser.add_argument("--json", action="store_true", help="print a JSON object instead of a table")
    flags = parser.parse_args(argv)
    factory, cloud = configured(*flags.config)
    asked = _Prices(clients or Clients(), cloud) if flags.prices else None
    rows = [row for checkpoint in factory.checkpoints.values() for row in _rows(checkpoint, cloud, asked)]
    if not rows:
        raise BadInput(
            f"{' and '.join(map(str, flags.config))}: no variant has target inf2; accepted: a configuration with one"
        )
    if flags.json:
        say(json.dumps({"variants": [asdict(row) for row in rows]}, indent=1))
    else:
        _table(rows, cloud)
    if cannot := next((row.cannot for row in rows if row.cannot), ""):
        raise RentFailed(cannot)
    return 0


class _Prices:
    """Zones and spot prices of each kind, asked for once."""

    def __init__(self, clients: Clients, cloud: Inf2) -> None:
        self._clients, self._cloud = clients, cloud
        self._known: dict[str, tuple[str, ...]] = {}

    def of(self, kind: str) -> tuple[str, ...]:
        """Each zone with its price."""
        if kind not in self._known:
            found = Map(self._clients, self._cloud, kind, Clock().now).places(progress)
            self._known[kind] = tuple(
                f"{one.zone} {'?' if one.spot is None else format(one.spot, '.4f')}" for one in found
            )
        return self._known[kind]


def _rows(checkpoint: Checkpoint, cloud: Inf2, prices: _Prices | None) -> list[Row]:
    rows = []
    predictors: dict[str, Predictor] = {}
    for variant in checkpoint.variants:
        if variant.target != "inf2":
            continue
        name, geometry = f"{checkpoint.name}/{variant.name}", checkpoint.load_geometry()
        if variant.dtype not in predictors:
            text = load_text_config(checkpoint.geometry_source)
            predictors[variant.dtype] = Predictor(text, geometry, variant.dtype)
        try:
            kind, need = size_of(name, variant, geometry, predictors[variant.dtype])
        except RentFailed as error:
            rows.append(Row(name, cannot=str(error)))
            continue
        limits = limits_of(cloud, kind)
        terms = limits.on_demand_terms(cloud.ceiling_usd) if cloud.on_demand else None
        terms = terms or limits.spot_terms(cloud.ceiling_usd, None)
        places = prices.of(kind.name) if prices else tuple(cloud.regions)
        gib = round(need / GIB)
        if terms is None:
            said = f"{name}: inf2.ceiling_usd is {cloud.ceiling_usd:g}; accepted: more, as it buys no {kind.name}"
            rows.append(Row(name, kind.name, gib, places=places, cannot=said))
            continue
        rows.append(Row(name, kind.name, gib, round(terms.usd, 4), terms.minutes, round(terms.reserve, 2), places))
    return rows


def _table(rows: Sequence[Row], cloud: Inf2) -> None:
    heads = ("variant", "machine", "host GiB", "USD/h at most", "minutes", "USD at most", "where")
    lines = [heads]
    for row in rows:
        figures = (f"{row.usd_per_hour:.2f}", str(row.minutes), f"{row.most_usd:.2f}")
        lines.append((row.variant, row.machine or "none", str(row.host_gib), *figures, ", ".join(row.places)))
    for line in aligned(lines):
        say(line)
    for row in rows:
        if row.cannot:
            say(row.cannot)
    markets = "spot, then on demand" if cloud.on_demand else "spot alone"
    say(f"{markets}; at most {cloud.ceiling_usd:g} USD for each variant, {cloud.ceiling_usd * len(rows):g} for all")
