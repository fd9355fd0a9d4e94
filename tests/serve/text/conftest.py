"""A small checkpoint's text files: byte-fallback BPE as Gemma's, trained in a moment on a few sentences."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import recipes.tiny
from recipes.tiny.tokenizer import LOW_SPECIALS, MEDIA_SPECIALS, train_tokenizer, write_tokenizer
from serve.text.pieces import Pieces
from serve.text.tokenizer import Text

SIZE = 700
SENTENCES = (
    "The weather in Paris is fine today, and the model answers with a call.",
    "A stop string ends the answer; what may become one is held back until it cannot.",
    "Return the number of items in the list, or raise ValueError if the argument is not valid.",
    "call: thought user model name arguments location unit celsius",
)
GENERATION = {"do_sample": True, "temperature": 1.0, "top_k": 64, "top_p": 0.95, "eos_token_id": [1, 106, 50]}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tokenizer.json, tokenizer_config.json, chat_template.jinja and generation_config.json; read only."""
    made = tmp_path_factory.mktemp("text")
    specials = LOW_SPECIALS | {token: SIZE - 10 + place for place, token in enumerate(MEDIA_SPECIALS)}
    write_tokenizer(train_tokenizer(SENTENCES, vocab_size=SIZE, specials=specials), made)
    shutil.copy(Path(recipes.tiny.__file__).parent / "chat_template.jinja", made)
    (made / "generation_config.json").write_text(json.dumps(GENERATION))
    return made


@pytest.fixture(scope="session")
def text(folder: Path) -> Text:
    """The files as the server reads them."""
    return Text.from_files(
        folder / "tokenizer.json",
        folder / "tokenizer_config.json",
        folder / "chat_template.jinja",
        folder / "generation_config.json",
    )


@pytest.fixture(scope="session")
def tokenizer(folder: Path) -> Tokenizer:
    """The same tokenizer in the library's own hands: the oracle."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


@pytest.fixture(scope="session")
def pieces(tokenizer: Tokenizer) -> Pieces:
    return Pieces(tokenizer, "tokenizer.json")
