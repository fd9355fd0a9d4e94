"""Small random checkpoints, and artifacts built from it by the work functions of the real stages.

Nothing is trained: weights are noise, exact in bfloat16, and every layer scalar differs from 1. The geometry is the
demo's with everything smaller: both kinds of attention, owning and shared, two KV heads for four query heads,
per-layer embeddings, and sizes whose square roots are irrational. KIND_CONFIGS are the other kinds of the family, each
from its own small geometry. The checkpoint folder has the traps of the official
ones: keys of the shared layers that nothing may load, and keys of the towers.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from pydantic import BaseModel
from torch import Tensor

from config.geometry import load_text_config
from ledger.digest import digest_json
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome
from ledger.store import Store
from recipes import assemble, lowering, tables, weights
from recipes import compile as compiling
from recipes.assemble import AssembleRecipe
from recipes.compile import CompileRecipe
from recipes.lowering import LowerRecipe
from recipes.tables import TablesRecipe
from recipes.weights import WeightsRecipe
from serve.manifest import Point

PREFIX = "model.language_model."
BOS, STOP = 2, (1, 106)
WINDOW = 12

TEXT_CONFIG: dict[str, Any] = load_text_config("tiny") | {
    "num_hidden_layers": 5,
    "num_kv_shared_layers": 2,
    "layer_types": [f"{kind}_attention" for kind in ("sliding", "sliding", "full", "sliding", "full")],
    "hidden_size": 96,
    "intermediate_size": 128,
    "head_dim": 16,
    "global_head_dim": 32,
    "num_key_value_heads": 2,
    "hidden_size_per_layer_input": 24,
    "sliding_window": WINDOW,
    "vocab_size": 512,
    "vocab_size_per_layer_input": 512,
    "max_position_embeddings": 256,
}

_SHORT: dict[str, Any] = {
    "num_hidden_layers": 2,
    "layer_types": ["sliding_attention", "full_attention"],
    "hidden_size": 96,
    "intermediate_size": 128,
    "sliding_window": WINDOW,
    "vocab_size": 512,
    "vocab_size_per_layer_input": 512,
    "max_position_embeddings": 256,
}
# Sliding and full layers differ in their KV heads, for 16 query heads: 8 and 1 (as 12B), 8 and 2 (as 26B); 32 query
# heads for 16 and 4 (as 31B).
KIND_CONFIGS: dict[str, dict[str, Any]] = {
    "unified": load_text_config("tiny-unified") | _SHORT,
    "moe": load_text_config("tiny-moe") | _SHORT | {"num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 40},
    "dense": load_text_config("tiny-dense") | _SHORT,
}


def point(kv_max: int = 44, kv_bucket: int = 8, **changes: Any) -> Point:
    """A variant; unless changed it is float32 for target cpu, and its ring has 20 rows."""
    usual = {"tp": 1, "batch": 1, "slim": False, "dtype": "float32", "kv": "device", "target": "cpu"}
    name = changes.pop("name", f"{kv_max}-{kv_bucket}")
    return Point.model_validate(usual | {"name": name, "kv_max": kv_max, "kv_bucket": kv_bucket} | changes)


def random_model(text_config: dict[str, Any], seed: int) -> Any:
    """The library's own causal model in float32 with random weights that bfloat16 holds exactly.

    Query norms are small, so that attention spreads over many positions and rounding is not amplified.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.manual_seed(seed)
    typed = AutoConfig.for_model(**text_config)
    # By loops over experts, as the model was published, and not by the sorted products of later versions.
    model = AutoModelForCausalLM.from_config(typed, dtype=torch.float32, experts_implementation="eager").eval()
    with torch.no_grad():
        for name, tensor in (*model.named_parameters(), *model.named_buffers()):
            if name.endswith("layer_scalar"):
                tensor.uniform_(0.3, 0.9)
            elif name.endswith("q_norm.weight"):
                tensor.uniform_(0.2, 0.5)
            elif tensor.ndim == 1 and "inv_freq" not in name and "embed_scale" not in name:
                tensor.uniform_(0.5, 1.5)
            elif name.endswith("router.proj.weight"):
                # Scores apart enough that rounding does not choose the experts.
                tensor.normal_(0.0, 1.0)
            elif tensor.ndim > 1:
                tensor.normal_(0.0, 0.3 if "embed" in name else 0.05)
            else:
                continue
            tensor.copy_(tensor.bfloat16())
    model.tie_weights()
    return model


def text_tensors(model: Any) -> dict[str, Tensor]:
    """The model's tensors in bfloat16, under the names that an official checkpoint has."""
    state: dict[str, Tensor] = model.state_dict()
    state = {name: tensor for name, tensor in state.items() if name.startswith("model.")}
    return {PREFIX + name.removeprefix("model."): tensor.bfloat16().clone() for name, tensor in state.items()}


