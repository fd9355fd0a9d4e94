"""Reproducible chance."""

from __future__ import annotations

import random

import pytest


@pytest.fixture
def chance() -> random.Random:
    return random.Random(0)
