"""A checkpoint folder in the official layout: what is in it, and whether it is what was pinned. No torch.

Departs from a library loader, which fills what a file leaves out with defaults: here every token id, the stop
ids and the chat template must be in the files, and each thing that is not as accepted is one sentence that
names the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy.typing as npt
import yaml
from tokenizers import Tokenizer

from config.geometry import Geometry, geometry_path, load_geometry
from ledger.digest import digest_json, parse_json, sha256_file
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.store import Store
from recipes.chat_template import check_rendering, compiled
from recipes.hf_config import check_library, check_spelt_out
from recipes.kinds import kind_of
from recipes.shards import INDEX, Stored, find_tensors

TEXT_FILES = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
TEXT_PREFIX = "model.language_model."
PROBE = "hello world"
# What transformers writes into a config.json without changing what the text model computes in evaluation.
NOT_GEOMETRY = frozenset(
    {
        "_name_or_path",
        "architectures",
        "attention_dropout",
        "chunk_size_feed_forward",
        "dtype",
        "id2label",
        "initializer_range",
        "is_encoder_decoder",
        "label2id",
        "output_attentions",
        "output_hidden_states",
        "problem_type",
        "return_dict",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)


class Checkpoint:
    """A folder whose configuration and shard headers are whole; tensors are read when asked for."""

    def __init__(self, folder: Path) -> None:
        """Read the small files and every header; BadInput if one is missing, damaged or of another kind of model."""
        for name in TEXT_FILES:
            if not (folder / name).is_file():
                raise BadInput(f"{folder / name} is missing; accepted: a checkpoint with {', '.join(TEXT_FILES)}")
        self.folder = folder
        self.config = _read_object(folder / "config.json")
        self.generation = _read_object(folder / "generation_config.json")
        kind_of(self.config, str(folder / "config.json"))
        self.tensors: dict[str, Stored] = find_tensors(folder)
        if not self.text_tensors:
            raise BadInput(f"{folder} holds no tensor under {TEXT_PREFIX}; accepted: the official key names")

    @property
    def text_config(self) -> dict[str, Any]:
        """The text model's part of config.json."""
        text: dict[str, Any] = self.config["text_config"]
        return text

    @property
    def geometry(self) -> Geometry:
        """The typed shape of the text model."""
        return load_geometry(self.folder)

    @property
    def text_tensors(self) -> tuple[str, ...]:
        """Names of the text model's tensors, decoys included."""
        return tuple(name for name in self.tensors if name.startswith(TEXT_PREFIX))

    def names(self) -> tuple[str, ...]:
        """Names of all tensors, shard by shard."""
        return tuple(self.tensors)

    def tensor(self, name: str) -> npt.NDArray[Any]:
        """A read-only mapped view in the stored dtype (bfloat16 from ml_dtypes); BadInput if there is no such name."""
        if name not in self.tensors:
            raise BadInput(f"{self.folder} holds no tensor {name}; accepted: one of its {len(self.tensors)} tensors")
        return self.tensors[name].read()

    def files(self) -> tuple[str, ...]:
        """Names of the files that make up the checkpoint, sorted."""
        shards = {stored.file.name for stored in self.tensors.values()}
        index = {INDEX} if (self.folder / INDEX).is_file() else set()
        return tuple(sorted({*TEXT_FILES, *shards, *index}))

    @property
    def bos(self) -> int:
        """The id that starts a text, from generation_config.json or else config.json."""
        found = self.generation.get("bos_token_id", self.text_config.get("bos_token_id"))
        return _ids(found, self.folder / "generation_config.json", "bos_token_id")[0]

    @property
    def stop_ids(self) -> list[int]:
        """The ids that end an answer, in the order of generation_config.json."""
        path = self.folder / "generation_config.json"
        return _ids(self.generation.get("eos_token_id"), path, "eos_token_id")

    @property
    def suppress_tokens(self) -> list[int]:
        """The ids that are never generated; most checkpoints name none."""
        found = self.generation.get("suppress_tokens")
        given = found is not None and found != []
        return _ids(found, self.folder / "generation_config.json", "suppress_tokens") if given else []

    @property
    def template_sha256(self) -> str:
        """Hex sha256 of chat_template.jinja."""
        return sha256_file(self.folder / "chat_template.jinja")

    def check_ids(self) -> None:
        """BadInput if an id of generation_config.json is outside the vocabulary, or every id is suppressed."""
        path, size = self.folder / "generation_config.json", self.geometry.vocab_size
        named = {"bos_token_id": [self.bos], "eos_token_id": self.stop_ids, "suppress_tokens": self.suppress_tokens}
        for name, ids in named.items():
            for id_ in ids:
                if id_ >= size:
                    raise BadInput(f"{path}: {name} is {id_}; accepted: 0 to {size - 1}, as vocab_size is {size}")
        if len(set(self.suppress_tokens)) == size:
            raise BadInput(f"{path}: suppress_tokens holds all {size} ids; accepted: at least one that is left")

    def check_tokenizer(self) -> None:
        """BadInput if tokenizer.json cannot spell plain text, or does not know the ids of generation_config.json."""
        path = self.folder / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # nothing narrower: tokenizers raises Exception itself
            raise BadInput(f"{path} is no tokenizer ({error}); accepted: a tokenizer.json of tokenizers") from None
        encoding = tokenizer.encode(PROBE, add_special_tokens=False)
        back = tokenizer.decode(encoding.ids)
        if "<unk>" in encoding.tokens or back != PROBE:
            raise BadInput(f"{path} turns {PROBE!r} into {encoding.tokens} and back into {back!r}; accepted: {PROBE!r}")
        for name, ids in {"bos_token_id": [self.bos], "eos_token_id": self.stop_ids}.items():
            for id_ in ids:
                if tokenizer.id_to_token(id_) is None:
                    raise BadInput(
                        f"generation_config.json: {name} is {id_}; accepted: an id of {path}, "
                        f"0 to {tokenizer.get_vocab_size() - 1}"
                    )

    def check_template(self, pin: str | None) -> None:
        """BadInput if the chat template is not the pinned one, or cannot render a plain turn."""
        path = self.folder / "chat_template.jinja"
        if pin is not None and (found := self.template_sha256) != pin:
            raise BadInput(f"{path} has sha256 {found}; accepted: {pin}, as pinned")
        check_rendering(compiled(path.read_bytes(), str(path)), str(path))

    def check_licence(self, accepted: str) -> None:
        """BadInput if README.md is there and its front matter states another licence."""
        path = self.folder / "README.md"
        found = _front_matter(path).get("license") if path.is_file() else None
        if found is not None and str(found).lower() != accepted.lower():
            raise BadInput(f"{path}: license is {found!r}; accepted: {accepted!r}, as configured under licence")

    def check_pins(self, digests: Mapping[str, str], pins: Mapping[str, str]) -> None:
        """BadInput if one of `pins` (sha256 by file name) is not met by `digests`, the digests of `files()`."""
        for name, pin in sorted(pins.items()):
            if name not in digests:
                raise BadInput(f"files.{name} is pinned and not in {self.folder}; accepted: {', '.join(self.files())}")
            if digests[name] != pin:
                raise BadInput(f"{self.folder / name} has sha256 {digests[name]}; accepted: {pin}, as pinned")

    def check_config(self) -> None:
        """BadInput if config.json is not one that the library and the step graph compute alike."""
        path = self.folder / "config.json"
        check_spelt_out(self.config, path)
        check_library(self.config, path)

    def check_geometry(self, name: str | None) -> str:
        """The digest of the text configuration; BadInput naming the first key that differs from geometry `name`.

        Without a name (a folder of one's own) the shape only has to be a complete one.
        """
        path = self.folder / "config.json"
        own = geometry_facts(self.text_config)
        if name is None:
            load_geometry(path)
        else:
            accepted = geometry_facts(_read_object(geometry_path(name))["text_config"])
            for key in sorted(own.keys() | accepted.keys()):
                if own.get(key) != accepted.get(key):
                    raise BadInput(
                        f"{path}: text_config.{key} is {own.get(key)!r}; "
                        f"accepted: {accepted.get(key)!r}, as in geometry {name}"
                    )
        return digest_json(own)


