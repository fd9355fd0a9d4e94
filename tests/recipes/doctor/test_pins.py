"""Pins as envs/ has them, and versions against them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recipes.doctor import ROLES
from recipes.doctor.pins import APT, Pin, numbers, read_pins, source_file


def test_every_form_of_a_line(tmp_path: Path) -> None:
    path = tmp_path / "some.txt"
    path.write_text(
        "# torch==1\n\ntorch==2.8.0\nislpy<=2026.1  # why\nnumpy\nabsl-py==2.5.1 \\\n"
        "    --hash=sha256:00\n    # via x\naws-neuronx-tools=2.28.23.0-f1\nml_dtypes == 1.0 ; x\n"
    )
    assert read_pins(path) == [
        Pin("torch", "==", "2.8.0"),
        Pin("islpy", "<=", "2026.1"),
        Pin("numpy"),
        Pin("absl-py", "==", "2.5.1"),
        Pin("aws-neuronx-tools", "=", "2.28.23.0-f1"),
        Pin("ml_dtypes", "==", "1.0"),
    ]


@pytest.mark.parametrize(
    ("pin", "version", "accepted"),
    [
        (Pin("a", "==", "2.8.0.2.12.22436"), "2.8.0.2.12.22436+0f1dac25", True),
        (Pin("a", "==", "2.8.0.2.12.22436"), "2.8.0.2.10.16998", False),
        (Pin("a", "==", "2.23.6484.0"), "2.23.6484", True),
        (Pin("a", "==", "2.8.1"), "2.8.0", False),
        (Pin("a", "<=", "2026.1"), "2026.2.1", False),
        (Pin("a", "<=", "2026.1"), "2026.1", True),
        (Pin("a", "<=", "2026.1"), "2025.2.5", True),
        (Pin("a"), "anything", True),
    ],
)
def test_a_version_against_a_pin(pin: Pin, version: str, accepted: bool) -> None:
    assert pin.accepts(version) is accepted


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=6), st.integers(0, 2))
def test_zeros_at_the_end_and_builds_do_not_count(parts: list[int], zeros: int) -> None:
    version = ".".join(map(str, parts))
    assert numbers(version + ".0" * zeros + "+local.1") == numbers(version)


def test_the_files_of_every_role_are_there_and_have_pins() -> None:
    for role in ROLES:
        assert any(pin.version for pin in read_pins(source_file(role)))
    assert [pin.operator for pin in read_pins(APT)] == ["="] * 3
