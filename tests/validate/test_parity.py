"""The stage's verdict and receipt facts, with an engine that is a formula."""

from pathlib import Path
from typing import Any, Literal

import pytest

from ledger.digest import sha256_file
from ledger.errors import BadInput
from ledger.receipts import Receipt
from ledger.stage import Job, Outcome
from ledger.store import Store
from serve.errors import ServeError
from serve.manifest import Manifest
from tests.validate.fakes import FakeEngine, ask, tell
from tests.validate.test_parity_cli import write_artifact
from validate import parity

DType = Literal["float32", "bfloat16"]


class Loaded(FakeEngine):
    """With the manifest of its folder, as the real one has."""

    def __init__(self, folder: Path, off_at: frozenset[int] = frozenset()) -> None:
        super().__init__(off_at=off_at)
        self.manifest = Manifest.read(folder)


class Stage:
    """The stage on prompts of 4 and 9 ids; the oracle's gap is 0.25, and one log-probability is as far off."""

    def __init__(self, root: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.checkpoint, self.monkeypatch = root, checkpoint, monkeypatch
        # pytest itself has long imported what the process under test may not.
        monkeypatch.setattr(parity, "require_clean_process", lambda: None)
        self.store = Store(root / "store")

    def run(
        self,
        dtype: DType,
        off_at: frozenset[int] = frozenset(),
        *,
        recipe: DType | None = None,
        epsilon: float = 0.5,
        tolerance: float = 0.5,
    ) -> Outcome:
        """On an artifact of `dtype`; the recipe says the same unless it is given."""
        folder = self.root / dtype
        folder.mkdir()
        write_artifact(folder, self.checkpoint, dtype)
        self.engine = Loaded(folder, off_at)
        loader = type("Loader", (), {"load": staticmethod(lambda _folder: self.engine)})
        self.monkeypatch.setattr(parity, "Engine", loader)
        asked = ask((4, 9))
        inputs = {"prompts": self._made("prompts", asked), "oracle": self._made("oracle", tell(asked, gap=0.25))}
        declared = parity.Recipe(dtype=recipe or dtype, epsilon=epsilon, logprob_tolerance=tolerance)
        return parity.work(Job(declared, inputs, self.store), folder)

    def _made(self, stage: str, record: Any) -> Receipt:
        outputs = {f"{stage}.json": self.store.put_json(record.model_dump(mode="json"))}
        common: dict[str, Any] = {"recipe": {}, "inputs": {}, "facts": {}, "measured": {}, "toolchain": {}}
        return Receipt(stage=stage, key="0" * 64, outputs=outputs, verdict="done", source="s", **common)


@pytest.fixture
def stage(tmp_path: Path, checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    return Stage(tmp_path, checkpoint, monkeypatch)


def test_a_right_artifact_passes(stage: Stage) -> None:
    outcome = stage.run("float32")
    assert (outcome.verdict, outcome.message) == ("passed", "")
    facts = outcome.facts
    assert (facts["prompts"], facts["tokens"], facts["agreement"], facts["heldout"]["tokens"]) == (2, 16, 1.0, 4)
    assert (facts["mismatches"], facts["exemptions"], facts["dtype"], facts["epsilon"]) == ([], [], "float32", 0.0)
    assert facts["artifact"] == sha256_file(stage.root / "float32" / "manifest.json")
    assert outcome.measured["parts"].keys() == {"oracle", "repeats", "heldout"}
    assert stage.engine.closed


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_known_answer_is_recorded_as_far_as_the_oracle_was_decided(stage: Stage, dtype: DType) -> None:
    known = stage.run(dtype, epsilon=0.25).facts["selfcheck"]
    said = [token.id for token in FakeEngine().generate(known["prompt"], max_new=8, stop_ids=frozenset())]
    assert (len(known["prompt"]), known["tokens"]) == (9, said)


def test_nothing_is_recorded_where_the_oracle_was_undecided(stage: Stage) -> None:
    assert stage.run("bfloat16", epsilon=0.5).facts["selfcheck"] is None


def test_float32_ignores_the_epsilon(stage: Stage) -> None:
    outcome = stage.run("float32", frozenset({6}))
    assert outcome.verdict == "failed"
    assert outcome.message.startswith("oracle: prompt p0, position 2: expected ")
    assert len(outcome.facts["mismatches"]) == 1
    assert outcome.facts["selfcheck"] is None


@pytest.mark.parametrize(("epsilon", "verdict"), [(0.5, "passed"), (0.25, "failed")])
def test_bfloat16_is_judged_by_the_declared_epsilon(stage: Stage, epsilon: float, verdict: str) -> None:
    outcome = stage.run("bfloat16", frozenset({6}), epsilon=epsilon)
    assert outcome.verdict == verdict
    assert outcome.facts["epsilon"] == epsilon
    assert len(outcome.facts["exemptions"]) == (verdict == "passed")


@pytest.mark.parametrize(
    ("dtype", "tolerance", "verdict"),
    [("float32", 0.25, "passed"), ("float32", 0.125, "failed"), ("bfloat16", 0.125, "passed")],
)
def test_float32_is_judged_by_the_declared_tolerance(
    stage: Stage, dtype: DType, tolerance: float, verdict: str
) -> None:
    outcome = stage.run(dtype, tolerance=tolerance)
    assert outcome.verdict == verdict
    assert outcome.facts["logprob_tolerance"] == (tolerance if dtype == "float32" else None)
    assert outcome.facts["heldout"]["logprob_difference"]["max"] == 0.25
    assert outcome.message == (
        ""
        if verdict == "passed"
        else "heldout-logprobs: prompt h0, position 0: expected -1.250000 nats, got -1.500000, "
        "accepted: at most 0.125 apart"
    )


def test_an_artifact_of_another_dtype(stage: Stage) -> None:
    with pytest.raises(BadInput, match=r"--artifact .* is bfloat16; accepted: float32, as the recipe says"):
        stage.run("bfloat16", recipe="float32")
    assert stage.engine.closed


def test_an_artifact_that_cannot_be_loaded(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise ServeError("decode.xla: missing")

    monkeypatch.setattr(Loaded, "generate", fail)
    with pytest.raises(BadInput, match=r"^decode\.xla: missing$"):
        stage.run("float32")
