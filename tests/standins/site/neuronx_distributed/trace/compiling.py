"""Stand-in for the compile step of trace.model_builder; SDK document, section 3.3: flags, cache key, folder."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

from neuron_standin.metaneff import MetaNeff
from torch_neuronx.utils import get_platform_target


def append_default_compiler_flags(compiler_args: str | None = "") -> str:
    """The flags as given, or the default ones; --auto-cast, -O and --verbose are added where they are not said."""
    flags = compiler_args or "--enable-saturate-infinity --auto-cast=none --model-type=transformer -O1"
    if "--auto-cast" not in flags:
        flags += " --auto-cast=none"
    if not re.search(r"-O\d+", flags):
        flags += " -O1"
    if "--verbose" not in flags:
        flags += " --verbose=35"
    return flags


def compile_graph(
    data: bytes, metaneff: MetaNeff, compiler_args: str, folder: Path, priority: bool = False, use_cache: bool = True
) -> bytes:
    """The NEFF of one graph; `folder` is left with model/graph.hlo, graph.neff, metaneff.pb and the log."""
    from libneuronxla import neuron_xla_compile, neuron_xla_wlo_compile

    (folder / "model").mkdir(parents=True, exist_ok=True)
    (folder / "model/graph.hlo").write_bytes(data)
    flags = compiler_args
    if "--logfile" not in flags:
        flags += f" --logfile={(folder / 'log-neuron-cc.txt').absolute()}"
    if priority:
        flags += " --enable-internal-neff-wrapper"
    key = hashlib.sha256(data + flags.replace(" ", "").encode()).hexdigest()[:20]
    arguments: dict[str, Any] = {
        "input_format": "hlo",
        "platform_target": get_platform_target(flags),
        "cache_key": key,
        "retry_failed_compilation": False,
        "lazy": True,
        "use_cache": use_cache,
        "cache_dir": None,
        "work_dir": folder.absolute(),
        "create_subdir": False,
    }
    neff: bytes
    if priority:
        neff, _ = neuron_xla_wlo_compile(data, flags, **arguments)
    else:
        neff = neuron_xla_compile(data, flags, **arguments)
    (folder / "graph.neff").write_bytes(neff)
    (folder / "metaneff.pb").write_bytes(metaneff.SerializeToString())
    return neff
