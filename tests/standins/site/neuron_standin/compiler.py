"""neuronx-cc: verdicts, exit codes and side effects (section 4; 2.5 last point for the litter).

Standard library only: the program is started once per graph. Failures are injected by STANDIN_NCC_FAIL, one of
FAILURES; with STANDIN_NCC_FAIL_ONCE=FILE only the first call fails, which makes FILE. STANDIN_NCC_HOLD=FIFO makes it
wait, its directory claimed, until someone writes to the pipe: tests meet it there.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from neuron_standin import neff, rules, versions
from neuron_standin.arguments import Arguments, RefusalError, parse
from neuron_standin.hlo import Module

FAILURES = ("oom", "abort", "segfault", "device-memory", "operator")
DIAGNOSED = 70
BUSY, FAILED = "standin-busy", "standin-failed"


def read_model(model: Path) -> tuple[bytes, tuple[neff.Constant, ...]]:
    """HLO and inlined constants of a .hlo/.pb file or of the directory that torch_neuronx writes."""
    folder = model if model.is_dir() else model.parent
    path = model / "graph.hlo" if model.is_dir() else model
    if not path.is_file():
        raise RefusalError(f"[NCC_EARG002] no such model: {path}")
    metadata = folder / "metadata.json"
    if not model.is_dir() or not metadata.is_file():
        return path.read_bytes(), ()
    table = json.loads(metadata.read_text())
    return path.read_bytes(), tuple(_constant(folder, entry) for entry in table["constants"])


def _constant(folder: Path, entry: dict[str, object]) -> neff.Constant:
    data = (folder / str(entry["file"])).read_bytes()
    size = int.from_bytes(data[8:10], "little")
    shape = ast.literal_eval(data[10 : 10 + size].decode())["shape"]
    return neff.Constant(int(str(entry["parameter"])), str(entry["dtype"]), tuple(shape), memoryview(data)[10 + size :])


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Claims a work directory; two compilers in one poison it (section 3.3, shared /tmp/nxd_model)."""
    if (folder / FAILED).exists():
        raise RefusalError(
            f"[NCC_EARG002] Got a cached failed neff at {folder}: another compilation used this directory"
        )
    try:
        handle = os.open(folder / BUSY, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    except FileExistsError:
        if _alive(folder / BUSY):
            (folder / FAILED).touch()
            raise RefusalError(
                f"[NCC_EARG002] Got a cached failed neff at {folder}: two compilers in one directory"
            ) from None
        handle = os.open(folder / BUSY, os.O_TRUNC | os.O_WRONLY)
    os.write(handle, f"{os.getpid()}\n".encode())
    os.close(handle)
    try:
        yield
        if (folder / FAILED).exists():
            raise RefusalError(
                f"[NCC_EARG002] Got a cached failed neff at {folder}: another compiler wrote here meanwhile"
            )
    finally:
        (folder / BUSY).unlink(missing_ok=True)


def _alive(lock: Path) -> bool:
    try:
        os.kill(int(lock.read_text() or "0"), 0)
    except (OSError, ValueError):
        return False
    return True


def _injected(output: Path) -> str:
    kind = os.environ.get("STANDIN_NCC_FAIL", "")
    if kind and kind not in FAILURES:
        raise ValueError(f"STANDIN_NCC_FAIL is {kind!r}; accepted: {', '.join(FAILURES)}")
    once = os.environ.get("STANDIN_NCC_FAIL_ONCE")
    if kind and once:
        try:
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return ""
    if kind in {"oom", "abort", "segfault"}:
        output.write_bytes(neff.MAGIC)  # what a killed compiler leaves
    return kind


def _die(number: signal.Signals, envelope: str, cause: str) -> None:
    print(cause, file=sys.stderr)
    print(envelope, file=sys.stderr, flush=True)
    signal.signal(number, signal.SIG_DFL) if number != signal.SIGKILL else None
    os.kill(os.getpid(), number)


def _compile(arguments: Arguments) -> None:
    options, output = arguments.options, Path(arguments.options.get("--output", "file.neff"))
    data, constants = read_model(arguments.model)
    try:
        module = Module(data)
        if hold := os.environ.get("STANDIN_NCC_HOLD"):
            Path(hold).read_bytes()
        failure = _injected(output)
        if rules.aborts(module):
            _die(signal.SIGABRT, "[F134] neuronx-cc aborted", "Check failed: unique_id_ < 2147483647")
        found = list(rules.refusals(module))
    except ValueError as error:
        raise RefusalError(f"[NCC_EARG002] {arguments.model} is no HloModuleProto: {error}") from None
    if failure == "operator":
        found.append("[NCC_EVRF001] Operator injected is not supported (STANDIN_NCC_FAIL)")
    if failure == "device-memory":
        found.append("[NCC_EOOM001] Estimated peak HBM usage (17.20GB) exceeds 16GB")
    if found:
        raise RefusalError("\n".join(found))
    if failure == "oom":
        _die(signal.SIGKILL, "[F137] neuronx-cc was forcibly killed - insufficient system memory", "walrus_driver")
    if failure == "abort":
        _die(signal.SIGABRT, "[F134] neuronx-cc aborted", "[NCC_INLA001] Allocated memory out of bound")
    if failure == "segfault":
        _die(signal.SIGSEGV, "[F139] neuronx-cc terminated abnormally", "[NCC_IBIR243] Access pattern out of bounds")
    made = neff.Neff(versions.NEURONX_CC, options["--target"], arguments.flags, data, constants)
    output.write_bytes(neff.pack(made))
    if "--logfile" in options:
        Path(options["--logfile"]).write_text("Compiler status PASS\n")


def _logfile(words: Sequence[str]) -> Path | None:
    """Where a refused command, which may not even parse, wants its log."""
    named = [word.partition("=")[2] for word in words if word.startswith("--logfile=")]
    return Path(named[-1]) if named else None


def main(words: Sequence[str]) -> int:
    """The program."""
    if list(words) == ["--version"]:
        print(f"NeuronX Compiler version {versions.NEURONX_CC}\n\nPython version {sys.version.split()[0]}")
        return 0
    if words[:1] == ["list-operators"]:
        print("\n".join(rules.LISTED))
        return 0
    if words[:1] != ["compile"]:
        print(f"[NCC_EARG002] command is {words[:1]}; accepted: compile, list-operators, --version", file=sys.stderr)
        return DIAGNOSED
    # It leaves files where it is started; a build that does not give it a directory of its own finds them.
    with Path("log-neuron-cc.txt").open("a", encoding="utf-8") as litter:
        litter.write("neuronx-cc " + " ".join(words) + "\n")
    try:
        arguments = parse(words[1:])
        with alone_in(Path(arguments.options.get("--output", "file.neff")).absolute().parent):
            _compile(arguments)
    except RefusalError as refusal:
        if logfile := _logfile(words):
            logfile.write_text(f"{refusal}\n")
        print(f"{refusal}\n\nCompiler status ERROR", file=sys.stderr)
        return DIAGNOSED
    print("\nCompiler status PASS")
    return 0
