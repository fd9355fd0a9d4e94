"""Host memory to compile, to load and to serve, after what published builds were seen to take.

Departs from `recipes.memory`, which reserves memory for jobs of the workflow and leans to the high side: these are the
published peaks themselves, scaled.
- Compile: 7.5 GB for a decode graph of E2B's depth with weights as parameters, 38 GB for chunks of 512 over 131,072
  rows. A tracer that holds weights takes far more (182 GB for 31B); here it holds none.
- Load: 14.4 to 14.5 GB for 4.56 GB of weights as two inlined graphs, the same at TP=2. One host of 32 GiB without swap
  saw 19.5 GB. Weights kept beside the graphs should take less: UNCONFIRMED, so it is not counted on.
- Serve, slim: the tables, which are mapped and may all be touched, and about 3 GB for each rank (12B at TP=2: 8 GB
  with tables of 2). Not slim: the model in float32, which has the tables in it.
"""

from __future__ import annotations

from dataclasses import dataclass

from config.geometry import Geometry
from recipes.fit.hbm import Hbm
from recipes.memory import text_parameters

COMPILE_PER_LAYER = 7.5e9 / 35
COMPILE_PER_AREA = (38e9 - 7.5e9) / (512 * 131_072)
LOAD_PER_WEIGHT = 14.5 / 4.56
RANK = 3_000_000_000
_BF16, _FLOAT32 = 2, 4


@dataclass(frozen=True)
class Host:
    """Bytes of host memory: the peak while compiling and while loading, and what serving holds."""

    compile: int
    load: int
    serve: int


def host_of(geometry: Geometry, hbm: Hbm, widest: int, tp: int, slim: bool) -> Host:
    """The host memory of a variant; `widest` is the larger `hbm.area` of its graphs."""
    model = 0 if slim else _FLOAT32 * text_parameters(geometry)
    return Host(
        compile=round(COMPILE_PER_LAYER * geometry.num_hidden_layers + COMPILE_PER_AREA * widest),
        load=round(LOAD_PER_WEIGHT * hbm.weights * tp) + model,
        serve=RANK * tp + (table_bytes(geometry) if slim else model),
    )


def table_bytes(geometry: Geometry) -> int:
    """Bytes of the token and per-layer embedding tables, in bfloat16."""
    per_layer = geometry.hidden_size_per_layer_input * geometry.num_hidden_layers
    tokens = geometry.vocab_size * geometry.hidden_size
    return _BF16 * (tokens + per_layer * geometry.vocab_size_per_layer_input)
