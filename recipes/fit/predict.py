"""Device memory of points that nobody has lowered: other degrees, contexts and batches of one checkpoint."""

from __future__ import annotations

from typing import Any

from config.builders import Builder
from config.geometry import Geometry
from recipes.fit.hbm import Hbm, hbm_of
from recipes.fit.signatures import Shapes
from serve.manifest import GRAPHS, DType


class Predictor:
    """Answers for one checkpoint and dtype on target inf2; each degree's model is built when it is first asked for."""

    def __init__(self, text_config: dict[str, Any], geometry: Geometry, dtype: DType) -> None:
        self._text_config, self._dtype = text_config, dtype
        self.geometry = geometry
        self._shapes: dict[int, Shapes] = {}

    def hbm(
        self, tp: int, kv_max: int, kv_bucket: int, batch: int = 1, kv: str = "device", builder: Builder = "nxd"
    ) -> Hbm:
        """Memory of one core; BadInput for a degree that cannot share the model."""
        if tp not in self._shapes:
            self._shapes[tp] = Shapes(self._text_config, tp, self._dtype, "inf2")
        pair = {graph: self._shapes[tp].signature(graph, kv_max, kv_bucket, batch) for graph in GRAPHS}
        return hbm_of(pair, self.geometry.num_hidden_layers, kv, builder)
