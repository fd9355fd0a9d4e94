"""From HLO to NEFF in a work directory, by running neuronx-cc (section 2.4 steps 4 and 5, return codes)."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from neuron_standin.lowering import dtype_name
from torch import Tensor

from torch_neuronx.utils.utils import get_platform_target, target_argument, words

_EXPLANATIONS = {9: "killed, usually out of host memory", 6: "abort, a compiler bug", 11: "segmentation fault"}


def setup_compiler_dirs(hlo: bytes, compiler_workdir: str | Path, constants: Mapping[int, Tensor]) -> Path:
    """Write model/graph.hlo and the values to inline, by HLO parameter number; returns the model folder."""
    model = Path(compiler_workdir).absolute() / "model"
    shutil.rmtree(model, ignore_errors=True)
    (model / "weights").mkdir(parents=True)
    (model / "graph.hlo").write_bytes(hlo)
    table = []
    for number, tensor in constants.items():
        file = f"weights/{number}.npy"
        raw = tensor.detach().contiguous()
        np.save(model / file, (raw.view(torch.int16) if raw.dtype == torch.bfloat16 else raw).numpy())
        table.append({"parameter": number, "dtype": dtype_name(tensor), "file": file})
    (model / "metadata.json").write_text(json.dumps({"constants": table}))
    return model


def get_compile_command(
    compiler_target: str | Path, compiler_workdir: str | Path, compiler_args: str | Sequence[str] | None
) -> list[str]:
    """The words of the neuronx-cc command that makes graph.neff."""
    workdir, given = Path(compiler_workdir).absolute(), words(compiler_args)
    command = ["neuronx-cc", "compile", str(compiler_target), "--framework", "XLA"]
    if not target_argument(given):
        command += ["--target", get_platform_target(given)]
    if not any(one.startswith("--verbose") for one in given):
        command.append("--verbose=35")
    if not any(one.startswith("--logfile") for one in given):
        command.append(f"--logfile={workdir / 'log-neuron-cc.txt'}")
    return [*command, "--output", str(workdir / "graph.neff"), *given]


def save_compile_command(command: Sequence[str], compiler_workdir: str | Path) -> None:
    """Write command.txt."""
    Path(compiler_workdir, "command.txt").write_text(shlex.join(command) + "\n")


def run_compiler(command: Sequence[str]) -> None:
    """Run it by bare name through sh, in this process's directory; RuntimeError names the return code."""
    done = subprocess.run(shlex.join(command), shell=True, check=False)
    if done.returncode == 0:
        return
    # A shell that does not replace itself reports a signal as 128 + its number.
    code = done.returncode if done.returncode < 128 else 128 - done.returncode
    explained = f" ({_EXPLANATIONS[-code]})" if -code in _EXPLANATIONS else ""
    raise RuntimeError(f"neuronx-cc failed with {code}{explained}; command: {shlex.join(command)}")
