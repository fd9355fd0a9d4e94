"""The official folder layout: bfloat16 shards with an index, and the JSON and template files beside them.

Departs from `save_pretrained` on purpose, to hold what the official files hold and the library would not
write: k_proj, v_proj and k_norm of the layers that share K and V (untrained, never read), and no lm_head.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

SHARDS = 2
DECOY_BOUND = 0.055
TEXT = "model.language_model."
UNIFIED = re.compile(r"model\.embed_vision\.(?=patch_|pos_)")


def write_weights(model: Any, folder: Path, seed: int) -> int:
    """Write the shards and model.safetensors.index.json; the number of tensors. Every tensor is rounded to bfloat16."""
    state = {published_name(name): tensor for name, tensor in model.state_dict().items() if name != "lm_head.weight"}
    state |= dict(_decoys(model.config.text_config, seed))
    rounded = {name: state[name].detach().to(torch.bfloat16).contiguous() for name in sorted(state)}
    shards = _split(rounded)
    weight_map: dict[str, str] = {}
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file({name: rounded[name] for name in names}, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    total = sum(tensor.nbytes for tensor in rounded.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    write_json(folder / "model.safetensors.index.json", index)
    return len(rounded)


def write_generation_config(config: Mapping[str, Any], folder: Path) -> None:
    """The settings of the official 12B: three stop ids, sampling on, the ends of audio and image suppressed."""
    settings = {
        "bos_token_id": 2,
        "do_sample": True,
        "eos_token_id": [1, 106, 50],
        "pad_token_id": 0,
        "suppress_tokens": [config["eoa_token_index"], config["eoi_token_id"]],
        "temperature": 1.0,
        "top_k": 64,
        "top_p": 0.95,
        "transformers_version": config["transformers_version"],
    }
    write_json(folder / "generation_config.json", settings)


def write_json(path: Path, value: Any) -> None:
    """As the official files: two spaces, sorted keys, newline at the end."""
    path.write_text(json.dumps(value, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def published_name(name: str) -> str:
    """The name that a tensor of the full model has in published files.

    The library renames those of the unified class as it loads them (its conversion mapping), and back as it saves.
    """
    return UNIFIED.sub("model.vision_embedder.", name).replace("embed_vision.multimodal_embedder.", "embed_vision.")


def decoy_shapes(text: Any) -> dict[str, tuple[int, ...]]:
    """Name and shape of the tensors that sharing layers store and nothing reads, from a typed text configuration."""
    shapes: dict[str, tuple[int, ...]] = {}
    for layer in range(text.num_hidden_layers - text.num_kv_shared_layers, text.num_hidden_layers):
        full = text.layer_types[layer] == "full_attention"
        head = text.global_head_dim if full else text.head_dim
        prefix = f"{TEXT}layers.{layer}.self_attn."
        shapes[f"{prefix}k_norm.weight"] = (head,)
        shapes[f"{prefix}k_proj.weight"] = (text.num_key_value_heads * head, text.hidden_size)
        shapes[f"{prefix}v_proj.weight"] = (text.num_key_value_heads * head, text.hidden_size)
    return shapes


def _decoys(text: Any, seed: int) -> Iterator[tuple[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(seed)
    for name, shape in decoy_shapes(text).items():
        yield name, torch.empty(shape).uniform_(-DECOY_BOUND, DECOY_BOUND, generator=generator)


def _split(tensors: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """Names in order, cut where each shard has had its share of the bytes."""
    share = sum(tensor.nbytes for tensor in tensors.values()) / SHARDS
    shards: list[list[str]] = [[] for _ in range(SHARDS)]
    before = 0
    for name, tensor in tensors.items():
        shards[min(SHARDS - 1, int(before / share))].append(name)
        before += tensor.nbytes
    return shards
