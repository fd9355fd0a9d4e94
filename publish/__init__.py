"""Turns what parity has passed into release folders."""
