"""Fit: what a variant takes and how fast it may be, from signatures and HLO, before there are weights or a device.

Departs from a profiler in that nothing is run: memory is counted, time is what the laws of published builds say, and
every constant names the published figure that it comes from. No figure here was measured on a device by this project.
"""
