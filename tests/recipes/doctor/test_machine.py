"""Memory, swap and disk against needs, and needs against the plan's own count."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from config.geometry import load_geometry, load_text_config
from recipes.doctor import machine
from recipes.doctor.finding import Finding
from recipes.doctor.machine import GIB, Memory, disk, memory, memory_for, of_matrix
from recipes.doctor.need import needs
from recipes.fit.hbm import area, hbm_of
from recipes.fit.host import host_of
from recipes.fit.signatures import Shapes
from serve.manifest import GRAPHS

ROOT = Path(__file__).parents[3]


def test_the_limit_of_a_container_counts(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:       16777216 kB\nMemFree: 1 kB\nSwapTotal:       8388608 kB\n")
    assert memory(meminfo, tmp_path) == Memory(16 * GIB, 8 * GIB)
    (tmp_path / "memory.max").write_text(f"{4 * GIB}\n")
    (tmp_path / "memory.swap.max").write_text("max\n")
    assert memory(meminfo, tmp_path) == Memory(4 * GIB, 8 * GIB)
    (tmp_path / "memory.max").write_text(f"{64 * GIB}\n")
    (tmp_path / "memory.swap.max").write_text("0\n")
    assert memory(meminfo, tmp_path) == Memory(16 * GIB, 0)


@pytest.mark.parametrize(
    ("have", "state", "how"),
    [
        (Memory(30 * GIB, 0), "ok", ""),
        (Memory(14 * GIB, 16 * GIB), "ok", ""),
        (Memory(16 * GIB, 0), "note", "1 of 2 variants fit; 14 GiB more, as swap or on a larger instance, for c/large"),
        (Memory(8 * GIB, 0), "wrong", "add 6 GiB of memory or swap for the smallest variant, c/small"),
    ],
)
def test_memory_is_wrong_only_when_nothing_fits(have: Memory, state: str, how: str) -> None:
    finding = memory_for("load", have, [("c/small", 14 * GIB), ("c/large", 30 * GIB)])
    assert (finding.state, finding.how) == (state, how)


def test_disk_of_a_folder_that_is_not_there_yet(tmp_path: Path) -> None:
    assert disk("build", 1, tmp_path / "not/yet").state == "ok"
    finding = disk("build", 1 << 60, tmp_path)
    assert finding.state == "note" and finding.how.startswith("free 1,1")


def test_what_cannot_be_counted_here_is_unknown() -> None:
    def check(config: Path) -> Iterator[Finding]:
        yield Finding("first", "ok", str(config))
        raise ModuleNotFoundError("No module named 'pydantic'", name="pydantic")

    first, second = of_matrix(Path("m.yaml"), check)
    assert first.state == "ok" and (second.state, second.found) == ("unknown", "needs pydantic to count")


def test_needs_of_the_real_matrix_are_those_of_the_plan() -> None:
    """Counted parameters against the weights of the traced model, for a variant each of two checkpoints."""
    found = {one.name: one for one in needs(ROOT / "config/variants.yaml").variants}
    cases = [("e2b", "E2B", "slim", 512, 128, 1), ("e4b", "E4B", "tp2-512", 512, 128, 2)]
    for short, model, variant, rows, bucket, tp in cases:
        name = f"gemma-4-{model}-it"
        shapes = Shapes(load_text_config(name), tp, "bfloat16", "inf2")
        pair = {graph: shapes.signature(graph, rows, bucket) for graph in GRAPHS}
        geometry = load_geometry(name)
        hbm = hbm_of(pair, geometry.num_hidden_layers, "device", "nxd")
        planned = host_of(geometry, hbm, max(map(area, pair.values())), tp, variant == "slim")
        need = found[f"gemma-4-{short}-it/{variant}"]
        assert need.compile == planned.compile and need.serve == planned.serve
        assert need.load == pytest.approx(planned.load, rel=0.05)


def test_open_files_are_a_note_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "getrlimit", lambda which: (1024, 65_535))
    assert machine.open_files().state == "note" and "ulimit -n 65535" in machine.open_files().how
    monkeypatch.setattr(machine, "getrlimit", lambda which: (65_535, 65_535))
    assert machine.open_files().state == "ok"
