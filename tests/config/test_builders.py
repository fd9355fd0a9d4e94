"""Which builder a variant gets, and which combinations are refused before anything runs."""

from __future__ import annotations

from itertools import product
from typing import Any, get_args

import pytest
from pydantic import ValidationError

from config.builders import DEFAULTS, Builder, inlines_weights, one_graph, reason_of, refusal
from config.loading import from_mapping
from config.variant import Kv, Target, Variant
from ledger.errors import BadInput


def variant(**changes: Any) -> Variant:
    return Variant.model_validate({"name": "v", "kv_max": 64, "kv_bucket": 16} | changes)


def sentence(**changes: Any) -> str:
    mapping = {
        "name": "one",
        "checkpoints": {
            "c": {
                "source": {"kind": "tiny"},
                "geometry": "tiny",
                "release": {"name": "c", "latest": "v"},
                "variants": [{"name": "v", "kv_max": 512, "kv_bucket": 128} | changes],
            }
        },
    }
    with pytest.raises(BadInput) as caught:
        from_mapping(mapping, "x.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("given", "builder"),
    [
        ({}, "xla"),
        ({"kv": "host"}, "xla"),
        ({"target": "inf2"}, "nxd"),
        ({"target": "inf2", "tp": 2, "batch": 4}, "nxd"),
        ({"target": "inf2", "kv": "host"}, "trace"),
        ({"target": "inf2", "kv": "host", "batch": 8}, "trace"),
        ({"target": "inf2", "builder": None}, "nxd"),
        ({"target": "inf2", "builder": "trace"}, "trace"),
        ({"target": "inf2", "builder": "parallel", "tp": 2}, "parallel"),
    ],
)
def test_a_builder_is_always_named_in_the_end(given: dict[str, Any], builder: str) -> None:
    made = variant(**given)
    assert made.builder == builder
    # What is written down says it too, and is read back the same.
    assert made.model_dump(mode="json")["builder"] == builder
    assert Variant.model_validate(made.model_dump(mode="json")) == made


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"builder": "trace"}, "variants.0.builder is 'trace'; accepted: 'xla' for target cpu"),
        ({"target": "inf2", "builder": "xla"}, "builder is 'xla'; accepted: 'trace', 'nxd', 'parallel' for"),
        ({"target": "inf2", "builder": "trace", "tp": 2}, "variants.0.tp is 2; accepted: 1 with builder trace, as"),
        (
            {"target": "inf2", "kv": "host", "tp": 2},
            "variants.0.tp is 2; accepted: 1 with builder trace, the default for kv host, as a traced",
        ),
        ({"target": "inf2", "builder": "nxd", "kv": "host"}, "variants.0.kv is 'host'; accepted: 'device' with"),
        ({"target": "inf2", "builder": "parallel", "kv": "host"}, "kv is 'host'; accepted: 'device' with"),
        ({"target": "inf2", "builder": "trace", "batch": 2}, "variants.0.batch is 2; accepted: 1 with builder trace"),
        ({"target": "inf2", "builder": "parallel", "batch": 2}, "batch is 2; accepted: 1 with builder parallel"),
        ({"target": "inf2", "kv_bucket": 1}, "variants.0.kv_bucket is 1; accepted: 2 or more with builder nxd"),
        ({"target": "inf2", "builder": "nki"}, "builder is 'nki'; accepted: 'xla', 'trace', 'nxd' or 'parallel'"),
    ],
)
def test_what_cannot_be_built_is_one_sentence(given: dict[str, Any], said: str) -> None:
    found = sentence(**given)
    assert found.startswith("x.yaml: checkpoints.c.") and said in found and "(and " not in found


def test_a_wrong_kv_is_reported_alone() -> None:
    assert sentence(kv="disk", target="inf2").endswith("variants.0.kv is 'disk'; accepted: 'device' or 'host'")


def test_every_place_has_a_default_that_it_accepts() -> None:
    assert set(DEFAULTS) == set(product(get_args(Target), get_args(Kv)))
    for (target, kv), default in DEFAULTS.items():
        assert refusal(default.builder, target=target, kv=kv, tp=1, batch=1, kv_bucket=16) is None
        assert default.reason == reason_of(default.builder, target, kv)


def test_weights_and_graphs_by_builder() -> None:
    assert [inlines_weights(builder) for builder in get_args(Builder)] == [False, True, False, True]
    pairs = {(builder, kv) for builder in get_args(Builder) for kv in get_args(Kv) if one_graph(builder, kv)}
    assert pairs == {("trace", "device"), ("parallel", "device"), ("parallel", "host")}
    assert all(len(reason_of(builder, "inf2", kv)) > 20 for builder in get_args(Builder)[1:] for kv in get_args(Kv))


def test_a_variant_cannot_lose_its_builder() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        variant().builder = "nxd"  # type: ignore[misc]
