"""Tests of the recipes, one file per module."""
