"""A checkpoint of the text model alone, which `transformers serve` loads without the libraries for images and sound.

Weights, tokenizer and template stay as they are; only names change: those of tensors, and of the class that loads them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path

ARCHITECTURES = {"gemma4_text": "Gemma4ForCausalLM"}
PREFIX = "model.language_model."
_COPIED = ("tokenizer.json", "chat_template.jinja", "generation_config.json")


def write_textual(checkpoint: Mapping[str, Path], folder: Path) -> None:
    """Write the text model of `checkpoint` (paths by file name) into `folder`.

    ValueError for a kind of text model that is not in ARCHITECTURES.
    """
    from safetensors.torch import load_file, save_file

    config = json.loads(checkpoint["config.json"].read_bytes())["text_config"]
    kind = config["model_type"]
    if kind not in ARCHITECTURES:
        raise ValueError(f"text_config.model_type is {kind}; {', '.join(ARCHITECTURES)} is accepted")
    tensors = {
        f"model.{name.removeprefix(PREFIX)}": tensor
        for file, path in checkpoint.items()
        if file.endswith(".safetensors")
        for name, tensor in load_file(path).items()
        if name.startswith(PREFIX)
    }
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write(folder / "config.json", config | {"architectures": [ARCHITECTURES[kind]]})
    settings = json.loads(checkpoint["tokenizer_config.json"].read_bytes())
    # The processor is the part that wants torchvision.
    _write(folder / "tokenizer_config.json", {key: settings[key] for key in settings if key != "processor_class"})
    for name in _COPIED:
        if name in checkpoint:
            shutil.copy(checkpoint[name], folder / name)


def _write(path: Path, document: object) -> None:
    path.write_text(json.dumps(document), encoding="utf-8")
