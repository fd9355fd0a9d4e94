"""What the stand-ins of the Neuron SDK share: lowering, compiler, NEFF, device, executor.

Private to tests/standins: product code sees torch_neuronx, libneuronxla, neuronx_distributed and the programs in bin/.
Every file names the sections of the SDK reference it stands for. Environment switches are in options.py.
"""

from __future__ import annotations
