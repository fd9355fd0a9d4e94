"""Tests of validate/probe."""
