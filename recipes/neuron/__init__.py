"""Builders of target inf2: the step graph handed to the Neuron SDK, each build in a process of its own."""
