"""What importing torch_neuronx asks of the host (section 2.5): a program of libneuronxla's on PATH."""

from __future__ import annotations

import os
import shutil
import subprocess

if shutil.which("libneuronpjrt-path") is None:
    raise ImportError("libneuronpjrt-path is not on PATH: is the bin folder of the environment left out?")
subprocess.run(["libneuronpjrt-path"], check=True, stdout=subprocess.DEVNULL)
# torch_xla reads these when it is first imported.
os.environ.setdefault("PJRT_DEVICE", "CPU")
os.environ.setdefault("XLA_ALWAYS_ALLREDUCE", "1")
