"""The shape of a Gemma 4 text model, as a typed view of the official config.json.

It departs from a transformers configuration in three ways. Only the facts that the foundry computes with are
kept. A key without which the shape would be guessed is required: the library fills an omitted `layer_types`
with a period of 6, which builds a wrong E2B without an error. And nothing is imported to read it, so a
Snakefile can.
"""

import json
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from ledger.errors import BadInput, explain

DATA_FILES: tuple[str, ...] = ("geometry/*.json",)
_FOLDER = Path(__file__).parent / "geometry"

LayerType = Literal["sliding_attention", "full_attention"]


class Geometry(BaseModel):
    """Shape of one text model; the fields are keys of `text_config` and keep the spelling they have there."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    name: str = Field(description="name of the geometry, or the path it was read from")
    num_hidden_layers: PositiveInt
    hidden_size: PositiveInt
    intermediate_size: PositiveInt
    num_attention_heads: PositiveInt
    num_key_value_heads: PositiveInt
    num_global_key_value_heads: PositiveInt | None = None
    head_dim: PositiveInt
    global_head_dim: PositiveInt
    layer_types: tuple[LayerType, ...]
    sliding_window: PositiveInt
    num_kv_shared_layers: int = Field(ge=0)
    use_double_wide_mlp: bool
    hidden_size_per_layer_input: int = Field(ge=0)
    vocab_size: PositiveInt
    vocab_size_per_layer_input: PositiveInt
    max_position_embeddings: PositiveInt
    final_logit_softcapping: float | None = None
    attention_k_eq_v: bool = False
    enable_moe_block: bool = False
    num_experts: PositiveInt | None = None
    top_k_experts: PositiveInt | None = None
    moe_intermediate_size: PositiveInt | None = None

    @model_validator(mode="after")
    def _layers_agree(self) -> Self:
        if len(self.layer_types) != self.num_hidden_layers:
            raise ValueError(
                f"layer_types: found {len(self.layer_types)} entries; accepted: one for each of the "
                f"{self.num_hidden_layers} layers of num_hidden_layers"
            )
        if self.layer_types[-1] != "full_attention":
            raise ValueError("layer_types: found sliding_attention in the last layer; accepted: full_attention")
        unowned = {self.layer_types[i] for i in self.shared_layers} - {self.layer_types[i] for i in self.owner_layers}
        if unowned:
            raise ValueError(
                f"num_kv_shared_layers: found {self.num_kv_shared_layers}, which leaves "
                f"{', '.join(sorted(unowned))} without an owner; accepted: fewer shared layers"
            )
        return self

    @model_validator(mode="after")
    def _kind_is_whole(self) -> Self:
        """What the library would divide by, or loop over, without a word where it is missing."""
        needed = {
            "attention_k_eq_v": ["num_global_key_value_heads"],
            "enable_moe_block": ["num_experts", "top_k_experts", "moe_intermediate_size"],
        }
        for switch, keys in needed.items():
            for key in keys if getattr(self, switch) else ():
                if getattr(self, key) is None:
                    raise ValueError(f"{key}: found nothing; accepted: a number, as {switch} is true")
        if self.enable_moe_block and (self.top_k_experts or 0) > (self.num_experts or 0):
            raise ValueError(
                f"top_k_experts: found {self.top_k_experts}; accepted: at most the {self.num_experts} of num_experts"
            )
        return self

    @property
    def owner_layers(self) -> tuple[int, ...]:
        """Layers that compute and cache keys and values of their own, in order."""
        return tuple(range(max(0, self.num_hidden_layers - self.num_kv_shared_layers)))

    @property
    def shared_layers(self) -> tuple[int, ...]:
        """Layers that read the keys and values of an owner, in order."""
        return tuple(range(len(self.owner_layers), self.num_hidden_layers))

    @property
    def full_layers(self) -> tuple[int, ...]:
        """Layers with full attention, owners and shared."""
        return tuple(i for i, kind in enumerate(self.layer_types) if kind == "full_attention")

    @property
    def sliding_layers(self) -> tuple[int, ...]:
        """Layers with sliding-window attention, owners and shared."""
        return tuple(i for i, kind in enumerate(self.layer_types) if kind == "sliding_attention")

    def is_full(self, layer: int) -> bool:
        """Whether `layer` attends to every earlier position."""
        return self.layer_types[layer] == "full_attention"

    def donor(self, layer: int) -> int:
        """The owner whose keys and values `layer` reads: itself, or the last owner of the same type."""
        if layer < len(self.owner_layers):
            return layer
        return max(i for i in self.owner_layers if self.layer_types[i] == self.layer_types[layer])

    def head_dim_of(self, layer: int) -> int:
        """Width of one query, key or value head of `layer`."""
        return self.global_head_dim if self.is_full(layer) else self.head_dim

    def kv_heads_of(self, layer: int) -> int:
        """Key/value heads of `layer`; the global count applies only where K = V (Gemma4TextAttention)."""
        if self.is_full(layer) and self.attention_k_eq_v and self.num_global_key_value_heads:
            return self.num_global_key_value_heads
        return self.num_key_value_heads

    def intermediate_of(self, layer: int) -> int:
        """Width of the dense MLP of `layer`: doubled in shared layers when use_double_wide_mlp (E2B)."""
        doubled = self.use_double_wide_mlp and layer in self.shared_layers
        return self.intermediate_size * (2 if doubled else 1)

    def tp_accepted(self, tp: int) -> str | None:
        """What a tensor parallel degree has to be, when `tp` ranks cannot share this model; None when they can.

        KV heads may also be fewer than ranks: then each serves several of them.
        """
        counts = {"attention heads": self.num_attention_heads, "columns of intermediate_size": self.intermediate_size}
        counts |= {"ids of vocab_size": self.vocab_size, "experts": self.num_experts or tp}
        for what, count in counts.items():
            if count % tp:
                return f"a divisor of the {count} {what}"
        for count in {self.kv_heads_of(layer) for layer in self.owner_layers}:
            if count % tp and tp % count:
                return f"a divisor or a multiple of the {count} KV heads"
        return None


def geometry_names() -> tuple[str, ...]:
    """Names of the geometries that ship with the foundry, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.json")))


