"""Checkpoint to compiled graphs: fetch, lower, weights, tables, compile, assemble."""
