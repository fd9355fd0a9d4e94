"""Host memory that a job asks the scheduler for.

An estimate from the shape alone, so that the workflow can plan with nothing fetched. Parameters and cache are counted,
what programs take besides leans to the high side: a job that waits costs minutes, two that do not fit beside each
other cost the run.
"""

from config.geometry import Geometry
from config.models import Variant

_MB = 1_000_000
# Interpreter, torch and its libraries.
_BASE_MB = 1_500
# What neuronx-cc takes for a full-size graph; the compiler's own guidance is a host of 64 GB. A small model takes less.
_NEURON_COMPILE_MB = 60_000
_NEURON_PER_MODEL = 12
_BYTES = {"float32": 4, "bfloat16": 2}


def text_parameters(geometry: Geometry) -> int:
    """Parameters of the text model with its embedding tables, as the library counts them: the head is the table's."""
    hidden, ple = geometry.hidden_size, geometry.hidden_size_per_layer_input
    total = hidden * geometry.vocab_size + hidden
    if ple:
        total += ple * geometry.num_hidden_layers * (geometry.vocab_size_per_layer_input + hidden) + ple
    for layer in range(geometry.num_hidden_layers):
        total += _attention(geometry, layer) + 3 * hidden * geometry.intermediate_of(layer) + 4 * hidden
        if ple:
            total += 2 * hidden * ple + hidden
        if geometry.enable_moe_block:
            experts = geometry.num_experts or 0
            total += 3 * experts * hidden * (geometry.moe_intermediate_size or 0)
            # The router's matrix and its two scales, and a norm before and two after.
            total += experts * hidden + hidden + experts + 3 * hidden
    return total


def _attention(geometry: Geometry, layer: int) -> int:
    """Parameters of a layer's attention: sharing layers have no K and V, and full ones with K = V no V."""
    width, owns = geometry.head_dim_of(layer), layer in geometry.owner_layers
    projections = 2 if not (geometry.attention_k_eq_v and geometry.is_full(layer)) else 1
    heads = 2 * geometry.num_attention_heads + (projections * geometry.kv_heads_of(layer) if owns else 0)
    return geometry.hidden_size * width * heads + (2 if owns else 1) * width


def state_mb(geometry: Geometry, variant: Variant) -> int:
    """Size of the K and V buffers of all ranks, in MB: rings of sliding layers, kv_max rows of full ones."""
    ring = min(variant.kv_max, geometry.sliding_window + variant.kv_bucket)
    elements = 0
    for layer in geometry.owner_layers:
        # A head that serves several ranks is held by each of them.
        heads = max(variant.tp, geometry.kv_heads_of(layer))
        elements += 2 * heads * geometry.head_dim_of(layer) * (variant.kv_max if geometry.is_full(layer) else ring)
    return elements * variant.batch * _BYTES[variant.dtype] // _MB


def model_mb(geometry: Geometry, dtype: str) -> int:
    """Size of the text model in `dtype`, in MB."""
    return text_parameters(geometry) * _BYTES[dtype] // _MB


def largest_tensor_mb(geometry: Geometry) -> int:
    """Size of the largest tensor as the checkpoint stores it (bf16), in MB."""
    widths = (geometry.hidden_size, geometry.hidden_size_per_layer_input * geometry.num_hidden_layers)
    return max(widths) * geometry.vocab_size * _BYTES["bfloat16"] // _MB


def streaming_mb(geometry: Geometry) -> int:
    """A stage that holds one tensor at a time, once as stored and once converted to float32."""
    return _BASE_MB + 3 * largest_tensor_mb(geometry)


def compile_mb(geometry: Geometry, variant: Variant) -> int:
    """The compiler of the variant's target; on cpu weights are parameters of the graph and never in it."""
    if variant.target == "cpu":
        return 2 * _BASE_MB
    return min(_NEURON_COMPILE_MB, 4 * _BASE_MB + _NEURON_PER_MODEL * model_mb(geometry, variant.dtype))


def oracle_mb(geometry: Geometry) -> int:
    """transformers in float32, with activations of one sequence."""
    return _BASE_MB + model_mb(geometry, "float32") * 5 // 4


def parity_mb(geometry: Geometry, variant: Variant) -> int:
    """The artifact in a process of its own beside the judge."""
    return 2 * _BASE_MB + model_mb(geometry, variant.dtype) + state_mb(geometry, variant)


def bench_mb(geometry: Geometry, variant: Variant) -> int:
    """The artifact and transformers on the same checkpoint and dtype, both loaded at once."""
    # transformers has a cache of its own, which grows to no more.
    return 2 * _BASE_MB + model_mb(geometry, variant.dtype) * 9 // 4 + 2 * state_mb(geometry, variant)


OF_CHECKPOINT = {"fetch": streaming_mb, "weights": streaming_mb, "tables": streaming_mb, "oracle": oracle_mb}
OF_VARIANT = {"compile": compile_mb, "parity": parity_mb, "bench": bench_mb}
