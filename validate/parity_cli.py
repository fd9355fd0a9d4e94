"""Parity on anyone's own prompts, without a store: an artifact against a checkpoint folder or a kept oracle file.

    python -m validate.parity --artifact DIR (--checkpoint DIR | --oracle FILE)
                              --prompts FILE.jsonl --max-new N --out FILE

Exit code 0: every token agrees under the rule of validate/compare.py; 1: a mismatch, printed and in the receipt; 2:
bad input. The prompts serve as held-out text too: a float32 artifact is also judged on the log-probability of each of
their tokens. The oracle runs in a process of its own, as this one is under test.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from ledger.atomic import write_bytes, write_json
from ledger.digest import digest_json, sha256_file
from ledger.errors import BadInput, GateFailed
from ledger.flags import Parser, check_file
from ledger.receipts import Receipt
from ledger.sources import ROOT, source_digest
from ledger.stage import say
from serve.engine import Engine
from serve.errors import ServeError
from serve.manifest import MANIFEST, Manifest
from validate.encode import Encoder
from validate.findings import Report, sentences
from validate.prompt_lines import read_prompts
from validate.records import Heldout, Oracle, PromptSet, read_record
from validate.subject import examine

EPSILON = 0.1
"""Logits: the default of parity.bfloat16_epsilon in the configuration."""
TOLERANCE = 1e-3
"""Nats: the default of parity.float32_logprob_tolerance in the configuration."""
MOST_THREADS = 256


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 when parity holds, 1 when not. Raises BadInput."""
    flags = _parser().parse_args(argv)
    _clear(flags)
    if flags.max_new < 1:
        raise BadInput(f"--max-new is {flags.max_new}; accepted: 1 or more")
    if not 1 <= flags.threads <= MOST_THREADS:
        raise BadInput(f"--threads is {flags.threads}; accepted: 1 to {MOST_THREADS}")
    if not 0 <= flags.bfloat16_epsilon < math.inf:
        raise BadInput(f"--bfloat16-epsilon is {flags.bfloat16_epsilon}; accepted: 0 or more logits, and finite")
    if not 0 <= flags.float32_logprob_tolerance < math.inf:
        tolerance = flags.float32_logprob_tolerance
        raise BadInput(f"--float32-logprob-tolerance is {tolerance}; accepted: 0 or more nats, and finite")
    try:
        return _run(flags)
    except ServeError as error:
        raise BadInput(str(error)) from error


def _clear(flags: argparse.Namespace) -> None:
    """Remove the receipt of an earlier run, which must not pass for this one's; BadInput for any other file there."""
    check_file("--out", flags.out)
    if flags.keep_oracle:
        check_file("--keep-oracle", flags.keep_oracle)
        if flags.keep_oracle.resolve() in (flags.out.resolve(), flags.prompts.resolve()):
            raise BadInput(f"--keep-oracle {flags.keep_oracle} is --out or --prompts too; accepted: a file of its own")
    if flags.out.exists():
        try:
            Receipt.read(flags.out)
        except BadInput as error:
            raise BadInput(f"--out {flags.out} is there already: {error}; accepted: a new file or a receipt") from None
        flags.out.unlink(missing_ok=True)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="validate.parity", description="Token-for-token parity of an artifact on your own prompts.")
    parser.add_argument("--artifact", required=True, type=Path, metavar="DIR", help="a variant's folder")
    against = parser.add_mutually_exclusive_group(required=True)
    against.add_argument("--checkpoint", type=Path, metavar="DIR", help="the checkpoint it was built from")
    against.add_argument("--oracle", type=Path, metavar="FILE", help="answers kept from an earlier --keep-oracle")
    parser.add_argument("--prompts", required=True, type=Path, metavar="FILE", help="one JSON object a line")
    parser.add_argument("--max-new", required=True, type=int, metavar="N", help="tokens of an answer at most")
    parser.add_argument("--out", required=True, type=Path, metavar="FILE", help="where the receipt goes")
    parser.add_argument("--keep-oracle", type=Path, metavar="FILE", help="keep the oracle's answers here")
    parser.add_argument(
        "--bfloat16-epsilon",
        type=float,
        default=EPSILON,
        metavar="LOGITS",
        help="oracle gap that excuses a difference",
    )
    parser.add_argument(
        "--float32-logprob-tolerance",
        type=float,
        default=TOLERANCE,
        metavar="NATS",
        help="how far a log-probability of a prompt's token may be off",
    )
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of the oracle, default 2")
    return parser


