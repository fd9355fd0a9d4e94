"""libneuronxla: the compile cache and its failed entries (sections 2.6, 3.3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.standins.conftest import Run
from tests.standins.hlo_texts import hlo

START = """
import json, os
from libneuronxla import neuron_xla_compile, neuron_xla_wlo_compile
module = open("g.hlo", "rb").read()
def compiled(flags="--target inf2", work_dir="work", **named):
    try:
        return len(neuron_xla_compile(module, flags, work_dir=work_dir, **named))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.fixture(autouse=True)
def graph(tmp_path: Path) -> None:
    """g.hlo in the test's folder."""
    (tmp_path / "g.hlo").write_bytes(hlo("a = f32[4]{0} abs(p0)"))


def test_documented_arguments_and_cache_layout(run: Run, tmp_path: Path) -> None:
    found = run(
        START
        + """
size = compiled(input_format="hlo", platform_target="inf2", flags="-O1", cache_key="0123456789abcdef0123",
                retry_failed_compilation=False, lazy=True, use_cache=True, cache_dir=None, create_subdir=False)
print(json.dumps([size, sorted(os.listdir("work"))]))
""",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "cache"),
    ).value
    assert found[0] > 0
    assert "module.neff" in found[1]
    (entry,) = (tmp_path / "cache").glob("neuronxcc-2.23.6484.0+standin/MODULE_0123456789abcdef0123+*")
    names = {one.name for one in entry.iterdir()}
    assert names == {"model.hlo_module.pb", "compile_flags.json", "model.neff", "model.done"}
    assert json.loads((entry / "compile_flags.json").read_text()) == ["-O1", "--target=inf2"]


def test_a_failed_entry_is_replayed_until_a_retry_is_asked_for(run: Run, tmp_path: Path) -> None:
    found = run(
        START
        + """
os.environ.update(STANDIN_NCC_FAIL="oom", STANDIN_NCC_FAIL_ONCE="failed")
ways = [{}, {}, {"work_dir": "other"}, {"retry_failed_compilation": True}, {}]
print(json.dumps([compiled(**way) for way in ways]))
""",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "cache"),
    ).value
    assert "neuronx-cc failed with -9" in found[0]
    assert "[F137]" in found[0]
    assert all("Got a cached failed neff" in one for one in found[1:3])
    assert isinstance(found[3], int)
    assert found[4] == found[3]


def test_a_hit_needs_no_compiler_and_other_flags_are_another_entry(run: Run, tmp_path: Path) -> None:
    found = run(
        START
        + """
first = compiled()
os.environ["STANDIN_NCC_FAIL"] = "operator"
print(json.dumps([first, compiled(), compiled("--target inf2 -O1"), compiled(use_cache=False)]))
""",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "cache"),
    ).value
    assert found[0] == found[1]
    assert "NCC_EVRF001" in found[2]
    assert "NCC_EVRF001" in found[3]


def test_the_wrappers_own_switches_do_not_reach_the_compiler(run: Run, tmp_path: Path) -> None:
    found = run(
        START
        + """
os.environ["NEURON_CC_FLAGS"] = "--cache_dir=mine --retry_failed_compilation --log_level INFO --auto-cast=none"
good = compiled()
print(json.dumps([good, os.path.isdir("mine"), os.path.exists("never"), compiled("--target inf2 --cache_dir=x")]))
""",
        NEURON_COMPILE_CACHE_URL=str(tmp_path / "never"),
    ).value
    assert isinstance(found[0], int)
    assert found[1:3] == [True, False]
    assert "NCC_EARG002" in found[3]


def test_weight_layout_optimisation_wishes_nothing(run: Run) -> None:
    found = run(
        START
        + """
neff, wrapped = neuron_xla_wlo_compile(module, "--target inf2 --enable-internal-neff-wrapper", use_cache=False,
                                       work_dir="work")
print(json.dumps([len(neff) > 0, wrapped]))
"""
    ).value
    assert found == [True, None]
