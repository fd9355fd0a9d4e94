"""Sentences and exit codes, against sentences written by hand."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, Self

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ledger.errors import BadInput, FoundryError, GateFailed, explain, run_cli


class Forbids(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Tiny(Forbids):
    kind: Literal["tiny"]
    seed: int = 0


class Hub(Forbids):
    kind: Literal["hub"]
    repo: str


class Variant(Forbids):
    name: Annotated[str, Field(pattern="^[a-z]+$")]
    kv_max: Annotated[int, Field(ge=2)] = 512
    kv_bucket: int = 64
    batch: int = 1

    @field_validator("batch")
    @classmethod
    def _one(cls, batch: int) -> int:
        if batch != 1:
            raise ValueError(f"found {batch}; accepted: 1")
        return batch

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.kv_bucket > self.kv_max:
            raise ValueError(f"kv_bucket: found {self.kv_bucket}; accepted: at most kv_max ({self.kv_max})")
        if self.name == "latest":
            raise ValueError("this name is a tag; accepted: any other")
        return self


class Line(Forbids):
    source: Annotated[Tiny | Hub, Field(discriminator="kind")] = Tiny(kind="tiny")
    variants: Annotated[list[Variant], Field(min_length=1)]
    note: Variant | None = None


class Factory(Forbids):
    lines: dict[Annotated[str, Field(pattern="^[a-z]+$")], Line]
    free: dict[str, Tiny] = {}


def line(**variant: Any) -> dict[str, Any]:
    return {"lines": {"demo": {"variants": [{"name": "a"} | variant]}}}


def source(**keys: Any) -> dict[str, Any]:
    return {"lines": {"demo": {"variants": [{"name": "a"}], "source": keys}}}


VARIANT_KEYS = "name, kv_max, kv_bucket, batch"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (line(kv_bucket=900), "lines.demo.variants.0.kv_bucket is 900; accepted: at most kv_max (512)"),
        (line(batch=2), "lines.demo.variants.0.batch is 2; accepted: 1"),
        (line(name="latest"), "lines.demo.variants.0: this name is a tag; accepted: any other"),
        (line(kv_max=1), "lines.demo.variants.0.kv_max is 1; accepted: greater than or equal to 2"),
        (line(name="A"), "lines.demo.variants.0.name is 'A'; accepted: text that matches ^[a-z]+$"),
        (line(bucket=9), f"lines.demo.variants.0.bucket is not a known key; accepted: {VARIANT_KEYS}"),
        (
            {"lines": {"demo": {"variants": [{"nmae": "a"}]}}},
            f"lines.demo.variants.0.nmae is not a known key; accepted: {VARIANT_KEYS} (and 1 more)",
        ),
        ({"lines": {"demo": {"variants": []}}}, "lines.demo.variants is []; accepted: at least 1 item"),
        ({"lines": {"demo": {"variants": [7]}}}, "lines.demo.variants.0 is 7; accepted: a mapping"),
        (
            {"lines": {"demo": {"variants": [{"name": "a"}], "note": {"name": "a", "x": 1}}}},
            f"lines.demo.note.x is not a known key; accepted: {VARIANT_KEYS}",
        ),
        (
            {"lines": {"Demo": {"variants": [{"name": "a"}]}}},
            "lines has the key 'Demo'; accepted: text that matches ^[a-z]+$",
        ),
        ({"lines": {"demo": {}}}, "lines.demo.variants is missing; accepted: a value, as it has no default"),
        (source(kind="tiny", seed=[]), "lines.demo.source.seed is []; accepted: a valid integer"),
        (source(kind="tiny", sed=1), "lines.demo.source.sed is not a known key; accepted: kind, seed"),
        (source(kind="tinny"), "lines.demo.source.kind is 'tinny'; accepted: 'tiny', 'hub'"),
        (source(seed=1), "lines.demo.source.kind is missing; accepted: 'hub', 'tiny'"),
        ({"lines": {}, "free": {"q": {"kind": "hub"}}}, "free.q.kind is 'hub'; accepted: 'tiny'"),
        (
            {"lines": {}, "free": {"q": {"kind": "tiny", "x": 1}}},
            "free.q.x is not a known key; accepted: kind, seed",
        ),
    ],
)
def test_a_validation_error_is_one_sentence(data: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Factory.model_validate(data)
    assert explain(caught.value, "config/demo.yaml", Factory) == f"config/demo.yaml: {sentence}"


def test_a_whole_file_of_another_kind_is_named_without_a_key() -> None:
    with pytest.raises(ValidationError) as caught:
        Factory.model_validate([])
    assert explain(caught.value, "a.yaml") == "a.yaml is []; accepted: a mapping"


def test_without_the_model_the_sentence_still_names_the_key() -> None:
    with pytest.raises(ValidationError) as caught:
        Factory.model_validate(line(kv_bukcet=9))
    expected = "a.yaml: lines.demo.variants.0.kv_bukcet is not a known key; accepted: the keys of the schema"
    assert explain(caught.value, "a.yaml") == expected


def test_a_long_value_is_cut() -> None:
    with pytest.raises(ValidationError) as caught:
        Factory.model_validate(line(kv_max="9" * 5000 + "x"))
    assert len(explain(caught.value, "a.yaml", Factory)) < 250


@pytest.fixture
def pytests_own_ctrl_c() -> Iterator[None]:
    """A command leaves Ctrl-C to the system when it ends."""
    handler = signal.getsignal(signal.SIGINT)
    yield
    signal.signal(signal.SIGINT, handler)


def raises(error: BaseException) -> Callable[[], int]:
    def main() -> int:
        raise error

    return main


def ended(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("main", "code", "stderr"),
    [
        (lambda: None, 0, ""),
        (lambda: 0, 0, ""),
        (lambda: 1, 1, ""),
        (raises(BadInput("a.yaml: x is 1; accepted: 2")), 2, "error: a.yaml: x is 1; accepted: 2\n"),
        (raises(FoundryError("something")), 2, "error: something\n"),
        (raises(FileNotFoundError(2, "No such file", "a.yaml")), 2, "error: a.yaml: No such file\n"),
        (raises(OSError(28, "No space left on device")), 2, "error: [Errno 28] No space left on device\n"),
        (raises(OSError("two\nlines")), 2, "error: two lines\n"),
        (raises(TimeoutError()), 2, "error: TimeoutError\n"),
        (raises(ended(OSError("half a file"), KeyboardInterrupt())), 130, "error: ended by SIGINT\n"),
        (raises(ended(ImportError("initialization failed"), KeyboardInterrupt())), 130, "error: ended by SIGINT\n"),
        (raises(KeyboardInterrupt()), 130, "error: ended by SIGINT\n"),
        (raises(GateFailed("parity: 3 tokens differ")), 1, "error: parity: 3 tokens differ\n"),
    ],
)
@pytest.mark.usefixtures("pytests_own_ctrl_c")
def test_exit_codes(main: Callable[[], int | None], code: int, stderr: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run_cli(main)
    assert caught.value.code == code
    assert capsys.readouterr() == ("", stderr)


def test_a_bug_keeps_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError):
        run_cli(lambda: 1 // 0)


INTERRUPT = "import os, signal; os.kill(os.getpid(), signal.SIGINT)"


@pytest.mark.parametrize(
    "program",
    [
        pytest.param(f"import ledger.errors; {INTERRUPT}", id="while it is imported"),
        pytest.param(
            f"import ledger.errors\ntry: {INTERRUPT}\nexcept KeyboardInterrupt as error: raise ImportError from error",
            id="in an extension",
        ),
        pytest.param(f"from ledger.errors import run_cli; run_cli(lambda: exec({INTERRUPT!r}))", id="at work"),
    ],
)
def test_ctrl_c_is_one_line(program: str) -> None:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "error: ended by SIGINT\n")


def test_ctrl_c_at_exit_is_no_traceback() -> None:
    program = (
        f"import atexit; atexit.register(lambda: exec({INTERRUPT!r}));"
        "from ledger.errors import run_cli; run_cli(lambda: 0)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


def test_a_bug_outside_of_the_command_keeps_its_traceback() -> None:
    program = "import ledger.errors; 1 // 0"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.endswith("ZeroDivisionError: integer division or modulo by zero\n")
