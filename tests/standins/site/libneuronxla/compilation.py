"""neuron_xla_compile: neuronx-cc behind a cache (sections 2.6 NEURON_COMPILE_CACHE_URL, 3.3).

Cache entry: <url>/neuronxcc-<version>/MODULE_<hlo hash>+<flag hash>/{model.hlo_module.pb, compile_flags.json,
model.neff, model.done, model.log}. A failed entry has a log and no NEFF, and is replayed until a retry is asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from neuron_standin import versions

DEFAULT_CACHE = "/var/tmp/neuron-compile-cache"
# Understood by this wrapper in NEURON_CC_FLAGS, with a value; anything else there goes to the compiler.
_WRAPPER = {"--cache_dir": True, "--no_cache": False, "--retry_failed_compilation": False, "--log_level": True}


def neuron_xla_compile(
    module_bytes: bytes,
    compiler_flags: str | Sequence[str],
    input_format: str = "hlo",
    platform_target: str | None = None,
    cache_key: str | None = None,
    retry_failed_compilation: bool = False,
    lazy: bool = True,
    use_cache: bool = True,
    cache_dir: str | None = None,
    work_dir: str | Path | None = None,
    create_subdir: bool = True,
) -> bytes:
    """The NEFF; RuntimeError when the compiler fails, or failed before for the same module and flags."""
    if input_format != "hlo":
        raise ValueError(f"input_format is {input_format!r}; accepted: 'hlo'")
    flags, switches = _split(compiler_flags)
    if platform_target and not any(one.partition("=")[0] == "--target" for one in flags):
        flags.append(f"--target={platform_target}")
    folder = Path(work_dir) if work_dir is not None else Path(tempfile.mkdtemp(prefix="neuroncc_compile_workdir"))
    folder = folder / _digest(module_bytes) if create_subdir else folder
    if not use_cache or "--no_cache" in switches:
        return _compile(module_bytes, flags, folder)
    url = switches.get("--cache_dir") or cache_dir or os.environ.get("NEURON_COMPILE_CACHE_URL") or DEFAULT_CACHE
    retry = retry_failed_compilation or "--retry_failed_compilation" in switches
    name = f"MODULE_{cache_key or _digest(module_bytes)}+{_digest(json.dumps(flags).encode())[:8]}"
    entry = _local(url) / f"neuronxcc-{versions.NEURONX_CC}" / name
    return _cached(entry, module_bytes, flags, folder, retry)


def neuron_xla_wlo_compile(
    module_bytes: bytes, compiler_flags: str | Sequence[str], **arguments: object
) -> tuple[bytes, bytes | None]:
    """The NEFF, and None: this compiler wishes no other weight layout. Arguments as of `neuron_xla_compile`."""
    flags = compiler_flags if isinstance(compiler_flags, str) else " ".join(compiler_flags)
    if "--enable-internal-neff-wrapper" not in flags:
        raise ValueError("weight layout optimisation needs --enable-internal-neff-wrapper")
    return neuron_xla_compile(module_bytes, compiler_flags, **arguments), None  # type: ignore[arg-type]


def _split(given: str | Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Flags of the compiler, and the wrapper's own out of NEURON_CC_FLAGS."""
    flags = shlex.split(given) if isinstance(given, str) else list(given)
    switches: dict[str, str] = {}
    rest = shlex.split(os.environ.get("NEURON_CC_FLAGS", ""))
    while rest:
        name, equals, value = rest.pop(0).partition("=")
        if name not in _WRAPPER:
            flags.append(name + equals + value)
        else:
            switches[name] = value if equals or not _WRAPPER[name] else rest.pop(0)
    return flags, switches


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


def _local(url: str) -> Path:
    if "://" in url:
        raise ValueError(f"stand-in: the cache is {url!r}; only local folders are stood in for")
    return Path(url)


def _cached(entry: Path, module: bytes, flags: Sequence[str], folder: Path, retry: bool) -> bytes:
    if (entry / "model.done").exists():
        return (entry / "model.neff").read_bytes()
    log = entry / "model.log"
    if log.exists() and not retry:
        raise RuntimeError(f"Got a cached failed neff at {entry}. Original error: {log.read_text()}")
    entry.mkdir(parents=True, exist_ok=True)
    (entry / "model.hlo_module.pb").write_bytes(module)
    (entry / "compile_flags.json").write_text(json.dumps(list(flags)))
    try:
        neff = _compile(module, flags, folder)
    except RuntimeError as error:
        log.write_text(str(error))
        raise
    (entry / "model.neff").write_bytes(neff)
    log.unlink(missing_ok=True)
    (entry / "model.done").touch()
    return neff


def _compile(module: bytes, flags: Sequence[str], folder: Path) -> bytes:
    folder.mkdir(parents=True, exist_ok=True)
    source, output = folder.absolute() / "module.hlo_module.pb", folder.absolute() / "module.neff"
    source.write_bytes(module)
    command = ["neuronx-cc", "compile", str(source), "--framework", "XLA", "--output", str(output), *flags]
    done = subprocess.run(shlex.join(command), shell=True, check=False, stderr=subprocess.PIPE, text=True)
    if done.returncode:
        code = done.returncode if done.returncode < 128 else 128 - done.returncode
        raise RuntimeError(f"neuronx-cc failed with {code}: {done.stderr.strip()}")
    return output.read_bytes()
