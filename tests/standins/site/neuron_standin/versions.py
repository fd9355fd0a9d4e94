"""The release that is stood in for: Neuron SDK 2.28 (section 6.1). The local suffix keeps it from passing as real."""

from __future__ import annotations

SUFFIX = "+standin"
TORCH_NEURONX = "2.8.0.2.12.22436" + SUFFIX
NEURONX_CC = "2.23.6484.0" + SUFFIX
LIBNEURONXLA = "2.2.15515.0" + SUFFIX
NEURONX_DISTRIBUTED = "0.17.26814" + SUFFIX
RUNTIME = "2.30.51.0" + SUFFIX
