"""What a build process is asked for and what it answers: two JSON files in its work folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from recipes.neuron.module import StepModule, example, step_module
from serve.manifest import GraphName, Signature


class BuildJob(BaseModel):
    """One build. `signatures` are of the graphs to build; `weights` has a file per rank where they are inlined."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    builder: Literal["trace", "nxd", "parallel"]
    kv: Literal["device", "host"]
    tp: int
    dtype: Literal["float32", "bfloat16"]
    flags: str
    config: Path
    signatures: dict[GraphName, Path]
    weights: tuple[Path, ...]
    work: Path
    out: Path

    @classmethod
    def read(cls, path: Path) -> BuildJob:
        """The job in the file at `path`."""
        return cls.model_validate_json(path.read_bytes())

    def signature(self, graph: GraphName) -> Signature:
        """The signature of one of the graphs."""
        return Signature.model_validate_json(self.signatures[graph].read_bytes())

    def module(self, graph: GraphName) -> StepModule:
        """The module of one of the graphs, without weights."""
        text_config: dict[str, Any] = json.loads(self.config.read_bytes())["text_config"]
        return step_module(text_config, self.signature(graph), self.tp, self.dtype, self.kv).eval()

    def example(self, graph: GraphName) -> tuple[Any, ...]:
        """Tensors that fix the graph's inputs."""
        return example(self.signature(graph), self.kv)


class Built(BaseModel):
    """Files in the out folder that each graph is made of, and the SDK's name of each stored weight not inside them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    modules: dict[GraphName, tuple[str, ...]]
    weight_keys: dict[str, str] = {}
