"""A checkpoint small enough for a test: random weights in official layout, with the traps of the real files."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from validate.encode import Encoder

# transformers would import torch-xla, which takes seconds and is not used here.
os.environ["USE_TORCH_XLA"] = "0"

VOCAB, BOS, SUPPRESSED = 512, 2, 300
_SPECIALS = {"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<mask>": 4, "<|turn>": 105, "<turn|>": 106}
_MEDIA = {"<|image>": 505, "<|audio>": 506, "<|image|>": 507, "<|audio|>": 508, "<image|>": 509, "<audio|>": 510}
_VIDEO = {"<|video|>": 511}
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}"
    "{% if m['role'] not in ['system', 'user', 'assistant'] %}{{ raise_exception('no such role') }}{% endif %}"
    "<|turn>{{ 'model' if m['role'] == 'assistant' else m['role'] }}\n{{ m['content'] | trim }}<turn|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|turn>model\n{% endif %}"
)


def _write_tokenizer(folder: Path) -> None:
    """Bytes only, behind Gemma's normalizer; ids as in the official files where those are low."""
    from tokenizers import AddedToken, Tokenizer, models, normalizers

    vocab = _SPECIALS | _MEDIA | _VIDEO | {"\n": 107} | {f"<0x{byte:02X}>": 108 + byte for byte in range(256)}
    taken = set(vocab.values())
    vocab |= {f"<unused{id_}>": id_ for id_ in range(VOCAB) if id_ not in taken}
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[], unk_token="<unk>", byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.add_special_tokens(
        [AddedToken(token, special=True, normalized=False) for token in (*_SPECIALS, *_MEDIA, *_VIDEO)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    names = {"bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>", "unk_token": "<unk>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    (folder / "chat_template.jinja").write_text(TEMPLATE)


def _config() -> dict[str, Any]:
    """The demo's geometry with everything smaller: 4 layers, two of them shared, a window of 8."""
    from config.geometry import geometry_path

    config: dict[str, Any] = json.loads(geometry_path("tiny").read_text())
    config |= {
        "image_token_id": 507,
        "audio_token_id": 508,
        "video_token_id": 511,
        "boi_token_id": 505,
        "boa_token_id": 506,
        "eoi_token_id": 509,
        "eoa_token_id": 510,
        "eoa_token_index": 510,
    }
    config["text_config"] |= {
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "full_attention"] * 2,
        "num_kv_shared_layers": 2,
        "num_attention_heads": 2,
        "head_dim": 16,
        "global_head_dim": 32,
        "hidden_size_per_layer_input": 8,
        "vocab_size": VOCAB,
        "vocab_size_per_layer_input": VOCAB,
        "sliding_window": 8,
    }
    return config


Writer = Callable[..., Path]


@pytest.fixture(scope="session")
def write_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Writer:
    """Writes a checkpoint; keyword arguments replace settings of generation_config.json."""

    def write(**settings: Any) -> Path:
        import torch
        from transformers import Gemma4Config, Gemma4ForConditionalGeneration, GenerationConfig

        folder = tmp_path_factory.mktemp("checkpoint")
        torch.manual_seed(1)
        model = Gemma4ForConditionalGeneration(Gemma4Config(**_config())).eval()
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "language_model" in name and parameter.dim() > 1:
                    parameter.normal_(0, 0.4)
            for number, layer in enumerate(model.model.language_model.layers):
                layer.layer_scalar.fill_(0.9 - 0.1 * number)
        defaults = {"bos_token_id": BOS, "pad_token_id": 0, "eos_token_id": [1, 106], "do_sample": True, "top_k": 64}
        model.generation_config = GenerationConfig(**(defaults | {"suppress_tokens": [SUPPRESSED]} | settings))
        model.to(torch.bfloat16).save_pretrained(folder)
        _add_decoys(folder)
        _write_tokenizer(folder)
        return folder

    return write


def _add_decoys(folder: Path) -> None:
    """Tensors of shared layers that the published files hold and no model uses."""
    import torch
    from safetensors.torch import load_file, save_file

    path = folder / "model.safetensors"
    tensors = load_file(path)
    for layer in (2, 3):
        prefix = f"model.language_model.layers.{layer}.self_attn."
        tensors |= {f"{prefix}{name}.weight": torch.ones(16, 32, dtype=torch.bfloat16) for name in ("k_proj", "v_proj")}
        tensors[f"{prefix}k_norm.weight"] = torch.ones(16, dtype=torch.bfloat16)
    save_file(tensors, path, metadata={"format": "pt"})


@pytest.fixture(scope="session")
def checkpoint(write_checkpoint: Writer) -> Path:
    """The folder of one checkpoint; tests only read it."""
    return write_checkpoint()


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Encoder:
    """The encoder of the checkpoint, made without writing weights."""
    folder = tmp_path_factory.mktemp("encoder")
    _write_tokenizer(folder)
    (folder / "config.json").write_text(json.dumps(_config()))
    return Encoder.from_folder(folder)
