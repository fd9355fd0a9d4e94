"""The command for own prompts: exit codes, receipt, and a process that stays free of the oracle's libraries."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from config.models import Parity
from ledger.errors import BadInput, GateFailed
from ledger.receipts import Receipt
from ledger.sources import ROOT
from serve.manifest import FileRef, Manifest, Model, Point, Tokens
from tests.validate.conftest import BOS, VOCAB
from tests.validate.fakes import FakeEngine, Scored
from validate import parity, parity_cli
from validate.oracle_model import OracleModel

LINES = [{"prompt": "hello"}, {"messages": [{"role": "user", "content": "hi"}]}, {"ids": [BOS, 140, 141]}]


def write_artifact(folder: Path, checkpoint: Path, dtype: Any = "float32") -> Path:
    """A manifest without graphs; the engine that would read them is replaced by a fake one."""
    names = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
    for name in names:
        shutil.copy(checkpoint / name, folder)
    nothing = FileRef(path="none", sha256="0" * 64, bytes=0)
    point = {"name": "v", "kv_max": 64, "kv_bucket": 8, "tp": 1, "batch": 1, "slim": False, "dtype": dtype}
    manifest = Manifest(
        checkpoint="c",
        revision="r",
        licence="apache-2.0",
        variant=Point(**point, kv="device", target="cpu"),
        model=Model(hidden_size=32, layers=4, ple_width=8, vocab_size=VOCAB, sliding_window=8),
        tokens=Tokens(bos=BOS, stop=(1, 106), suppress=()),
        ring=16,
        graphs={},
        weights=(),
        tables=nothing,
        tokenizer={name: FileRef(path=name, sha256="0" * 64, bytes=0) for name in names},
        toolchain={},
    )
    (folder / "manifest.json").write_text(manifest.model_dump_json())
    return folder


class Wrapped(FakeEngine):
    """Engine-shaped, with the answers of transformers; from `wrong_at` tokens of history on it errs.

    Its log-probabilities are `nats_off`.
    """

    def __init__(self, model: OracleModel, wrong_at: int | None = None, nats_off: float = 0.0) -> None:
        super().__init__()
        self.model, self.wrong_at, self.nats_off = model, wrong_at, nats_off
        self.known: dict[tuple[int, ...], int] = {}

    def _token(self, history: list[int], before: tuple[int, ...], made: int) -> int:
        key = tuple(history)
        if key not in self.known:
            self.known[key] = self.model.forced(history, start=len(history) - 1).tokens[0]
        token = self.known[key]
        return (token + 1) % VOCAB if self.wrong_at is not None and len(history) >= self.wrong_at else token

    def score(self, ids: Sequence[int]) -> list[Scored]:
        picks, logprobs = self.model.scored(ids)
        found = [None if logprob is None else logprob - self.nats_off for logprob in logprobs]
        return [Scored(*pair) for pair in zip(picks.tokens, [*found, None], strict=True)]


@pytest.fixture(scope="module")
def model(checkpoint: Path) -> OracleModel:
    return OracleModel(checkpoint, threads=1)


@pytest.fixture
def artifact(tmp_path: Path, checkpoint: Path) -> Path:
    folder = tmp_path / "artifact"
    folder.mkdir()
    return write_artifact(folder, checkpoint)


@pytest.fixture
def flags(tmp_path: Path, artifact: Path) -> list[str]:
    """The flags but for the oracle."""
    prompts = tmp_path / "mine.jsonl"
    prompts.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    out = f"--out={tmp_path / 'receipt.json'}"
    return [f"--artifact={artifact}", f"--prompts={prompts}", "--max-new=5", out]


def _load(engine: FakeEngine) -> Any:
    return type("Loader", (), {"load": staticmethod(lambda _folder: engine)})


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the first test leaves the oracle's answers for the others."""
    return tmp_path_factory.mktemp("kept") / "oracle.json"


