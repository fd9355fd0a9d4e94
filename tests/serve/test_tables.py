"""Table rows against transformers' scaled embedding in float32."""

from __future__ import annotations

import math
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from transformers.models.gemma4.modeling_gemma4 import Gemma4TextScaledWordEmbedding

from serve.manifest import Model
from serve.tables import PER_LAYER, TOKENS, HostTables

VOCABULARY, LAYERS = 40, 3
IDS = [0, 39, 7, 7, 12]


def tables(folder: Path, hidden: int, ple: int) -> tuple[HostTables, dict[str, torch.Tensor]]:
    torch.manual_seed(hidden)
    stored = {TOKENS: torch.randn(VOCABULARY, hidden).bfloat16()}
    if ple:
        stored[PER_LAYER] = torch.randn(VOCABULARY, LAYERS * ple).bfloat16()
    save_file(stored, folder / "tables.safetensors")
    model = Model(hidden_size=hidden, layers=LAYERS, ple_width=ple, vocab_size=VOCABULARY, sliding_window=8)
    return HostTables(folder / "tables.safetensors", model, slim=False), stored


def of_the_library(table: torch.Tensor, width: int) -> torch.Tensor:
    """Rows of `IDS` in float32."""
    embedding = Gemma4TextScaledWordEmbedding(*table.shape, padding_idx=0, embed_scale=width**0.5)
    with torch.no_grad():
        embedding.weight.copy_(table.float())
        rows: torch.Tensor = embedding(torch.tensor(IDS))
    return rows


@pytest.mark.parametrize("hidden", [96, 64, 1536, 2560, 3])
def test_rows_are_bit_equal_in_float32(tmp_path: Path, hidden: int) -> None:
    host, stored = tables(tmp_path, hidden, ple=24)
    rows = np.full((len(IDS), hidden), np.nan, np.float32)
    host.embed(IDS, rows)
    assert rows.tobytes() == of_the_library(stored[TOKENS], hidden).numpy().tobytes()
    layers = np.full((len(IDS), LAYERS, 24), np.nan, np.float32)
    host.embed_per_layer(IDS, layers)
    assert layers.tobytes() == of_the_library(stored[PER_LAYER], 24).numpy().tobytes()


def test_bfloat16_rows_are_float32_rounded_once(tmp_path: Path) -> None:
    host, stored = tables(tmp_path, 96, ple=24)
    rows = np.empty((len(IDS), 96), ml_dtypes.bfloat16)
    host.embed(IDS, rows)
    exact = of_the_library(stored[TOKENS], 96)
    assert rows.tobytes() == exact.bfloat16().view(torch.uint8).numpy().tobytes()
    # The library's own bfloat16 path rounds the scale as well; if it agreed, this test would prove nothing.
    twice = stored[TOKENS][IDS] * torch.tensor(math.sqrt(96)).bfloat16()
    assert not torch.equal(twice, exact.bfloat16())


def test_a_model_without_per_layer_embeddings_needs_no_table(tmp_path: Path) -> None:
    host, _ = tables(tmp_path, 64, ple=0)
    host.embed_per_layer([1], np.empty((1, LAYERS, 0), np.float32))


def test_a_slim_variant_touches_only_what_it_gathers(tmp_path: Path) -> None:
    hidden, vocabulary = 1024, 1 << 16
    path = tmp_path / "tables.safetensors"
    save_file({TOKENS: torch.zeros(1, hidden, dtype=torch.bfloat16)}, path)
    content = path.read_bytes()
    small, large = f"[1,{hidden}]", f"[{vocabulary},{hidden}]"
    header = content[8:].split(b"\0")[0].decode()
    header = header.replace(small, large).replace(f"[0,{2 * hidden}]", f"[0,{2 * hidden * vocabulary}]")
    path.write_bytes(len(header).to_bytes(8, "little") + header.encode())
    with path.open("r+b") as file:
        file.truncate(8 + len(header) + 2 * hidden * vocabulary)  # 128 MiB, of which the disk holds the first page
    model = Model(hidden_size=hidden, layers=1, ple_width=0, vocab_size=vocabulary, sliding_window=8)
    host = HostTables(path, model, slim=True)
    host.embed([5, 60_000], np.empty((2, hidden), np.float32))
    assert resident(path) < 1 << 20


def resident(path: Path) -> int:
    """Bytes of the mapping of `path` that this process holds in memory (Linux)."""
    mapping = Path("/proc/self/smaps").read_text().split(str(path.resolve()))[1]
    found = re.search(r"Rss: +(\d+) kB", mapping)
    assert found is not None
    return int(found[1]) * 1024
