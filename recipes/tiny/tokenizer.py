"""The demo checkpoint's tokenizer: byte-fallback BPE in the shape of Gemma's `tokenizer.json`.

Departs from a plain BPE in three ways, all Gemma's: spaces become U+2581 before anything else and the split
on U+0020 that follows therefore never cuts; unknown characters fall back to byte tokens; BOS is never added,
the chat template emits it. The merges are learned with word boundaries, which the saved tokenizer does not
need: no merge crosses one.

Ids: 0..106 as in the official files (named specials, unused fillers between), 107 is the newline as there,
then 256 byte tokens, the alphabet, the merges, and at the end the image and audio specials where the
configuration puts them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ledger.errors import BadInput

SPACE = "\u2581"
NEWLINE_ID = 107
FIRST_BYTE_ID = 108

LOW_SPECIALS: dict[str, int] = {
    "<pad>": 0,
    "<eos>": 1,
    "<bos>": 2,
    "<unk>": 3,
    "<mask>": 4,
    "<|tool>": 46,
    "<tool|>": 47,
    "<|tool_call>": 48,
    "<tool_call|>": 49,
    "<|tool_response>": 50,
    "<tool_response|>": 51,
    '<|"|>': 52,
    "<|think|>": 98,
    "<|channel>": 100,
    "<channel|>": 101,
    "<|turn>": 105,
    "<turn|>": 106,
}
MEDIA_SPECIALS: dict[str, str] = {
    "<|image>": "boi_token_id",
    "<|audio>": "boa_token_id",
    "<|image|>": "image_token_id",
    "<|audio|>": "audio_token_id",
    "<image|>": "eoi_token_id",
    "<audio|>": "eoa_token_index",
    "<|video|>": "video_token_id",
}
ROLES: dict[str, str] = {
    "bos_token": "<bos>",
    "eos_token": "<eos>",
    "pad_token": "<pad>",
    "unk_token": "<unk>",
    "mask_token": "<mask>",
    "boi_token": "<|image>",
    "boa_token": "<|audio>",
    "image_token": "<|image|>",
    "audio_token": "<|audio|>",
    "eoi_token": "<image|>",
    "eoa_token": "<audio|>",
    "sot_token": "<|turn>",
    "eot_token": "<turn|>",
    "soc_token": "<|channel>",
    "eoc_token": "<channel|>",
    "think_token": "<|think|>",
    "escape_token": '<|"|>',
    "std_token": "<|tool>",
    "etd_token": "<tool|>",
    "stc_token": "<|tool_call>",
    "etc_token": "<tool_call|>",
    "str_token": "<|tool_response>",
    "etr_token": "<tool_response|>",
}

# Words with their leading space, runs of punctuation, single digits, runs of newlines, runs of spaces.
_WORDS = rf"{SPACE}?\p{{L}}+|{SPACE}?[^\n{SPACE}\p{{L}}\p{{N}}]+|\p{{N}}|\n+|{SPACE}+?(?={SPACE}[^\s{SPACE}])|{SPACE}+"
_ALPHABET = sorted({SPACE, "\n", *map(chr, range(0x21, 0x7F))})


def special_ids(config: Mapping[str, Any]) -> dict[str, int]:
    """Every special token and its id; `config` is a whole config.json, which places the media tokens."""
    ids = dict(LOW_SPECIALS)
    for token, key in MEDIA_SPECIALS.items():
        if (id_ := int(config[key])) in ids.values():
            raise BadInput(f"config.json: {key} is {id_}, which is another token already; accepted: an id of its own")
        ids[token] = id_
    return ids


def train_tokenizer(texts: Iterable[str], *, vocab_size: int, specials: Mapping[str, int]) -> Tokenizer:
    """Learn merges from `texts` and lay the vocabulary out as the module says; ids 0..vocab_size-1, no gap."""
    first_piece = FIRST_BYTE_ID + 256
    room = min(id_ for id_ in specials.values() if id_ >= first_piece) - first_piece
    pieces, merges = _learn(texts, room)
    vocab = {f"<0x{byte:02X}>": FIRST_BYTE_ID + byte for byte in range(256)} | {"\n": NEWLINE_ID} | dict(specials)
    vocab |= {piece: first_piece + index for index, piece in enumerate(pieces)}
    taken = set(vocab.values())
    free = (id_ for id_ in range(vocab_size) if id_ not in taken)
    vocab |= {f"<unused{number}>": id_ for number, id_ in enumerate(free)}
    return _assemble(vocab, merges, specials)


def _learn(texts: Iterable[str], room: int) -> tuple[list[str], list[tuple[str, str]]]:
    """At most `room` pieces (alphabet first, newline left out: it has a fixed id) and the merges that make them."""
    learner = Tokenizer(models.BPE())
    learner.normalizer = normalizers.Replace(" ", SPACE)
    learner.pre_tokenizer = pre_tokenizers.Split(Regex(_WORDS), behavior="isolated")
    trainer = trainers.BpeTrainer(
        vocab_size=room + 1,
        initial_alphabet=_ALPHABET,
        limit_alphabet=len(_ALPHABET),  # anything rarer goes through byte fallback
        show_progress=False,
    )
    learner.train_from_iterator(texts, trainer=trainer)
    model = json.loads(learner.to_str())["model"]
    pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
    return [piece for piece in pieces if piece != "\n"], [(left, right) for left, right in model["merges"]]


def _assemble(vocab: dict[str, int], merges: list[tuple[str, str]], specials: Mapping[str, int]) -> Tokenizer:
    bpe = models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(bpe)
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", behavior="merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    by_id = sorted(specials, key=specials.__getitem__)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in by_id])
    return tokenizer


def write_tokenizer(tokenizer: Tokenizer, folder: Path) -> None:
    """tokenizer.json and tokenizer_config.json."""
    tokenizer.save(str(folder / "tokenizer.json"))
    settings: dict[str, Any] = {
        **ROLES,
        "backend": "tokenizers",
        "extra_special_tokens": ["<|video|>"],
        "model_max_length": int(1e30),
        "padding_side": "left",
        "processor_class": "Gemma4Processor",
        "tokenizer_class": "GemmaTokenizer",
    }
    text = json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    (folder / "tokenizer_config.json").write_text(text, encoding="utf-8")
