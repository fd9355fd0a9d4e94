"""Typed configuration: the matrix of checkpoints and variants, the geometries, and how YAML becomes them."""
