"""Tests of the plan, one file per module."""
