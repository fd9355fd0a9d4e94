"""Figures of seconds that are known."""

from __future__ import annotations

from typing import Any

import pytest

from validate.bench.full.figures import ACCEPTED, Accepted, contexts, figures, summary, table

STEPS = {
    "512-128_s": 0.1,
    "8192-512_s": 0.11,
    "32768-512_s": 0.13,
    "batch8_s": 0.2,
    "probe_s": 0.09,
    "host_s": 0.002,
    "dispatch_s": 0.001,
}
BESIDE: dict[str, Any] = {
    "ours": {"answer": 0.1, "slots": 0.25, "prefill": 10.0, "at_2048": 0.105},
    "transformers": {"answer": 0.2, "slots": 0.5, "prefill": 19.0, "at_2048": 0.21},
}
LOAD = {"load_s": 12.0, "above_weights": 0.5e9}


def test_every_figure_is_the_ratio_it_says() -> None:
    assert figures(STEPS, BESIDE, LOAD, 0.004) == pytest.approx(
        {
            "decode_vs_transformers": 2.0,
            "decode_vs_floor": 0.9,
            "decode_8192_vs_512": 1.1,
            "decode_32768_vs_512": 1.3,
            "batch8_vs_batch1": 4.0,
            "batch8_vs_transformers": 2.0,
            "prefill_vs_transformers": 1.9,
            "host_share_of_step": 0.03,
            "rss_above_weights_gb": 0.5,
            "load_s": 12.0,
            "added_bytes_ratio": 0.004,
        }
    )


def test_the_summary_has_every_figure_and_what_is_accepted() -> None:
    made = summary(figures(STEPS, BESIDE, LOAD, 0.004), {"contexts": contexts(STEPS, BESIDE)})
    assert set(ACCEPTED) == set(made["thresholds"]) <= set(made)
    assert made["thresholds"]["load_s"] == {"sense": "<=", "accepted": 60.0}
    assert [one["tokens"] for one in made["contexts"]] == [512, 2048, 8192, 32768]
    assert made["contexts"][1] == {"tokens": 2048, "decode_tok_s": 9.52, "transformers_decode_tok_s": 4.76}
    assert made["contexts"][3] == {"tokens": 32768, "decode_tok_s": 7.69, "transformers_decode_tok_s": None}
    assert "MISSES" not in table(made)


@pytest.mark.parametrize("key", ACCEPTED)
def test_the_table_says_which_figure_misses(key: str) -> None:
    made = summary(figures(STEPS, BESIDE, LOAD, 0.004), {})
    made[key] = 0.0 if ACCEPTED[key].sense == ">=" else 1000.0
    assert [line.split()[0] for line in table(made).splitlines() if "MISSES" in line] == [key]


@pytest.mark.parametrize(
    ("sense", "value", "stands"), [(">=", 2, True), (">=", 1.9, False), ("<=", 2, True), ("<=", 2.1, False)]
)
def test_a_bound_itself_stands(sense: Any, value: float, stands: bool) -> None:
    assert Accepted(sense, 2, "").stands(value) is stands
