"""The environment that the SDK is imported in."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from serve.errors import ServeError
from serve.runtime.neuron.environment import prepare, stand_for_fx, visible_cores

CORES = ("NEURON_RT_NUM_CORES", "NEURON_RT_VISIBLE_CORES")


def prepared(tp: int = 2, **environment: str) -> dict[str, str]:
    prepare(environment, tp)
    return {name: value for name, value in environment.items() if name in CORES}


def test_an_artifact_takes_the_cores_it_needs_and_no_more() -> None:
    assert prepared(1) == {"NEURON_RT_NUM_CORES": "1"}
    assert prepared(2) == {"NEURON_RT_NUM_CORES": "2"}


@pytest.mark.parametrize(
    "chosen",
    [
        {"NEURON_RT_NUM_CORES": "2"},
        {"NEURON_RT_NUM_CORES": "12"},
        {"NEURON_RT_NUM_CORES": "0"},
        {"NEURON_RT_VISIBLE_CORES": "4-5"},
        # The list wins over the number.
        {"NEURON_RT_VISIBLE_CORES": "0,3", "NEURON_RT_NUM_CORES": "1"},
    ],
)
def test_what_the_user_chose_stays(chosen: dict[str, str]) -> None:
    assert prepared(2, **chosen) == chosen


@pytest.mark.parametrize(
    ("chosen", "sentence"),
    [
        ({"NEURON_RT_NUM_CORES": "1"}, "NEURON_RT_NUM_CORES: found 1, 1 cores; accepted: 2 or more"),
        ({"NEURON_RT_NUM_CORES": "two"}, "NEURON_RT_NUM_CORES: found 'two'; accepted: a number of cores, 2 or more"),
        ({"NEURON_RT_NUM_CORES": "-1"}, "NEURON_RT_NUM_CORES: found '-1'; accepted: a number"),
        ({"NEURON_RT_VISIBLE_CORES": "3"}, "NEURON_RT_VISIBLE_CORES: found 3, 1 cores; accepted: 2 or more"),
        ({"NEURON_RT_VISIBLE_CORES": "1,1"}, "NEURON_RT_VISIBLE_CORES: found 1,1, 1 cores; accepted: 2 or more"),
        ({"NEURON_RT_VISIBLE_CORES": "all"}, "NEURON_RT_VISIBLE_CORES: found 'all'; accepted: core numbers"),
        ({"NEURON_RT_VISIBLE_CORES": ""}, "NEURON_RT_VISIBLE_CORES: found ''; accepted: core numbers"),
        ({"NEURON_RT_VISIBLE_CORES": "0,2-128"}, "NEURON_RT_VISIBLE_CORES: found 2-128; accepted: core numbers from 0"),
        ({"NEURON_RT_VISIBLE_CORES": f"0-{10**30}"}, f"NEURON_RT_VISIBLE_CORES: found 0-{10**30}; accepted: core"),
        ({"NEURON_RT_VISIBLE_CORES": "5-1"}, "NEURON_RT_VISIBLE_CORES: found 5-1, 0 cores; accepted: 2 or more"),
    ],
)
def test_a_choice_that_cannot_serve_is_refused(chosen: dict[str, str], sentence: str) -> None:
    with pytest.raises(ServeError) as refused:
        prepare(chosen, 2)
    assert str(refused.value).startswith(sentence)


def test_ranges_of_cores() -> None:
    assert visible_cores({}) is None
    assert visible_cores({"NEURON_RT_VISIBLE_CORES": "0-2, 5,7-7"}) == frozenset((0, 1, 2, 5, 7))
    assert visible_cores({"NEURON_RT_VISIBLE_CORES": "126-127"}) == frozenset((126, 127))


def test_the_interpreters_programs_are_found_after_the_users() -> None:
    environment = {"PATH": "/usr/bin"}
    for _ in range(2):
        prepare(environment, 1)
        assert environment["PATH"].split(":") == ["/usr/bin", str(Path(sys.executable).parent)]


def test_the_compiler_gets_an_option_it_does_not_know() -> None:
    environment = {"NEURON_CC_FLAGS": "-O2"}
    prepare(environment, 1)
    assert environment["NEURON_CC_FLAGS"] == "--compilation-is-forbidden-while-serving"


def test_a_module_that_transformers_dropped_is_stood_for() -> None:
    modules: dict[str, ModuleType] = {}
    stand_for_fx(modules)
    assert isinstance(vars(modules["transformers.utils.fx"])["HFTracer"], type)
    kept = ModuleType("mine")
    modules["transformers.utils.fx"] = kept
    stand_for_fx(modules)
    assert modules["transformers.utils.fx"] is kept


def test_nothing_of_the_sdk_is_needed_to_import_the_package() -> None:
    code = (
        "import sys, serve.runtime, serve.runtime.neuron\n"
        "assert not {'torch', 'torch_neuronx', 'transformers', 'jaxlib'} & set(sys.modules)\n"
        "assert not [name for name in sys.modules if name.split('.')[0] in ('ledger', 'recipes', 'config')]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