def _run(flags: argparse.Namespace) -> int:
    started = time.monotonic()
    manifest = Manifest.read(flags.artifact)
    asked = read_prompts(
        flags.prompts,
        _encoder(flags, manifest),
        kv_max=manifest.variant.kv_max,
        vocab_size=manifest.model.vocab_size,
        max_new=flags.max_new,
    )
    scored = asked.model_copy(update={"heldout": _windows(asked)})
    oracle = read_record(flags.oracle, Oracle) if flags.oracle else _consult(flags, scored)
    exact = manifest.variant.dtype == "float32"
    epsilon, tolerance = (0.0, flags.float32_logprob_tolerance) if exact else (flags.bfloat16_epsilon, None)
    with closing(Engine.load(flags.artifact)) as engine:
        given = scored if exact else asked
        report = examine(engine, given, oracle, epsilon=epsilon, logprob_tolerance=tolerance, say=say)
    limits = {"dtype": manifest.variant.dtype, "epsilon": epsilon, "logprob_tolerance": tolerance}
    receipt = _receipt(flags, report, limits, seconds=time.monotonic() - started)
    receipt.write(flags.out)
    if report.passed:
        exempt = f", {len(report.exemptions)} exempt" if report.exemptions else ""
        say(f"parity passed: {report.prompts} prompts, {report.tokens} tokens{exempt}; receipt {flags.out}")
        return 0
    sys.stderr.write(f"{sentences(report)}\nerror: parity failed; receipt {flags.out}\n")
    return 1


def _windows(asked: PromptSet) -> tuple[Heldout, ...]:
    """Every prompt that has a second token to foretell."""
    return tuple(Heldout(name=prompt.name, ids=prompt.ids) for prompt in asked.prompts if len(prompt.ids) > 1)


def _encoder(flags: argparse.Namespace, manifest: Manifest) -> Encoder:
    """With the checkpoint's files, or without it with those that the artifact ships."""
    if flags.checkpoint:
        return Encoder.from_folder(flags.checkpoint)
    return Encoder.load({name: flags.artifact / ref.path for name, ref in manifest.tokenizer.items()})


def _consult(flags: argparse.Namespace, asked: PromptSet) -> Oracle:
    with tempfile.TemporaryDirectory() as folder:
        prompts, answers = Path(folder, "prompts.json"), Path(folder, "oracle.json")
        write_json(prompts, asked.model_dump(mode="json"))
        arguments = {
            "checkpoint": flags.checkpoint.resolve(),
            "prompts": prompts,
            "out": answers,
            "threads": flags.threads,
        }
        command = [sys.executable, "-m", "validate.oracle"]
        command += [f"--{name}={value}" for name, value in arguments.items()]
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            reason = next((line.removeprefix("error: ") for line in lines if line.startswith("error: ")), lines[-1])
            failure = GateFailed if done.returncode == 1 and "error: " in done.stderr else BadInput
            raise failure(f"--checkpoint {flags.checkpoint}: the oracle cannot judge: {reason}")
        if flags.keep_oracle:
            write_bytes(flags.keep_oracle, answers.read_bytes())
        return read_record(answers, Oracle)


def _receipt(flags: argparse.Namespace, report: Report, limits: dict[str, Any], *, seconds: float) -> Receipt:
    artifact = sha256_file(flags.artifact / MANIFEST)
    against = flags.oracle or flags.checkpoint / "config.json"
    known = {
        "stage": "parity",
        "recipe": limits | {"max_new": flags.max_new},
        "inputs": {
            "artifact": artifact,
            "prompts": sha256_file(flags.prompts),
            against.name: sha256_file(against),
        },
        "toolchain": {name: _version(name) for name in ("numpy", "jaxlib", "transformers", "torch")},
        "source": source_digest("validate.parity", "validate.oracle"),
    }
    return Receipt(
        **known,
        key=digest_json(known),
        outputs={},
        facts=report.facts() | limits | {"artifact": artifact},
        measured={"seconds": round(seconds, 3), "parts": report.seconds},
        verdict="passed" if report.passed else "failed",
    )


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "absent"
