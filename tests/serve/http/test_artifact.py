"""`python -m serve` over an artifact of target cpu: it does what any server must, and never serves wrong numbers."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.build import build_artifact, point, text_tensors, write_checkpoint
from tests.serve.http import checks
from tests.serve.http.copies import TOKENS, change, linked, recorded, replace
from tests.serve.http.process import started
from tests.serve.http.scripted import write_tokens


@pytest.fixture(scope="module")
def artifact(random_model: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Three slots, a tokenizer, and a known answer."""
    folder = tmp_path_factory.mktemp("served")
    config = random_model.config.to_dict()
    (folder / "checkpoint").mkdir()
    write_checkpoint(folder / "checkpoint", config, text_tensors(random_model))
    write_tokens(folder / "checkpoint", config["vocab_size"])
    with recorded(build_artifact(folder, random_model, point(batch=3)), random_model) as copy:
        yield copy


def test_a_server_over_it_does_what_one_must(artifact: Path) -> None:
    with started([sys.executable, "-m", "serve", str(artifact)], os.environ) as running:
        checks.official_client(running, "Hi", 20)
        checks.many_at_once(running, ["Hi", "On", "Is", "It", "To", "In"], 20)
        checks.hang_ups(running, "weather", 30)
        log = checks.end(running, running.terminate, "weather", 30)
    assert checks.draining(log) == "SIGTERM"
    assert f"self-check passed: {TOKENS} tokens as recorded" in [line.get("step") for line in log]


def _scalars_left_at_one(copy: Path) -> None:
    """What a loader does that fills parameters and forgets buffers: fluent garbage and no error."""

    def edit(document: dict[str, Any]) -> None:
        [ref] = document["weights"]
        data = bytearray((copy / ref["path"]).read_bytes())
        length = int.from_bytes(data[:8], "little")
        places = {n: e["data_offsets"] for n, e in json.loads(data[8 : 8 + length]).items() if "layer_scalar" in n}
        assert places
        for begin, end in places.values():
            data[8 + length + begin : 8 + length + end] = np.float32(1).tobytes()
        replace(copy, ref, bytes(data))

    change(copy, edit)


def _another_constant(copy: Path) -> None:
    """A sign in GELU, in the decode graph alone."""

    def edit(document: dict[str, Any]) -> None:
        graph = document["graphs"]["decode"]
        [ref] = graph["modules"]
        text, count = re.subn(
            r"dense<(0\.79788\d*|7\.9788\d*[eE]-0?1)>", r"dense<-\1>", (copy / ref["path"]).read_text()
        )
        assert count
        replace(copy, ref, text.encode())
        graph["executable"] = None

    change(copy, edit)


@pytest.mark.parametrize("fault", [_scalars_left_at_one, _another_constant])
def test_wrong_numbers_under_right_digests_are_never_served(artifact: Path, fault: Callable[[Path], None]) -> None:
    with linked(artifact, "changed") as copy:
        fault(copy)
        command = [sys.executable, "-m", "serve", str(copy), "--port", "0"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert re.fullmatch(
        r"error: self-check: token \d of the recorded answer is \d+; \d+ is accepted: "
        "this artifact does not compute here what it was validated for",
        done.stderr.splitlines()[-1],
    )
    assert '"ready"' not in done.stderr
    assert "Traceback" not in done.stderr
