"""bin/neuronx-cc: arguments, verdicts, exit codes and side effects (section 4; 2.5 for the litter)."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.standins import environment
from tests.standins.hlo_texts import hlo, with_large_id

GOOD = hlo("a = f32[4]{0} abs(p0)")


def cc(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the compiler in `folder`."""
    command = ["neuronx-cc", *words]
    return subprocess.run(
        command, cwd=folder, env={**environment(), **variables}, capture_output=True, text=True, check=False
    )


def compile_in(folder: Path, *flags: str, module: bytes = GOOD, **variables: str) -> subprocess.CompletedProcess[str]:
    """Compile `module` to g.neff in `folder` for inf2."""
    (folder / "g.hlo").write_bytes(module)
    words = ["compile", "g.hlo", "--framework", "XLA", "--target", "inf2", "--output", "g.neff"]
    return cc(folder, *words, *flags, **variables)


@pytest.mark.parametrize(
    "flags",
    [
        [],
        ["--model-type=transformer", "--auto-cast=none", "-O1", "--verbose=35", "--enable-saturate-infinity"],
        ["--model-type", "generic", "--auto-cast", "all", "--auto-cast-type", "bf16", "--optlevel", "2"],
        ["--tensorizer-options=--cc-pipeline-tiling-factor=2 --vectorize-strided-dma", "-lnc=1"],
        ["--enable-fast-loading-neuron-binaries", "--disable-mixed-precision-accumulation", "-O", "3"],
    ],
)
def test_documented_flags_compile(flags: list[str], tmp_path: Path) -> None:
    done = compile_in(tmp_path, *flags)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Compiler status PASS" in done.stdout
    assert (tmp_path / "g.neff").stat().st_size > len(GOOD)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--cache_dir=/tmp/x"], "[NCC_EARG002] Unrecognized argument: --cache_dir=/tmp/x"),
        (["--auto-cast=some"], "invalid choice 'some'"),
        (["--target=inf9"], "invalid choice 'inf9'"),
        (["--logfile"], "--logfile needs a value"),
        (["--logical-nc-config=2"], "[NCC_EARG001]"),
        (["another.hlo"], "one model file or directory"),
    ],
)
def test_flags_it_does_not_know_exit_70(flags: list[str], said: str, tmp_path: Path) -> None:
    done = compile_in(tmp_path, *flags)
    assert done.returncode == 70
    assert said in done.stderr
    assert not (tmp_path / "g.neff").exists()


def test_target_is_required(tmp_path: Path) -> None:
    (tmp_path / "g.hlo").write_bytes(GOOD)
    done = cc(tmp_path, "compile", "g.hlo", "--framework", "XLA")
    assert done.returncode == 70
    assert "required: --target" in done.stderr


@pytest.mark.parametrize(
    ("module", "code"),
    [
        (hlo("t = (f32[2]{0}, s32[2]{0}) topk(p0), k=2, largest=true"), "NCC_EVRF001"),
        (hlo('c = f32[4]{0} custom-call(p0), custom_call_target="Mine"'), "NCC_EHCA005"),
        (hlo("d = f64[4]{0} convert(p0)"), "NCC_ESPP004"),
        (hlo("d = c64[4]{0} convert(p0)"), "NCC_EVRF004"),
        (hlo("d = f8e4m3fn[4]{0} convert(p0)"), "NCC_EVRF051"),
        (hlo("d = f32[<=4]{0} abs(p0)", parameter="f32[<=4]{0}"), "NCC_EMOD025"),
        (hlo("s = s16[4]{0} shift-right-arithmetic(p0, p0)", parameter="s16[4]{0}"), "NCC_EVRF022"),
    ],
)
def test_graphs_it_refuses(module: bytes, code: str, tmp_path: Path) -> None:
    done = compile_in(tmp_path, "--logfile=log.txt", module=module)
    assert done.returncode == 70
    assert f"[{code}]" in done.stderr
    assert f"[{code}]" in (tmp_path / "log.txt").read_text()


def test_known_custom_call_is_accepted(tmp_path: Path) -> None:
    module = hlo('c = f32[4]{0} custom-call(p0), custom_call_target="AwsNeuronSilu"')
    assert compile_in(tmp_path, module=module).returncode == 0


def test_instruction_ids_beyond_31_bits_abort(tmp_path: Path) -> None:
    done = compile_in(tmp_path, module=with_large_id(GOOD))
    assert done.returncode == -signal.SIGABRT
    assert "unique_id_ < 2147483647" in done.stderr
    assert done.stderr.strip().endswith("[F134] neuronx-cc aborted")


def test_no_hlo_exits_70(tmp_path: Path) -> None:
    done = compile_in(tmp_path, module=b"HloModule text")
    assert done.returncode == 70
    assert "no HloModuleProto" in done.stderr


def test_operators_are_listed(tmp_path: Path) -> None:
    listed = cc(tmp_path, "list-operators", "--framework", "XLA").stdout.split()
    assert {"Dot", "DynamicUpdateSlice", "Sort"} <= set(listed)
    assert "TopK" not in listed


def test_it_litters_its_current_directory(tmp_path: Path) -> None:
    compile_in(tmp_path)
    assert (tmp_path / "log-neuron-cc.txt").exists()


@pytest.mark.parametrize(
    ("kind", "code", "said"),
    [
        ("oom", -9, "[F137]"),
        ("abort", -6, "[F134]"),
        ("segfault", -11, "[F139]"),
        ("device-memory", 70, "[NCC_EOOM001]"),
        ("operator", 70, "[NCC_EVRF001]"),
    ],
)
def test_injected_failures(kind: str, code: int, said: str, tmp_path: Path) -> None:
    done = compile_in(tmp_path, STANDIN_NCC_FAIL=kind)
    assert done.returncode == code
    assert said in done.stderr


def test_a_killed_compiler_leaves_half_a_neff(tmp_path: Path) -> None:
    compile_in(tmp_path, STANDIN_NCC_FAIL="oom")
    half = (tmp_path / "g.neff").stat().st_size
    assert compile_in(tmp_path).returncode == 0
    assert half < (tmp_path / "g.neff").stat().st_size


def test_failing_once(tmp_path: Path) -> None:
    once = str(tmp_path / "failed")
    assert compile_in(tmp_path, STANDIN_NCC_FAIL="device-memory", STANDIN_NCC_FAIL_ONCE=once).returncode == 70
    assert compile_in(tmp_path, STANDIN_NCC_FAIL="device-memory", STANDIN_NCC_FAIL_ONCE=once).returncode == 0


def test_two_compilers_in_one_directory_poison_each_other(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "g.hlo").write_bytes(GOOD)
    command = ["neuronx-cc", "compile", "g.hlo", "--framework=XLA", "--target=inf2", "--output=g.neff"]
    held = {**environment(), "STANDIN_NCC_HOLD": str(pipe)}
    first = subprocess.Popen(command, cwd=tmp_path, env=held, stderr=subprocess.PIPE, text=True)
    with pipe.open("wb"):  # open returns when the first one has claimed the directory and reads
        second = compile_in(tmp_path)
    _, said = first.communicate()
    assert (first.returncode, second.returncode) == (70, 70)
    assert "cached failed neff" in said
    assert "cached failed neff" in second.stderr
    assert "cached failed neff" in compile_in(tmp_path).stderr
    other = tmp_path / "other"
    other.mkdir()
    assert compile_in(other).returncode == 0
