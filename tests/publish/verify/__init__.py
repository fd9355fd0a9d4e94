"""Tests of publish.verify."""
