"""Where Debian packages come from: what this host itself takes them from, for one release of Debian."""

from __future__ import annotations

import re
from pathlib import Path

SUITE = "bookworm"
_SUITES = (SUITE, f"{SUITE}-updates", f"{SUITE}-security")
_USUAL = """\
deb http://deb.debian.org/debian bookworm main
deb http://deb.debian.org/debian bookworm-updates main
deb http://deb.debian.org/debian-security bookworm-security main
"""


def sources(folder: Path = Path("/etc/apt")) -> str:
    """Lines of a sources.list with component main: those of this host, else Debian's usual ones."""
    found: list[tuple[str, str]] = []
    for path in sorted((folder / "sources.list.d").glob("*.sources")):
        found += _stanzas(path.read_text(encoding="utf-8"))
    for path in (folder / "sources.list", *sorted((folder / "sources.list.d").glob("*.list"))):
        if path.exists():
            found += re.findall(r"(?m)^deb\s+(?:\[[^]]*\]\s+)?(\S+)\s+(\S+)", path.read_text(encoding="utf-8"))
    lines = dict.fromkeys(f"deb {uri} {suite} main\n" for uri, suite in found if suite in _SUITES)
    return "".join(lines) if any(f" {SUITE} " in line for line in lines) else _USUAL


def _stanzas(text: str) -> list[tuple[str, str]]:
    """Pairs of address and suite of a file in deb822 format."""
    pairs = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = dict(re.findall(r"(?m)^([A-Za-z-]+):\s*(.*)$", stanza))
        if "deb" in fields.get("Types", "").split() and fields.get("Enabled", "yes") != "no":
            pairs += [(uri, suite) for uri in fields["URIs"].split() for suite in fields["Suites"].split()]
    return pairs
