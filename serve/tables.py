"""Host tables: the token and per-layer embeddings, gathered row by row and never put on the device.

Rows are stored in bfloat16 as in the checkpoint, cast up to float32, scaled there by the exact square root of
the width, and only then cast to the graph's dtype. The library's own bfloat16 path rounds the scale first and is
off by up to 0.25 %; the float32 reference is what parity is held to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from serve.manifest import Model
from serve.tensorfile import TensorFile

Ids = Sequence[int] | npt.NDArray[np.int64]
TOKENS = "embed_tokens.weight"
PER_LAYER = "embed_tokens_per_layer.weight"


class HostTables:
    """Token table [V, H] and, where the model has one, per-layer table [V, L * P]."""

    def __init__(self, path: Path, model: Model, *, slim: bool) -> None:
        """Map the tables; a slim variant touches only the pages it gathers, others are read ahead."""
        file = TensorFile(path, read_ahead=not slim)
        self._tokens = file[TOKENS]
        self._token_scale = np.float32(math.sqrt(model.hidden_size))
        self._per_layer = file[PER_LAYER] if model.ple_width else None
        self._per_layer_scale = np.float32(math.sqrt(model.ple_width))

    def embed(self, ids: Ids, out: npt.NDArray[np.generic]) -> None:
        """Write scaled token embeddings of `ids` to `out` [len(ids), H]."""
        out[:] = self._tokens[ids].astype(np.float32) * self._token_scale

    def embed_per_layer(self, ids: Ids, out: npt.NDArray[np.generic]) -> None:
        """Write scaled per-layer embeddings of `ids` to `out` [len(ids), L, P]."""
        if self._per_layer is None:
            return
        rows = self._per_layer[ids].astype(np.float32) * self._per_layer_scale
        out[:] = rows.reshape(out.shape)
