"""Artifacts of every builder on the stand-ins' SDK, each served by a fresh process: tokens of target cpu."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serve.engine import Engine
from tests.build import BOS, TEXT_CONFIG, point
from tests.conftest import ArtifactOf
from tests.serve.http import checks
from tests.serve.http.copies import recorded
from tests.serve.http.notices import metadata
from tests.serve.http.process import started
from tests.serve.neuron.conftest import NeuronArtifactOf
from tests.serve.neuron.serving import answers

# One chunk and less, several, a turn of the ring, and the last position; the same prompt again at the end.
LENGTHS = (1, 8, 13, 21, 43, 13)


def prompt(length: int) -> list[int]:
    return [BOS, *np.random.default_rng(length).integers(0, TEXT_CONFIG["vocab_size"], length - 1).tolist()]


PROMPTS = [prompt(length) for length in LENGTHS]


@pytest.fixture(scope="module")
def expected(artifact_of: ArtifactOf) -> list[list[int]]:
    """Target cpu's answers."""
    engine = Engine.load(artifact_of(point()))
    return [[token.id for token in engine.generate(ids, max_new=99, stop_ids=frozenset())] for ids in PROMPTS]


@pytest.mark.parametrize(
    ("builder", "kv", "changes"),
    [
        ("trace", "host", {"batch": 3}),
        ("trace", "device", {}),
        # The SDK may or may not return state that stays on the device.
        ("trace", "device", {"switch": "STANDIN_ALIASED_OUTPUTS=returned"}),
        ("nxd", "device", {}),
        ("nxd", "device", {"tp": 2, "batch": 3}),
        pytest.param("parallel", "device", {"tp": 2}, marks=pytest.mark.soak),
    ],
)
def test_answers_are_target_cpus(
    neuron_artifact_of: NeuronArtifactOf,
    pretended_host: dict[str, str],
    expected: list[list[int]],
    builder: str,
    kv: str,
    changes: dict[str, Any],
) -> None:
    artifact: Path = neuron_artifact_of(builder, kv, **changes)
    assert answers(artifact, PROMPTS, pretended_host) == expected


@pytest.mark.parametrize(
    ("builder", "kv", "changes", "how"),
    [("nxd", "device", {"tp": 2, "batch": 3}, "spot notice"), ("trace", "host", {"batch": 3}, "SIGTERM")],
)
def test_a_server_over_it_does_what_one_must(
    neuron_artifact_of: NeuronArtifactOf,
    pretended_host: dict[str, str],
    random_model: Any,
    builder: str,
    kv: str,
    changes: dict[str, Any],
    how: str,
) -> None:
    artifact = neuron_artifact_of(builder, kv, **changes)
    with recorded(artifact, random_model) as served, metadata() as service:
        command = [sys.executable, "-m", "serve", str(served), "--spot", service.address, "--spot-seconds", "0.02"]
        with started(command, pretended_host) as running:
            checks.official_client(running, "Hi", 8)
            checks.many_at_once(running, ["Hi", "On", "Is", "It"], 8)
            checks.hang_ups(running, "weather", 30, count=6)
            log = checks.end(running, service.noticed.set if how == "spot notice" else running.terminate, "weather", 30)
    assert checks.draining(log).startswith(how)
    assert "self-check passed: 8 tokens as recorded" in [line.get("step") for line in log]