def geometry_path(name: str) -> Path:
    """The config.json of a shipped geometry.

    Raises BadInput when there is none of that name.
    """
    if name not in geometry_names():
        raise BadInput(f"geometry: found {name!r}; accepted: {', '.join(geometry_names())}")
    return _FOLDER / f"{name}.json"


def load_geometry(name_or_path: str | Path) -> Geometry:
    """Read a shipped geometry by name, or a config.json (or a checkpoint folder that holds one) by path.

    A string that holds a slash or ends in .json is a path. Raises BadInput when the file is missing, is not
    JSON, or has no usable `text_config`.
    """
    path = _config_path(name_or_path)
    try:
        return Geometry.model_validate({**_text_config(path), "name": str(name_or_path)})
    except ValidationError as error:
        raise BadInput(explain(error, f"{path}: text_config", Geometry)) from error


def load_text_config(name_or_path: str | Path) -> dict[str, Any]:
    """The whole `text_config` that `load_geometry` reads the shape from, checked in the same way."""
    load_geometry(name_or_path)
    return _text_config(_config_path(name_or_path))


def _config_path(name_or_path: str | Path) -> Path:
    named = isinstance(name_or_path, str) and "/" not in name_or_path and not name_or_path.endswith(".json")
    path = geometry_path(str(name_or_path)) if named else Path(name_or_path)
    return path / "config.json" if path.is_dir() else path


def _text_config(path: Path) -> dict[str, Any]:
    accepted = "accepted: the config.json of a Gemma 4 checkpoint in the official layout"
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot be read ({error.strerror}); {accepted}") from error
    except ValueError as error:
        raise BadInput(f"{path}: not JSON ({error}); {accepted}") from error
    text = document.get("text_config") if isinstance(document, dict) else None
    if not isinstance(text, dict):
        raise BadInput(f"{path}: no text_config in it; {accepted}")
    return text
