"""The artifact's contract: what a builder promises and what a runtime may rely on.

An artifact is a folder with ``manifest.json`` and its graphs. Weights, tables and tokenizer are files outside
the folder, named by a path relative to it and by digest, so that every variant of a checkpoint shares them.
The folder has the same shape where it is built and where it is published, so the manifest is the same bytes in
both places and its digest names the artifact.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from serve.errors import ServeError

FORMAT = 1
MANIFEST = "manifest.json"

DType = Literal["float32", "bfloat16", "int32"]
GraphName = Literal["prefill", "decode"]
Builder = Literal["xla", "trace", "nxd", "parallel"]
GRAPHS: tuple[GraphName, ...] = ("prefill", "decode")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Parameter(_Model):
    """One HLO parameter; its place in the list is its parameter number."""

    name: str
    role: Literal["weight", "input", "state", "token"] = Field(
        description="token: the scalar that torch-xla threads through collectives; any float, value unused"
    )
    shape: tuple[int, ...]
    dtype: DType


class Output(_Model):
    """One element of the HLO result tuple."""

    name: str
    role: Literal["logits", "state"]
    shape: tuple[int, ...]
    dtype: DType


class Signature(_Model):
    """Everything a runtime needs to call a graph.

    ``aliases`` maps an output number to the parameter number whose buffer it takes over.
    """

    graph: GraphName
    batch: int
    tokens: int = Field(description="T: tokens per slot and call")
    parameters: tuple[Parameter, ...]
    outputs: tuple[Output, ...]
    aliases: dict[int, int]

    def named(self, role: str) -> dict[str, Parameter]:
        """Parameters of one role by name."""
        return {parameter.name: parameter for parameter in self.parameters if parameter.role == role}


class FileRef(_Model):
    """A file the artifact needs; `path` is relative to the artifact folder."""

    path: str
    sha256: str
    bytes: int


class Graph(_Model):
    """One compiled step graph.

    `modules` is what the target executes. Target cpu: one portable module, and beside it an `executable` that only
    loads on hosts whose CPU has all of `cpu_features`; any other compiles the module, with the same `flags` of XLA.
    Target inf2: one file, or one per rank; graphs may share it.
    """

    signature: Signature
    modules: tuple[FileRef, ...] = Field(min_length=1)
    executable: FileRef | None = None
    cpu_features: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()


class Model(_Model):
    """Architecture facts the host side needs."""

    hidden_size: int
    layers: int
    ple_width: int = Field(description="width of the per-layer embedding of one layer; 0 where there is none")
    vocab_size: int
    sliding_window: int


class Tokens(_Model):
    """Token ids from the checkpoint's generation_config."""

    bos: int
    stop: tuple[int, ...]
    suppress: tuple[int, ...]


class Point(_Model):
    """The variant: one point of the build matrix."""

    name: str
    kv_max: int
    kv_bucket: int
    tp: int
    batch: int
    slim: bool
    dtype: Literal["float32", "bfloat16"]
    kv: Literal["device", "host"]
    target: Literal["cpu", "inf2"]
    builder: Builder = "xla"


class Neuron(_Model):
    """What target inf2 needs beyond the graphs: the stack they were built for, and the SDK's names of the weights."""

    sdk: str
    versions: dict[str, str] = Field(
        description="packages that must be the same at load; `runtime` is the accepted major.minor of the runtime "
        "library, `driver` the lowest accepted major.minor of the kernel driver"
    )
    weight_keys: dict[str, str] = Field(
        default={},
        description="the SDK's name of each weight in the weight files; empty where weights are in the graphs",
    )


class Manifest(_Model):
    """`manifest.json` of an artifact folder."""

    format: Literal[1] = 1
    checkpoint: str
    revision: str
    licence: str
    variant: Point
    model: Model
    tokens: Tokens
    ring: int = Field(description="rows of a sliding layer's KV buffer: min(kv_max, window + kv_bucket)")
    graphs: dict[GraphName, Graph] = Field(
        description="prefill, and decode unless the one graph serves both: a step is then a chunk of one token"
    )
    weights: tuple[FileRef, ...] = Field(description="one file per rank; none where the graphs hold them")
    tables: FileRef
    tokenizer: dict[str, FileRef]
    toolchain: dict[str, str]
    neuron: Neuron | None = None

    @classmethod
    def read(cls, folder: Path) -> Manifest:
        """The manifest of the artifact in `folder`; ServeError when there is none or it is damaged."""
        path = folder / MANIFEST
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise ServeError(f"{path}: cannot be read ({error.strerror}); an artifact folder is accepted") from error
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "the document"
            raise ServeError(f"{path}: {key}: {first['msg']}; a format {FORMAT} manifest is accepted") from error

    def files(self) -> tuple[FileRef, ...]:
        """Every file the artifact needs, the shared ones too."""
        return (*self.own_files(), *self.weights, self.tables, *self.tokenizer.values())

    def own_files(self) -> tuple[FileRef, ...]:
        """The files that only this variant has, each once."""
        graphs = self.graphs.values()
        refs = (ref for graph in graphs for ref in (*graph.modules, graph.executable) if ref is not None)
        return tuple({ref.path: ref for ref in refs}.values())

    @property
    def step(self) -> Graph:
        """The graph that a decode step runs."""
        return self.graphs["decode" if "decode" in self.graphs else "prefill"]


def verify(folder: Path, refs: tuple[FileRef, ...]) -> None:
    """Check that every file is there with the promised size and sha256; ServeError names the first that is not."""
    for ref in refs:
        path = locate(folder, ref)
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != ref.sha256:
            raise ServeError(f"{path}: sha256 is {found}; the manifest accepts {ref.sha256}")


def locate(folder: Path, ref: FileRef) -> Path:
    """The file behind `ref`; ServeError when it is missing or has another size."""
    path = folder / ref.path
    try:
        size = path.stat().st_size
    except OSError as error:
        raise ServeError(f"{path}: missing; the manifest needs it ({ref.bytes} bytes)") from error
    if size != ref.bytes:
        raise ServeError(f"{path}: has {size} bytes; the manifest accepts {ref.bytes}")
    return path
