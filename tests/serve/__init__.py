"""Tests of what ships."""
