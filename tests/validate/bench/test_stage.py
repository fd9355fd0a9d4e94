"""Figures against numpy, plans, sizes, and transformers as it is really timed."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.stage import Job
from ledger.store import Store
from serve.manifest import FileRef, Manifest, Point
from tests.validate.bench.artifacts import with_graph
from tests.validate.test_parity_cli import write_artifact
from validate.bench import artifact_worker, stage, transformers_worker
from validate.bench.figures import figures, percentile
from validate.bench.lines import Worker, WorkerFailed
from validate.bench.stage import Recipe, plan, sizes, step_bytes

seconds = st.floats(1e-5, 10, allow_nan=False)


@given(st.lists(seconds, min_size=1, max_size=40), st.floats(0, 1))
def test_percentile_is_numpys(values: list[float], share: float) -> None:
    assert percentile(values, share) == pytest.approx(float(np.quantile(values, share)))


@given(
    st.lists(st.lists(seconds, min_size=2, max_size=9), min_size=1, max_size=5),
    st.lists(seconds, min_size=1, max_size=5),
)
def test_figures_are_medians_of_everything(answers: list[list[float]], prefills: list[float]) -> None:
    found = figures(answers, prefills, 96)
    steps = np.concatenate([answer[1:] for answer in answers])
    assert found["ttft_ms"] == pytest.approx(1e3 * np.median([answer[0] for answer in answers]), abs=1e-3)
    assert found["prefill_tok_s"] == pytest.approx(96 / np.median(prefills), abs=1e-2)
    assert found["decode_tok_s"] == pytest.approx(1 / np.median(steps), abs=1e-2)
    low, middle, high = 1e3 * np.quantile(steps, [0.05, 0.5, 0.95])
    expected = {"p5": low, "median": middle, "p95": high}
    assert found["step_ms"] == pytest.approx(expected, abs=1e-4)
    assert found["steps"] == len(steps)


@given(
    kv_max=st.integers(3, 5000),
    kv_bucket=st.integers(1, 900),
    batch=st.integers(1, 64),
    prompt=st.integers(1, 6000),
    new=st.integers(1, 6000),
)
def test_a_plan_fits_the_variant(kv_max: int, kv_bucket: int, batch: int, prompt: int, new: int) -> None:
    recipe = Recipe(dtype="float32", prompt_tokens=prompt, new_tokens=new, rounds=1)
    kv_bucket = min(kv_bucket, kv_max)
    made = plan(recipe, point(kv_max=kv_max, kv_bucket=kv_bucket, batch=batch))
    assert made.prompt >= 1
    assert made.new >= 2
    assert made.prompt + made.new <= kv_max
    assert 1 <= made.prefill < kv_max
    assert made.prefill % kv_bucket == 0 or made.prefill == kv_max - 1
    if prompt + max(new, 2) <= kv_max:
        assert (made.prompt, made.new) == (prompt, max(new, 2))
    assert made.context_new >= 2
    assert all(1 <= context <= kv_max - made.context_new for context in made.contexts)
    assert made.slots == (batch if kv_max > batch + 2 else 1)
    assert made.slots_new >= 2 or made.slots == 1
    if made.slots > 1:
        # The first slot gives a token in the step that ends its own prefill and in each one that fills another.
        assert 1 <= made.slots_prompt <= kv_bucket
        assert made.slots_prompt + made.slots + made.slots_new - 1 <= kv_max


def test_a_variant_too_small_to_time() -> None:
    with pytest.raises(BadInput, match="kv_max: found 2; accepted by the bench: 3 or more"):
        plan(Recipe(dtype="float32", prompt_tokens=1, new_tokens=1, rounds=1), point(kv_max=2, kv_bucket=1, batch=1))


def point(*, kv_max: int, kv_bucket: int, batch: int) -> Point:
    """A variant of that shape."""
    common: dict[str, Any] = {"name": "p", "tp": 1, "slim": False, "dtype": "float32", "kv": "device", "target": "cpu"}
    return Point(kv_max=kv_max, kv_bucket=kv_bucket, batch=batch, **common)


def test_a_step_reads_every_ranks_weights_and_state(tmp_path: Path, checkpoint: Path) -> None:
    assert step_bytes(with_graph(tmp_path, checkpoint, tp=2)) == 2 * (40 * 2 + 12 * 4)


def test_sizes_tell_what_a_variant_adds(tmp_path: Path, checkpoint: Path) -> None:
    write_artifact(tmp_path, checkpoint)
    bare = Manifest.read(tmp_path)
    shared = FileRef(path="w", sha256="0" * 64, bytes=3_000_000)
    manifest = bare.model_copy(update={"weights": (shared, shared), "tables": shared})
    own = (tmp_path / "manifest.json").stat().st_size / 1e6
    assert sizes(tmp_path, manifest) == {"size_mb": round(9 + own, 3), "added_mb": round(own, 3)}


def _receipt(stage: str, verdict: Any, outputs: dict[str, Any]) -> Receipt:
    common: dict[str, Any] = {"recipe": {}, "inputs": {}, "facts": {}, "measured": {}, "toolchain": {}}
    return Receipt(stage=stage, key="0" * 64, outputs=outputs, verdict=verdict, source="s", **common)


def test_the_stage_measures_what_passed_parity(
    tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path / "store")
    artifact = tmp_path / "artifact"
    with_graph(artifact, checkpoint)
    for module in (artifact_worker, transformers_worker):
        monkeypatch.setattr(module, "MODULE", "tests.validate.bench.fake_worker")
    files = {path.name: store.put_file(path) for path in checkpoint.iterdir()}
    inputs = {"fetch": _receipt("fetch", "done", files), "parity": _receipt("parity", "passed", {})}
    recipe = Recipe(dtype="float32", prompt_tokens=20, new_tokens=6, rounds=2, threads=1)

    outcome = stage.work(Job(recipe, inputs, store), artifact)
    assert outcome.measured["decode_tok_s"] == 4.0
    assert outcome.measured["threads"] == 1
    assert outcome.measured["read_gb_s"] > 0.1
    facts = outcome.facts
    assert (facts["prompt_tokens"], facts["new_tokens"], facts["prefill_tokens"]) == (20, 6, 32)
    assert facts["step_bytes"] == 40 * 2 + 12 * 4
    assert [one["tokens"] for one in outcome.measured["contexts"]] == [4, 20, 52]
    assert facts["added_mb"] == facts["size_mb"] > 0
    assert (artifact / "log").read_text().splitlines()[1:3] == ["subject 20 6", "subject 32 1"]

    failed = inputs | {"parity": _receipt("parity", "done", {})}
    with pytest.raises(BadInput, match="--input parity: the verdict is not passed"):
        stage.work(Job(recipe, failed, store), artifact)


def test_transformers_runs_in_every_mode(checkpoint: Path) -> None:
    with Worker(transformers_worker.MODULE, [str(checkpoint), "bfloat16", "1"]) as worker:
        for mode in transformers_worker.MODES:
            for prompts in ([[2, 140, 1, 106]], [[2, 140, 1, 106], [2, 7, 8, 9]]):
                assert len(worker.ask(prompts=prompts, steps=12, mode=mode)) == 12
        with pytest.raises(WorkerFailed, match="KeyError"):
            worker.ask(prompts=[[2]], steps=1, mode="guessed")
        assert worker.facts["peak_rss_mb"] > 50
