"""Tests of recipes/doctor."""
