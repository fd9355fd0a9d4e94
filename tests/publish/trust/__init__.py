"""Tests of publish.trust."""
