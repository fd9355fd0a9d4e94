"""Tests of the lint, one file per module."""
