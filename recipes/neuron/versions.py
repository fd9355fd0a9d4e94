"""What the Neuron SDK on this host says it is; the modules' own words first, then what pip recorded.

    python -m recipes.neuron.versions BUILDER      the same as JSON, in a process that may import the SDK

The SDK is asked in a child process: importing it claims the process for its backend. A package that is missing, a
missing compiler, or one of the empty packages that PyPI has under these names is a BadInput that says what is accepted.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib import metadata

from config.builders import Builder
from config.sdk import PINS, SDK, told_version
from ledger.errors import BadInput, run_cli
from recipes.neuron.environment import clean
from serve.runtime.neuron.environment import stand_for_fx

SOURCE = "https://pip.repos.neuron.amazonaws.com"
UNKNOWN = "unknown"
# Module, distribution, and what a real one has: PyPI's placeholders have not.
_NEEDED: dict[str, tuple[str, str, str]] = {
    "torch_neuronx": ("torch_neuronx", "torch-neuronx", "trace"),
    "nxd": ("neuronx_distributed.trace.model_builder", "neuronx-distributed", "ModelBuilder"),
    "parallel": ("neuronx_distributed.trace", "neuronx-distributed", "parallel_model_trace"),
}
_ANSWER = "versions: "
_TIMEOUT = 600  # seconds; a first import from a cold network disk takes minutes


@cache
def installed(builder: Builder) -> dict[str, str]:
    """Versions by distribution name of what `builder` uses; BadInput for what is missing or no SDK."""
    with tempfile.TemporaryDirectory() as folder:
        asked = subprocess.run(
            [sys.executable, "-m", "recipes.neuron.versions", builder],
            cwd=folder,
            env=clean(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    # The SDK may print before and after the answer.
    answers = [line for line in asked.stdout.splitlines() if line.startswith(_ANSWER)]
    if asked.returncode == BadInput.exit_code and "error: " in asked.stderr:
        raise BadInput(asked.stderr.strip().splitlines()[-1].removeprefix("error: "))
    if asked.returncode or not answers:
        last = (asked.stderr.strip().splitlines() or [f"exit {asked.returncode}"])[-1]
        raise BadInput(f"the Neuron SDK cannot be imported ({last}); accepted: SDK {SDK} from {SOURCE}")
    versions: dict[str, str] = json.loads(answers[-1].removeprefix(_ANSWER))
    return versions


def _report(builder: str) -> dict[str, str]:
    stand_for_fx(sys.modules)
    found = {}
    for wanted in ("torch_neuronx", builder):
        if wanted in _NEEDED:
            module, package, api = _NEEDED[wanted]
            found[package] = _module_version(module, package, api)
    found["libneuronxla"] = _version_of("libneuronxla", sys.modules.get("libneuronxla"))
    found["neuronx-cc"] = _compiler_version()
    return found


def _module_version(name: str, package: str, api: str) -> str:
    top = name.partition(".")[0]
    try:
        root = importlib.import_module(top)
    except ModuleNotFoundError as error:
        if error.name != top:
            raise BadInput(f"{top} cannot be imported ({error}); {_accepted(package)}") from None
        raise BadInput(f"{package} is not installed; {_accepted(package)}") from None
    except (ImportError, OSError, RuntimeError) as error:
        raise BadInput(f"{top} cannot be imported ({_line(error)}); {_accepted(package)}") from None
    version = _version_of(package, root)
    try:
        real = hasattr(importlib.import_module(name), api)
    except ModuleNotFoundError as error:
        if not str(error.name).startswith(top):
            raise BadInput(f"{name} cannot be imported ({error}); {_accepted(package)}") from None
        real = False
    if not real:
        named = package if version == UNKNOWN else f"{package} {version}"
        raise BadInput(f"{named} has no {api}: it is a placeholder of that name; {_accepted(package)}")
    return version


def _version_of(package: str, module: object) -> str:
    """What the module says, else what pip recorded; unknown when neither does."""
    said = getattr(module, "__version__", None)
    if isinstance(said, str) and said:
        return said
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return UNKNOWN


def _compiler_version() -> str:
    try:
        done = subprocess.run(
            ["neuronx-cc", "--version"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_TIMEOUT,
            check=False,
        )
    except OSError as error:
        raise BadInput(f"neuronx-cc cannot be run ({error.strerror}); {_accepted('neuronx-cc')} on PATH") from None
    # A compiler that does not tell is unknown, and no release is made with it.
    return (done.returncode == 0 and told_version(done.stdout + done.stderr)) or UNKNOWN


def _accepted(package: str) -> str:
    return f"accepted: {PINS[package]} of SDK {SDK} from {SOURCE}"


def _line(error: Exception) -> str:
    return " ".join(str(error).split())


def main(argv: Sequence[str] | None = None) -> int:
    """Print the versions as one line of JSON."""
    (builder,) = sys.argv[1:] if argv is None else argv
    sys.stdout.write(f"{_ANSWER}{json.dumps(_report(builder))}\n")
    return 0


if __name__ == "__main__":
    run_cli(main)