def traps(text_config: dict[str, Any]) -> dict[str, Tensor]:
    """What official files hold besides: K and V of shared layers, and towers."""
    first = text_config["num_hidden_layers"] - text_config["num_kv_shared_layers"]
    names = [f"{PREFIX}layers.{first}.self_attn.{part}.weight" for part in ("k_proj", "v_proj", "k_norm")]
    names = names if text_config["num_kv_shared_layers"] else []
    names += ["model.vision_tower.std_bias", "model.audio_tower.a", "model.embed_vision.b", "model.embed_audio.c"]
    return {name: torch.full((2, 3), 99.0, dtype=torch.bfloat16) for name in names}


def write_checkpoint(folder: Path, text_config: dict[str, Any], tensors: dict[str, Tensor]) -> None:
    """A folder in the official layout, with a tokenizer that nobody asks."""
    from safetensors.torch import save_file

    save_file(tensors, folder / "model.safetensors")
    documents = {
        "config.json": {"model_type": text_config["model_type"].removesuffix("_text"), "text_config": text_config},
        "generation_config.json": {"bos_token_id": BOS, "eos_token_id": list(STOP)},
        "tokenizer.json": {},
        "tokenizer_config.json": {},
    }
    for name, document in documents.items():
        (folder / name).write_text(json.dumps(document))
    (folder / "chat_template.jinja").write_text("{{ messages }}")


def receipt(stage: str, outcome: Outcome) -> Receipt:
    """The receipt that the driver would write for `outcome`."""
    return Receipt(
        stage=stage,
        key=digest_json(stage),
        recipe={},
        inputs={},
        outputs=outcome.outputs,
        facts=outcome.facts,
        measured={},
        toolchain={f"{stage}-tool": "1"},
        source="",
        verdict="done",
    )


def fetched(folder: Path, store: Store) -> Receipt:
    """The fetch receipt of a checkpoint folder, whose files are kept in `store`."""
    outputs = {path.name: store.put_file(path) for path in sorted(folder.iterdir())}
    facts = {"bos": BOS, "stop_ids": STOP, "suppress_tokens": (), "revision": "r" * 40, "licence": "apache-2.0"}
    return receipt("fetch", Outcome(outputs=outputs, facts=facts))


def job(recipe: BaseModel, store: Store, **inputs: Receipt) -> Job[Any]:
    """What a stage's work function takes."""
    return Job(recipe=recipe, inputs=inputs, store=store)


def stages(fetch: Receipt, store: Store, variant: Point) -> dict[str, Receipt]:
    """Receipts of every stage up to compile, by stage."""
    lower = LowerRecipe.model_validate({name: getattr(variant, name) for name in LowerRecipe.model_fields})
    lowered = receipt("lower", lowering.work(job(lower, store, fetch=fetch)))
    compiled = receipt("compile", compiling.work(job(CompileRecipe(target=variant.target), store, lower=lowered)))
    weight = WeightsRecipe(dtype=variant.dtype, tp=variant.tp, target=variant.target)
    return {
        "fetch": fetch,
        "lower": lowered,
        "compile": compiled,
        "weights": receipt("weights", weights.work(job(weight, store, fetch=fetch))),
        "tables": receipt("tables", tables.work(job(TablesRecipe(), store, fetch=fetch))),
    }


def build_artifact(folder: Path, model: Any, variant: Point) -> Path:
    """Build `model` as `variant` below `folder`, which may hold other variants of it; returns the artifact folder."""
    checkpoint, build, store = folder / "checkpoint", folder / "build", Store(folder / "store")
    if not checkpoint.exists():
        checkpoint.mkdir(parents=True)
        text_config: dict[str, Any] = model.config.to_dict()
        write_checkpoint(checkpoint, text_config, text_tensors(model) | traps(text_config))
    receipts = stages(fetched(checkpoint, store), store, variant)
    assemble.build(job(AssembleRecipe(checkpoint="random", variant=variant), store, **receipts), build)
    return build / "variants" / variant.name


def continuation(model: Any, ids: list[int], count: int) -> list[int]:
    """The `count` tokens that transformers' own greedy generate puts after `ids`, with its own cache."""
    prompt = torch.tensor([ids])
    # Without a mask the library takes every pad token of the prompt for padding.
    made = model.generate(
        prompt,
        attention_mask=torch.ones_like(prompt),
        max_new_tokens=count,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
    )
    answer: list[int] = made[0, len(ids) :].tolist()
    return answer
