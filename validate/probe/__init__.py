"""Probe: what only a Neuron host can answer, asked of it once, within minutes, with evidence.

The documentation leaves questions open on which this project's code takes no side (it accepts either answer). Each is
asked here by doing the thing on a graph of a few numbers. Departs from a test suite in that no answer is a failure: a
refusal, a crash or a hang of one question is its answer, and the others are asked all the same. Only when the smallest
graph, x + 1, does not compile, load and run is there nothing to ask.
"""
