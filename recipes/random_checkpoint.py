"""A checkpoint of random weights at the true size of a geometry, in the official layout, written by streaming.

It has every tensor of the published file under its name, towers and decoys included, so that loading, memory and speed
can be measured at full size without Google's weights. What it says is noise: random weights amplify rounding, so
bfloat16 parity on them proves little.
"""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import ml_dtypes
import numpy as np
import numpy.typing as npt

from config.heldout import HELDOUT_MODULES
from ledger.stage import say
from recipes.kinds import kind_of
from recipes.tensorwriter import header_of
from recipes.tiny import stream, tokenizer, writing
from recipes.tiny.corpus import read_corpus
from serve.manifest import Parameter

_CHUNK = 1 << 25  # elements made at a time: 64 MB of bfloat16
_MAGNITUDE = 127 - 6  # biased exponent: absolute values in [1/64, 1/32), about the initializer range of the library
# Ranges of vectors by the end of their names, as the published files have them. The scale of attention is 1, so key
# norms near 1 would make every softmax one-hot, and rounding alone would decide what is attended to.
_RANGES = {"layer_scalar": (0.1, 0.6), "k_norm.weight": (0.06, 0.18)}
_NORMS = (0.5, 1.5)


def build_random(folder: Path, *, geometry: Path, seed: int) -> dict[str, Any]:
    """Write the checkpoint into the existing, empty `folder`; the same seed gives the same bytes."""
    config = json.loads(geometry.read_text(encoding="utf-8"))
    tensors = tuple(checkpoint_tensors(config))
    header, ordered = header_of(tensors)
    say(f"random: {len(tensors)} tensors, {sum(math.prod(t.shape) for t in tensors) * 2 / 1e9:.2f} GB")
    with (folder / "model.safetensors").open("wb") as file:
        file.write(header)
        for tensor in ordered:
            for chunk in values(tensor, seed):
                file.write(chunk.view(np.uint8).data)
    corpus = read_corpus(HELDOUT_MODULES)
    vocabulary = tokenizer.train_tokenizer(
        (stream.plain(doc) for doc in corpus.train),
        vocab_size=config["text_config"]["vocab_size"],
        specials=tokenizer.special_ids(config),
    )
    tokenizer.write_tokenizer(vocabulary, folder)
    writing.write_generation_config(config, folder)
    shutil.copyfile(geometry, folder / "config.json")
    shutil.copyfile(stream.TEMPLATE, folder / "chat_template.jinja")
    return {"seed": seed, "tensors": len(tensors)}


def checkpoint_tensors(config: dict[str, Any]) -> Iterator[Parameter]:
    """Every tensor that the published file of this geometry holds, from the library's own module tree."""
    import torch

    kind = kind_of(config, "config.json")
    typed = kind.config()(**config)
    with torch.device("meta"):
        state = kind.full_model()(typed).state_dict()
    shapes = {writing.published_name(n): tuple(t.shape) for n, t in state.items() if n != "lm_head.weight"}
    for name, shape in (shapes | writing.decoy_shapes(typed.text_config)).items():
        yield Parameter(name=name, role="weight", shape=shape, dtype="bfloat16")


def values(tensor: Parameter, seed: int) -> Iterator[npt.NDArray[Any]]:
    """The tensor's elements, flat and in pieces: vectors in ranges of their kind, matrices small and of both signs."""
    generator = np.random.default_rng((seed, crc32(tensor.name.encode())))
    count = math.prod(tensor.shape)
    if len(tensor.shape) < 2:
        low, high = next((found for end, found in _RANGES.items() if tensor.name.endswith(end)), _NORMS)
        yield generator.uniform(low, high, count).astype(ml_dtypes.bfloat16)
        return
    for start in range(0, count, _CHUNK):
        bits = np.frombuffer(generator.bytes(2 * min(_CHUNK, count - start)), np.uint16)
        # Random sign and mantissa under one exponent: an order of magnitude cheaper than a normal distribution.
        yield ((bits & 0x807F) | np.uint16(_MAGNITUDE << 7)).view(ml_dtypes.bfloat16)