def test_against_a_checkpoint_and_then_against_the_kept_answers(
    checkpoint: Path,
    flags: list[str],
    kept: Path,
    tmp_path: Path,
    model: OracleModel,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    engine = Wrapped(model)
    monkeypatch.setattr(parity_cli, "Engine", _load(engine))
    assert parity_cli.main([*flags, f"--checkpoint={checkpoint}", f"--keep-oracle={kept}", "--threads=1"]) == 0
    assert "parity passed: 3 prompts, 15 tokens; receipt" in capsys.readouterr().out
    receipt = Receipt.read(tmp_path / "receipt.json")
    assert (receipt.verdict, receipt.facts["prompts"], receipt.facts["tokens"]) == ("passed", 3, 15)
    assert (receipt.facts["mismatches"], receipt.facts["exemptions"], receipt.facts["agreement"]) == ([], [], 1.0)
    assert engine.closed

    monkeypatch.setattr(parity_cli, "Engine", _load(Wrapped(model, wrong_at=5)))
    assert parity_cli.main([*flags, f"--oracle={kept}"]) == 1
    said = capsys.readouterr().err
    failed = Receipt.read(tmp_path / "receipt.json")
    (third,) = [one for one in failed.facts["mismatches"] if one["prompt"] == "line-3"]
    assert (third["check"], third["position"], third["got"]) == ("oracle", 2, (third["expected"] + 1) % VOCAB)
    assert f"oracle: prompt line-3, position 2: expected {third['expected']}, got {third['got']}, gap " in said
    assert failed.verdict == "failed"
    assert failed.facts["artifact"] == receipt.facts["artifact"]

    monkeypatch.setattr(parity_cli, "Engine", _load(Wrapped(model, nats_off=0.25)))
    assert parity_cli.main([*flags, f"--oracle={kept}", "--float32-logprob-tolerance=0.5"]) == 0
    assert parity_cli.main([*flags, f"--oracle={kept}"]) == 1
    said = capsys.readouterr().err
    assert said.count("heldout-logprobs: prompt line-") == len(LINES)
    assert "accepted: at most 0.001 apart" in said


def test_a_bfloat16_artifact_has_no_limit_on_logprobs(
    flags: list[str],
    checkpoint: Path,
    kept: Path,
    artifact: Path,
    tmp_path: Path,
    model: OracleModel,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_artifact(artifact, checkpoint, "bfloat16")
    monkeypatch.setattr(parity_cli, "Engine", _load(Wrapped(model, nats_off=0.25)))
    assert parity_cli.main([*flags, f"--oracle={kept}"]) == 0
    facts = Receipt.read(tmp_path / "receipt.json").facts
    assert (facts["epsilon"], facts["logprob_tolerance"]) == (parity_cli.EPSILON, None)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"--max-new": "0"}, "--max-new is 0; accepted: 1 or more"),
        ({"--max-new": "x"}, "argument --max-new: invalid int value: 'x'"),
        ({"--bfloat16-epsilon": "-1"}, "--bfloat16-epsilon is -1.0"),
        ({"--threads": "0"}, "--threads is 0; accepted: 1 to 256"),
        ({"--threads": "257"}, "--threads is 257; accepted: 1 to 256"),
        ({"--out": "."}, "--out . is a folder; accepted: the path of a file"),
        ({"--out": "pyproject.toml"}, "--out pyproject.toml is there already: .*; accepted: a new file or a receipt"),
        ({"--out": "pyproject.toml/x"}, "--out: pyproject.toml is a file"),
        ({"--keep-oracle": "."}, "--keep-oracle . is a folder; accepted: the path of a file"),
        ({"--out": "new", "--keep-oracle": "new"}, "--keep-oracle new is --out or --prompts too"),
        ({"--bfloat16-epsilon": "inf"}, "--bfloat16-epsilon is inf; accepted: 0 or more logits, and finite"),
        ({"--float32-logprob-tolerance": "inf"}, "--float32-logprob-tolerance is inf"),
        ({"--bfloat16-epsilon": "nan"}, "--bfloat16-epsilon is nan"),
        ({"--float32-logprob-tolerance": "-1"}, "--float32-logprob-tolerance is -1.0"),
        ({"--float32-logprob-tolerance": "nan"}, "--float32-logprob-tolerance is nan"),
        ({"--artifact": "nowhere"}, "nowhere/manifest.json: cannot be read"),
        ({"--prompts": "nowhere"}, "--prompts nowhere cannot be read"),
        ({"--oracle": "nowhere"}, "nowhere cannot be read"),
        ({"--checkpoint": "nowhere"}, "not allowed with argument"),
        ({"--surprise": "1"}, "unrecognized arguments: --surprise=1"),
    ],
)
def test_bad_flags_are_one_sentence(
    flags: list[str], change: dict[str, str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    given = dict(flag.split("=", 1) for flag in [*flags, "--oracle=unread"]) | change
    with pytest.raises(BadInput, match=said) as caught:
        parity_cli.main([f"{flag}={value}" for flag, value in given.items()])
    assert "\n" not in str(caught.value)


def test_a_run_that_fails_leaves_no_receipt_of_an_earlier_one(flags: list[str], tmp_path: Path) -> None:
    earlier = Receipt(
        **{"stage": "parity", "key": "0" * 64, "recipe": {}, "inputs": {}, "outputs": {}, "facts": {}},
        **{"measured": {}, "toolchain": {}, "source": "", "verdict": "passed"},
    )
    for more in ("--oracle=nowhere", "--threads=0"):
        earlier.write(tmp_path / "receipt.json")
        with pytest.raises(BadInput):
            parity_cli.main([*flags, "--oracle=nowhere", more])
        assert not (tmp_path / "receipt.json").exists()


def test_an_oracle_that_cannot_load_the_checkpoint(flags: list[str], checkpoint: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    shutil.copytree(checkpoint, broken)
    (broken / "model.safetensors").write_bytes(b"\x08\0\0\0\0\0\0\0{}")
    with pytest.raises(BadInput, match=r"--checkpoint .*broken: the oracle cannot judge: "):
        parity_cli.main([*flags, f"--checkpoint={broken}"])


def test_the_default_limits_are_the_configurations() -> None:
    assert Parity().bfloat16_epsilon == parity_cli.EPSILON
    assert Parity().float32_logprob_tolerance == parity_cli.TOLERANCE


def test_the_process_under_test_never_imports_the_oracles_libraries() -> None:
    code = (
        "import sys; from validate import parity; import validate.subject, serve.engine, serve.runtime;"
        "parity.require_clean_process(); print(sorted({'torch', 'transformers'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_process_that_did_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", json)
    with pytest.raises(GateFailed, match="is loaded in the process under test"):
        parity.require_clean_process()


def test_the_command_ends_with_the_exit_code_of_bad_input(flags: list[str]) -> None:
    command = [sys.executable, "-m", "validate.parity", *flags, "--oracle=nowhere"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: nowhere cannot be read")
