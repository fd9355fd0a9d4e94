"""The table of failures: exit status and log as they have been reported, the kind, the code and what to do."""

from __future__ import annotations

import pytest

from recipes.neuron.failures import classify

TRACEBACK = "Traceback (most recent call last):\n  File build.py\n"

CASES = [
    # the compiler killed by the host, seen from its caller and by its own envelope
    (1, f"{TRACEBACK}RuntimeError: neuronx-cc failed with status -9", "host memory", None, "more, or swap"),
    (1, f"{TRACEBACK}CalledProcessError: ... returned non-zero exit status 137.", "host memory", None, "swap"),
    (1, "[F137] neuronx-cc was forcibly killed - This most commonly occurs due to insufficient system memory.",
     "host memory", None, "swap"),
    (-9, "", "host memory", None, "the build was ended by SIGKILL"),
    (137, "tracing ...", "host memory", None, "the build was ended by SIGKILL"),
    (1, f"{TRACEBACK}MemoryError", "host memory", None, "swap"),
    # estimates of device memory, which are errors of kind E but no wrong operator
    (1, "[NCC_EOOM001] Estimated peak HBM usage 19.1 GB exceeds 16 GB", "device memory", "NCC_EOOM001", "higher tp"),
    (1, "[NCC_EOOM002] too much\n[F134] neuronx-cc terminated abnormally", "device memory", "NCC_EOOM002", "higher tp"),
    (1, "[NCC_EVRF009] ...", "device memory", "NCC_EVRF009", "smaller kv_max"),
    (1, "[NCC_EXSP001] ...", "device memory", "NCC_EXSP001", "recipes.plan"),
    (1, "[XCG815] Estimated peak HBM usage (19.0) exceeds 16GB", "device memory", "XCG815", "higher tp"),
    # for the user to mend
    (1, "[NCC_EVRF001] Operator topk is not supported\nexit status 70", "operator", "NCC_EVRF001", "recipes.lint"),
    (1, "[NCC_EARG001] bad logical-nc config", "argument", "NCC_EARG001", "mend the flags in recipes/neuron/"),
    (70, "[NCC_EARG002] Unrecognized argument: --x\n[F134] ...", "argument", "NCC_EARG002", "neuronx-cc 2.23.6484.0"),
    (1, "[NCC_EVRF007] 12,000,000 instructions", "operator", "NCC_EVRF007", "smaller kv_bucket or a higher tp"),
    # the cause is the line above the envelope
    (1, "[NCC_EVRF001] Operator sort\n[F134] neuronx-cc terminated abnormally", "operator", "NCC_EVRF001", "refuses"),
    (1, "[NCC_INLA001] 524288 vs 196608\n[F134] neuronx-cc terminated", "compiler crash", "NCC_INLA001", "AWS"),
    (1, "[NCC_IXCG856] MATCH_REPLACE8", "compiler crash", "NCC_IXCG856", "itself failed"),
    (1, "[F139] segmentation fault", "compiler crash", None, "itself failed"),
    (1, "neuronx-cc failed with return code -6", "compiler crash", None, "itself failed"),
    (1, "neuronx-cc failed with return code -11", "compiler crash", None, "itself failed"),
    (-6, "", "compiler crash", None, "SIGABRT"),
    (-11, "loading", "compiler crash", None, "SIGSEGV"),
    (1, "Got a cached failed neff at /tmp/x", "cached failure", None, "cache of its own"),
    (1, "NRT_INIT failed: No neuron device available", "no device", None, "builder nxd"),
    (1, f"{TRACEBACK}ValueError: two aliases name one output: [1, 1]", "unknown", None, "two aliases name one"),
    (3, "", "unknown", None, "exit status 3, nothing in the log"),
]  # fmt: skip


@pytest.mark.parametrize(("status", "log", "kind", "code", "said"), CASES)
def test_kind_code_and_advice(status: int, log: str, kind: str, code: str | None, said: str) -> None:
    failure = classify(status, log)
    assert (failure.kind, failure.code) == (kind, code)
    assert said in failure.message
    assert failure.message.startswith(f"the build failed, {kind} (") and "\n" not in failure.message


def test_the_line_that_says_it_is_quoted_and_cut() -> None:
    log = f"compiling\n[NCC_EVRF001] Operator {'x' * 400}\nlater"
    failure = classify(1, log)
    assert failure.line == f"[NCC_EVRF001] Operator {'x' * 177}..." and failure.line in failure.message


def test_numbers_in_ordinary_lines_mean_nothing() -> None:
    log = "loaded 137 weights, -9 dB, code 1372, NCC_E, F1370 rows, status 0\nRuntimeError: boom"
    assert classify(1, log).kind == "unknown"


FRAMES = "\n\nAt:\n  /opt/torch/x.py(12): forward\n  <frozen runpy>(198): _run_module_as_main\n"


@pytest.mark.parametrize(
    ("log", "line"),
    [
        (f"{TRACEBACK}RuntimeError: no lowering of aten::foo{FRAMES}", "RuntimeError: no lowering of aten::foo"),
        (f"{TRACEBACK}a.b.SomeError: first\n{TRACEBACK}ValueError: then\n  its note\nbye", "ValueError: then"),
        (f"\x1b[31mTypeError: in red\x1b[0m{FRAMES}", "TypeError: in red"),
        ("10 %\r20 %\rValueError: after progress\r\n  at some place", "ValueError: after progress"),
        ("no error of Python\nlast words\n\n", "last words"),
    ],
)
def test_the_reason_is_what_was_raised_and_not_where(log: str, line: str) -> None:
    assert classify(1, log).line == line


def test_what_is_not_for_a_terminal_is_escaped() -> None:
    assert classify(1, "ValueError: a\x00b\x1b]0;title\x07 \u202e!").line == (
        r"ValueError: a\x00b\x1b]0;title\x07 \u202e!"
    )


def test_an_argument_that_is_refused_is_first_looked_for_among_the_variants_own_flags() -> None:
    log = "[NCC_EARG002] Unrecognized argument: --nope"
    assert "mend the variant's own flags (--nope -O1)" in classify(70, log, ("--nope", "-O1")).message
    assert "variant" not in classify(70, log).message
    assert "--nope" not in classify(1, "[NCC_EVRF001] Operator topk", ("--nope",)).message
