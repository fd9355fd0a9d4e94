"""Tests of publish."""