@contextmanager
def opened(fetched: Receipt, store: Store) -> Iterator[Checkpoint]:
    """The checkpoint of a fetch receipt, laid out in a temporary folder for as long as the context lasts."""
    with TemporaryDirectory(prefix="foundry-checkpoint-") as name:
        store.lay_out(fetched.outputs, Path(name))
        yield Checkpoint(Path(name))


def geometry_facts(text_config: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a text_config that say what is computed; null counts as absent."""
    return {key: value for key, value in text_config.items() if key not in NOT_GEOMETRY and value is not None}


def _read_object(path: Path) -> dict[str, Any]:
    document = parse_json(path.read_bytes(), str(path))
    if not isinstance(document, dict):
        raise BadInput(f"{path} holds {type(document).__name__}; accepted: a JSON object")
    return document


def _ids(found: Any, path: Path, key: str) -> list[int]:
    ids: list[int] = found if isinstance(found, list) else [found]
    if not ids or not all(type(id_) is int and id_ >= 0 for id_ in ids):
        raise BadInput(f"{path}: {key} is {found!r}; accepted: a token id or a list of them")
    return ids


def _front_matter(path: Path) -> dict[str, Any]:
    """The YAML between the first two lines of three dashes; empty if there is none."""
    try:
        # With a byte order mark or without: behind one the dashes would not be seen, nor the licence.
        lines: Iterator[str] = iter(path.read_bytes().decode("utf-8-sig").splitlines())
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8 at byte {error.start}; accepted: a model card in UTF-8") from None
    if next(lines, "").strip() != "---":
        return {}
    text = "\n".join(line for line in iter(lambda: next(lines, "---").rstrip(), "---"))
    try:
        front = yaml.safe_load(text)
    except Exception as error:  # nothing narrower: PyYAML lets its constructors' own exceptions escape
        reason = " ".join(str(error).split())
        raise BadInput(f"{path}: the front matter is not readable ({reason}); accepted: valid YAML") from None
    return front if isinstance(front, dict) else {}
