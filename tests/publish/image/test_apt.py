"""Where packages come from: what the host's own lists say."""

from __future__ import annotations

from pathlib import Path

from publish.image.apt import sources
from tests.publish.image.small import write

_STANZAS = b"""\
Types: deb
# a comment
URIs: http://mirror.example.org/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example.org/debian-security
Suites: bookworm-security

Types: deb-src
URIs: http://sources.example.org/debian
Suites: bookworm

Enabled: no
Types: deb
URIs: http://off.example.org/debian
Suites: bookworm
"""
_LINES = b"""\
# deb http://commented.example.org/debian bookworm main
deb [arch=amd64 signed-by=/x.gpg] http://mirror.example.org/debian bookworm main
deb http://mirror.example.org/debian bookworm-security main
deb https://packages.example.org/node nodistro main
deb-src http://mirror.example.org/debian bookworm main
"""


def test_stanzas_are_read(tmp_path: Path) -> None:
    write(tmp_path / "sources.list.d" / "debian.sources", _STANZAS)
    assert sources(tmp_path).splitlines() == [
        "deb http://mirror.example.org/debian bookworm main",
        "deb http://mirror.example.org/debian bookworm-updates main",
        "deb http://mirror.example.org/debian-security bookworm-security main",
    ]


def test_lines_are_read_and_others_than_debian_are_left_out(tmp_path: Path) -> None:
    write(tmp_path / "sources.list", _LINES)
    write(tmp_path / "sources.list.d" / "again.list", _LINES)
    assert sources(tmp_path).splitlines() == [
        "deb http://mirror.example.org/debian bookworm main",
        "deb http://mirror.example.org/debian bookworm-security main",
    ]


def test_a_host_of_another_release_takes_debian_s_own(tmp_path: Path) -> None:
    write(tmp_path / "sources.list", b"deb http://mirror.example.org/debian trixie main\n")
    found = sources(tmp_path)
    assert "mirror.example.org" not in found and "deb http://deb.debian.org/debian bookworm main\n" in found
