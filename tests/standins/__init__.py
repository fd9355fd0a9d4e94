"""Stand-ins of the Neuron SDK 2.28 for tests: packages in site/, programs in bin/.

They bite where the SDK's documentation says that the SDK bites, and run the compiled graphs on XLA:CPU. A test starts
its subject in a process whose environment is `environment()`; nothing of it is imported by the tests' own process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent


def environment(base: Mapping[str, str] | None = None) -> dict[str, str]:
    """`base` (by default this process's environment) with the stand-ins first on PATH and PYTHONPATH."""
    found = dict(os.environ if base is None else base)
    python = str(Path(sys.executable).parent)
    found["PATH"] = os.pathsep.join([str(HERE / "bin"), python, found.get("PATH", os.defpath)])
    found["PYTHONPATH"] = os.pathsep.join(filter(None, [str(HERE / "site"), found.get("PYTHONPATH", "")]))
    return found
