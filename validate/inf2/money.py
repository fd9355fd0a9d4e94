"""What a machine may cost: bounds that hold whatever AWS charges within them.

The price of a spot machine is bounded by the request itself (MaxPrice), that of one on demand and of any disk by the
price table times `price_margin`; the hours are bounded by the machine's own timer, which nobody has to be alive for. So
what an attempt can cost is known before it is asked for, and one that could pass the ceiling is not asked for. Traffic
and the public address (half a cent an hour) are not counted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

Market = Literal["spot", "on-demand"]

GRACE = 10
"""Minutes that may be billed beside the timer's: before the machine sets it, and while it shuts down."""
LEAST = 20
"""Minutes below which a machine is not worth its start."""
DISK_USD = 0.08 / 730
"""US dollars for a GB of gp3 and an hour: 0.08 a month in us-east-1."""
_FLOOR = 1e4  # MaxPrice has four decimals here, rounded down
_ROOM = 1.1  # over today's spot price, so that a small rise does not end the machine


@dataclass(frozen=True)
class Terms:
    """On what terms one machine is asked for: `price` per hour at most, `usd` with its disk, `minutes` of its timer."""

    market: Market
    price: float
    usd: float
    minutes: int

    @property
    def reserve(self) -> float:
        """US dollars that it can cost at most."""
        return self.usd * (self.minutes + GRACE) / 60


@dataclass(frozen=True)
class Limits:
    """What bounds any machine of a run: US dollars per hour on demand and for the disk, and minutes."""

    on_demand: float
    disk: float
    minutes: int

    def on_demand_terms(self, left: float) -> Terms | None:
        """The terms on demand with `left` dollars; None when they buy too little time."""
        return self._terms("on-demand", self.on_demand, left)

    def spot_terms(self, left: float, spot: float | None) -> Terms | None:
        """The terms of a spot machine whose price is `spot` today (None: not known); None when there is no way.

        All the time is bought where the price allows it, under the highest price at which `left` still pays for it;
        else less time, a little above today's price.
        """
        whole = math.floor((left * 60 / (self.minutes + GRACE) - self.disk) * _FLOOR) / _FLOOR
        highest = math.floor(self.on_demand * _FLOOR) / _FLOOR
        today = highest if spot is None else min(highest, math.ceil(spot * _ROOM * _FLOOR) / _FLOOR)
        return self._terms("spot", min(highest, max(whole, today)), left)

    def _terms(self, market: Market, price: float, left: float) -> Terms | None:
        usd = price + self.disk
        # Minutes are rounded down, with room for the last bit of a float.
        minutes = min(self.minutes, math.floor(left / usd * 60 * (1 - 1e-9)) - GRACE)
        return Terms(market, price, usd, minutes) if minutes >= min(LEAST, self.minutes) else None
