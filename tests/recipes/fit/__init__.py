"""Tests of fit, one file per module."""
