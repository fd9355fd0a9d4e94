"""Graphs that compute nothing, in the engine that runs real ones."""

from __future__ import annotations

from pathlib import Path

from serve.engine import Engine
from serve.manifest import Manifest
from tests.build import point
from tests.conftest import ArtifactOf
from validate.bench.full.empty_graph import emptied


def test_the_engine_runs_an_emptied_artifact(artifact_of: ArtifactOf, tmp_path: Path) -> None:
    artifact = artifact_of(point())
    bare = emptied(artifact, tmp_path)
    engine = Engine.load(bare)
    # All logits are zero, so the lowest id wins, whatever was asked.
    assert [token.id for token in engine.generate([5, 6, 7], max_new=4, stop_ids=frozenset())] == [0] * 4
    real, made = Manifest.read(artifact), Manifest.read(bare)
    assert {name: graph.signature for name, graph in made.graphs.items()} == {
        name: graph.signature for name, graph in real.graphs.items()
    }


def test_the_files_are_those_of_the_artifact(artifact_of: ArtifactOf, tmp_path: Path) -> None:
    made = Manifest.read(emptied(artifact_of(point()), tmp_path))
    assert [ref.sha256 for ref in made.weights] == [ref.sha256 for ref in Manifest.read(artifact_of(point())).weights]
    assert all(Path(ref.path).is_file() for ref in (*made.weights, made.tables, *made.tokenizer.values()))
