"""Reading and refusing checkpoint folders; tensors are compared with what the safetensors package reads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from ledger.errors import BadInput
from recipes.checkpoint import Checkpoint

Tiny = tuple[Path, dict[str, Any]]
Copied = Callable[[], Path]
FIRST = "model-00001-of-00002.safetensors"
NORM = "model.language_model.norm.weight"


def edit(path: Path, **changes: Any) -> None:
    """Change keys of a JSON file; None removes one."""
    document = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({key: value for key, value in document.items() if value is not None}))


def refused(sentence: str) -> Any:
    return pytest.raises(BadInput, match=sentence)


def test_every_tensor_is_read_bit_by_bit(tiny: Tiny) -> None:
    checkpoint = Checkpoint(tiny[0])
    seen = 0
    for path in sorted(tiny[0].glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118  (no mapping)
                ours, theirs = checkpoint.tensor(name), file.get_tensor(name)
                assert ours.dtype == ml_dtypes.bfloat16
                assert ours.shape == tuple(theirs.shape)
                assert ours.tobytes() == theirs.view(torch.int16).numpy().tobytes()
                seen += 1
    assert seen == len(checkpoint.names())


def test_tensors_are_read_only_views(tiny: Tiny) -> None:
    values = Checkpoint(tiny[0]).tensor(NORM)
    assert type(values) is np.ndarray
    assert not values.flags.writeable
    assert not values.flags.owndata


def test_facts_come_from_the_files(tiny: Tiny) -> None:
    checkpoint = Checkpoint(tiny[0])
    assert (checkpoint.bos, checkpoint.stop_ids, checkpoint.suppress_tokens) == (2, [1, 106, 50], [2045, 2044])
    assert checkpoint.geometry.num_hidden_layers == 9
    assert checkpoint.files() == tuple(sorted(path.name for path in tiny[0].iterdir()))
    assert checkpoint.template_sha256 == sha256((tiny[0] / "chat_template.jinja").read_bytes()).hexdigest()
    assert len(checkpoint.text_tensors) < len(checkpoint.names())
    checkpoint.check_tokenizer()
    checkpoint.check_template(checkpoint.template_sha256)
    checkpoint.check_licence("apache-2.0")


def test_scalar_stop_id_and_bos_of_config_are_understood(copied: Copied) -> None:
    folder = copied()
    edit(folder / "generation_config.json", eos_token_id=1, suppress_tokens=None, bos_token_id=None)
    checkpoint = Checkpoint(folder)
    assert (checkpoint.bos, checkpoint.stop_ids, checkpoint.suppress_tokens) == (2, [1], [])


@pytest.mark.parametrize(
    "name", ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"]
)
def test_missing_file(copied: Copied, name: str) -> None:
    folder = copied()
    (folder / name).unlink()
    with refused(f"{name} is missing; accepted: a checkpoint with config.json, generation_config.json, tokenizer.json"):
        Checkpoint(folder)


def test_config_that_is_not_json(copied: Copied) -> None:
    folder = copied()
    (folder / "config.json").write_text('{"model_type": ')
    with refused(r"config\.json is not readable as JSON: .*; accepted: valid JSON"):
        Checkpoint(folder)


def test_config_that_is_a_list(copied: Copied) -> None:
    folder = copied()
    (folder / "config.json").write_text("[]")
    with refused(r"config\.json holds list; accepted: a JSON object"):
        Checkpoint(folder)


@pytest.mark.parametrize(
    "changes", [{"model_type": name} for name in ("gemma3", "gemma4_assistant", "gemma4_unified_assistant", None)]
)
def test_another_kind_of_model(copied: Copied, changes: dict[str, Any]) -> None:
    folder = copied()
    edit(folder / "config.json", **changes)
    with refused(rf"config\.json: model_type is {changes['model_type']!r}; accepted: 'gemma4' or "):
        Checkpoint(folder)


def test_keys_of_another_layout(copied: Copied) -> None:
    folder = copied()
    for path in [*folder.glob("*.safetensors"), folder / "model.safetensors.index.json"]:
        path.unlink()
    save_file({"language_model.model.norm.weight": np.ones(2, np.float32)}, folder / "model.safetensors")
    with refused(r"holds no tensor under model\.language_model\.; accepted: the official key names"):
        Checkpoint(folder)


def test_unknown_tensor(tiny: Tiny) -> None:
    with refused(r"holds no tensor lm_head\.weight; accepted: one of its \d+ tensors"):
        Checkpoint(tiny[0]).tensor("lm_head.weight")


@pytest.mark.parametrize(
    ("key", "value", "attribute"),
    [
        ("eos_token_id", [], "stop_ids"),
        ("eos_token_id", [1, "106"], "stop_ids"),
        ("eos_token_id", None, "stop_ids"),
        ("eos_token_id", True, "stop_ids"),
        ("bos_token_id", "<bos>", "bos"),
        ("suppress_tokens", [-1], "suppress_tokens"),
    ],
)
def test_token_ids_that_are_none(copied: Copied, key: str, value: object, attribute: str) -> None:
    folder = copied()
    edit(folder / "generation_config.json", **{key: value})
    with refused(rf"generation_config\.json: {key} is {re.escape(repr(value))}; accepted: a token id or a list"):
        getattr(Checkpoint(folder), attribute)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("bos_token_id", 2048, "bos_token_id is 2048; accepted: 0 to 2047, as vocab_size is 2048"),
        ("eos_token_id", [1, 10**30], f"eos_token_id is {10**30}; accepted: 0 to 2047"),
        ("suppress_tokens", [5, 1_000_000], "suppress_tokens is 1000000; accepted: 0 to 2047"),
        ("suppress_tokens", 0.0, r"suppress_tokens is 0\.0; accepted: a token id or a list"),
        ("suppress_tokens", list(range(2048)), "suppress_tokens holds all 2048 ids; accepted: at least one"),
    ],
    ids=["bos", "eos", "suppress", "float", "all"],
)
def test_ids_outside_of_the_vocabulary(copied: Copied, key: str, value: object, sentence: str) -> None:
    folder = copied()
    Checkpoint(folder).check_ids()
    edit(folder / "generation_config.json", **{key: value})
    with refused(rf"generation_config\.json: {sentence}"):
        Checkpoint(folder).check_ids()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"image_token_id": "2040"}, r": image_token_id is '2040'; accepted: a token id"),
        ({"attention_bias": True}, r": text_config\.attention_bias is True; accepted: False or None"),
        (
            {"use_bidirectional_attention": "all"},
            r": text_config\.use_bidirectional_attention is 'all'; accepted: 'vision' or None",
        ),
        ({"hidden_activation": "relu"}, r": text_config\.hidden_activation is 'relu'; accepted: 'gelu_pytorch_tanh'"),
        ({"rope_parameters": None}, r": text_config\.rope_parameters\.sliding_attention is None; accepted: a mapping"),
        ({"rope_parameters": {"sliding_attention": {}}}, r": text_config\.rope_parameters\.full_attention is None"),
        ({"num_attention_heads": "4"}, r" is refused by transformers \(Validation .*num_attention_heads.* got str"),
        ({"vision_config": 7}, r" is refused by transformers \("),
    ],
    ids=["image", "bias", "ahead", "activation", "rope", "full", "heads", "vision"],
)
def test_config_that_is_computed_otherwise(copied: Copied, changes: dict[str, Any], sentence: str) -> None:
    folder = copied()
    Checkpoint(folder).check_config()
    document = json.loads((folder / "config.json").read_text())
    text = {key: value for key, value in changes.items() if key in document["text_config"]}
    edit(folder / "config.json", **(changes if not text else {"text_config": document["text_config"] | text}))
    with refused(rf"config\.json{sentence}[^\n]*$"):
        Checkpoint(folder).check_config()


def test_pins(tiny: Tiny) -> None:
    checkpoint = Checkpoint(tiny[0])
    digests = {name: sha256((tiny[0] / name).read_bytes()).hexdigest() for name in checkpoint.files()}
    checkpoint.check_pins(digests, digests)
    with refused(rf"{FIRST} has sha256 {digests[FIRST]}; accepted: {'0' * 64}, as pinned"):
        checkpoint.check_pins(digests, {FIRST: "0" * 64})
    with refused(r"files\.model\.safetensors is pinned and not in .*; accepted: chat_template\.jinja, config\.json"):
        checkpoint.check_pins(digests, {"model.safetensors": "0" * 64})


def test_geometry_is_compared_key_by_key(copied: Copied) -> None:
    folder = copied()
    digest = Checkpoint(folder).check_geometry("tiny")
    text = json.loads((folder / "config.json").read_text())["text_config"]
    harmless = {"use_cache": False, "transformers_version": "9", "initializer_range": 0.5, "more": None}
    edit(folder / "config.json", text_config=text | harmless)
    assert Checkpoint(folder).check_geometry("tiny") == digest
    assert Checkpoint(folder).check_geometry(None) == digest

    edit(folder / "config.json", text_config=text | {"sliding_window": 32})
    with refused(r"config\.json: text_config\.sliding_window is 32; accepted: 64, as in geometry tiny"):
        Checkpoint(folder).check_geometry("tiny")
    assert Checkpoint(folder).check_geometry(None) != digest

    edit(folder / "config.json", text_config=text | {"new_trick": 1})
    with refused(r"text_config\.new_trick is 1; accepted: None, as in geometry tiny"):
        Checkpoint(folder).check_geometry("tiny")


def test_shape_of_ones_own_folder_must_be_complete(copied: Copied) -> None:
    folder = copied()
    text = json.loads((folder / "config.json").read_text())["text_config"]
    del text["layer_types"]
    edit(folder / "config.json", text_config=text)
    with refused(r"config\.json: text_config: layer_types is missing"):
        Checkpoint(folder).check_geometry(None)
