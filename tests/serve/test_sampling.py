"""Sampling against transformers' logits processors, and log-probabilities against torch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation import logits_process as library

from serve.sampling import GREEDY, Sampler, Sampling, log_softmax, top

Floats = npt.NDArray[np.float32]


def random_logits(seed: int, size: int = 300) -> Floats:
    return np.random.default_rng(seed).normal(0.0, 3.0, size).astype(np.float32)


def of_the_library(logits: Floats, settings: dict[str, Any]) -> npt.NDArray[np.float64]:
    """The probabilities that `generate(do_sample=True)` draws from, by its own processors in its own order."""
    warpers = {
        "temperature": library.TemperatureLogitsWarper,
        "top_k": library.TopKLogitsWarper,
        "top_p": library.TopPLogitsWarper,
        "min_p": library.MinPLogitsWarper,
    }
    scores = torch.from_numpy(logits.astype(np.float64))[None]
    for name, warper in warpers.items():
        if name in settings:
            scores = warper(settings[name])(torch.zeros(1, 1, dtype=torch.long), scores)
    probabilities: npt.NDArray[np.float64] = torch.softmax(scores, -1)[0].numpy()
    return probabilities


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "settings",
    [
        {"temperature": 1.0},
        {"temperature": 0.3},
        {"temperature": 2.5, "top_k": 7},
        {"temperature": 1.0, "top_k": 1},
        {"temperature": 1.0, "top_k": 5_000},
        {"temperature": 0.7, "top_p": 0.9},
        {"temperature": 1.5, "top_p": 1e-6},
        {"temperature": 1.5, "top_p": 0.0},
        {"temperature": 1.0, "min_p": 0.05},
        {"temperature": 1.0, "top_k": 64, "top_p": 0.95},
        {"temperature": 1.8, "top_k": 50, "top_p": 0.8, "min_p": 0.1},
    ],
)
def test_the_distribution_is_the_librarys(settings: dict[str, Any], seed: int) -> None:
    logits = random_logits(seed)
    found = Sampler(Sampling(**settings), ()).probabilities(logits)
    np.testing.assert_allclose(found, of_the_library(logits, settings), rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize(("top_p", "kept"), [(0.5, 2), (0.51, 3), (0.75, 3), (0.25, 1)])
def test_mass_that_lands_on_top_p_is_enough(top_p: float, kept: int) -> None:
    settings: dict[str, Any] = {"temperature": 1.0, "top_p": top_p}
    logits = np.zeros(4, np.float32)  # each a quarter, without rounding
    found, expected = Sampler(Sampling(**settings), ()).probabilities(logits), of_the_library(logits, settings)
    assert sorted(found) == sorted(expected)
    assert np.count_nonzero(found) == kept


def test_draws_follow_the_distribution() -> None:
    logits = np.log(np.array([0.5, 0.3, 0.15, 0.05], np.float32))
    sampler = Sampler(Sampling(temperature=1.0, seed=11), ())
    counts = np.bincount([sampler.choose(logits) for _ in range(4_000)], minlength=4)
    expected = 4_000 * np.exp(logits.astype(np.float64))
    chi_squared = float(((counts - expected) ** 2 / expected).sum())
    assert chi_squared < 16.27  # the 99.9th percentile at three degrees of freedom


def test_the_same_seed_gives_the_same_draws() -> None:
    logits = random_logits(0)

    def draws(seed: int | None) -> list[int]:
        sampler = Sampler(Sampling(temperature=2.0, seed=seed), ())
        return [sampler.choose(logits) for _ in range(50)]

    assert draws(5) == draws(5)
    assert len({tuple(draws(seed)) for seed in (5, 6, None, None)}) == 4


def test_suppressed_ids_have_no_chance() -> None:
    logits = random_logits(3)
    before = logits.copy()
    likeliest = np.argsort(-logits)[:3].tolist()
    greedy = Sampler(GREEDY, likeliest[:2])
    assert greedy.choose(greedy.allowed(logits)) == likeliest[2]
    sampling = Sampler(Sampling(temperature=1.0), likeliest)
    assert sampling.probabilities(sampling.allowed(logits))[likeliest].tolist() == [0.0] * 3
    suppressed = library.SuppressTokensLogitsProcessor(likeliest)(None, torch.from_numpy(logits)[None])[0].numpy()
    assert (sampling.allowed(logits) == suppressed).all()
    assert (logits == before).all()


@pytest.mark.parametrize("rate", [0.5, 1.3, 10.0])
def test_the_repetition_penalty_is_the_librarys(rate: float) -> None:
    logits = random_logits(4)
    seen = [3, 17, 3, 250]
    sampler = Sampler(Sampling(repetition_penalty=rate), (), seen)
    expected = library.RepetitionPenaltyLogitsProcessor(rate)(torch.tensor([seen]), torch.from_numpy(logits)[None])
    np.testing.assert_allclose(sampler.shaped(logits), expected[0].numpy(), rtol=1e-6)
    assert (logits == random_logits(4)).all()


def test_counted_penalties_are_openais_formula() -> None:
    # mu[j] - c[j] * alpha_frequency - float(c[j] > 0) * alpha_presence, over the answer alone.
    logits = np.zeros(6, np.float32)
    sampler = Sampler(Sampling(frequency_penalty=0.5, presence_penalty=0.25), (), [5])
    one_hot = np.eye(6, dtype=np.float32)
    for token in (2, 2, 4, 2):
        sampler.choose(9 * one_hot[token])
    assert sampler.shaped(logits).tolist() == [0, 0, -1.75, 0, -0.75, 0]


def test_biases_are_added_and_bring_no_suppressed_id_back() -> None:
    logits = random_logits(5)
    sampler = Sampler(Sampling(logit_bias=((7, 100.0), (8, -100.0), (9, 100.0))), (9,))
    shaped = sampler.shaped(sampler.allowed(logits))
    assert sampler.choose(shaped) == 7
    assert shaped[9] == -math.inf
    assert shaped[8] == pytest.approx(logits[8] - 100)
    assert (np.delete(shaped, [7, 8, 9]) == np.delete(logits, [7, 8, 9])).all()


def test_penalties_do_not_outlast_a_request() -> None:
    logits = np.array([1.0, 0.9], np.float32)
    for _ in range(2):
        sampler = Sampler(Sampling(presence_penalty=1.0), ())
        assert [sampler.choose(sampler.shaped(logits)) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize("temperature", [1e-300, 1e-30, 1e-3])
def test_the_lowest_temperatures_are_greedy(temperature: float) -> None:
    logits = random_logits(6)
    with np.errstate(all="raise", under="ignore"):
        probabilities = Sampler(Sampling(temperature=temperature, top_p=0.9), ()).probabilities(logits)
    assert probabilities.argmax() == logits.argmax()
    assert probabilities.sum() == 1.0


def test_seeds_of_any_sign_and_several_are_seeds() -> None:
    logits = random_logits(7)

    def draws(seed: int | tuple[int, ...]) -> list[int]:
        sampler = Sampler(Sampling(temperature=2.0, seed=seed), ())
        return [sampler.choose(logits) for _ in range(20)]

    assert draws(-1) == draws(-1)
    assert draws((-1, 0)) == draws(-1)
    assert len({tuple(draws(seed)) for seed in (-1, 1, 2**63, (1, 1), (1, 2))}) == 5


def test_greedy_takes_the_lowest_of_equal_ids() -> None:
    assert Sampler(GREEDY, ()).choose(np.array([0.0, 2.0, 1.0, 2.0], np.float32)) == 1


@pytest.mark.parametrize("scale", [0.01, 1.0, 1e4])
def test_log_softmax_is_torchs(scale: float) -> None:
    logits = random_logits(1, 4_096) * np.float32(scale)
    expected = torch.log_softmax(torch.from_numpy(logits).double(), -1).numpy()
    np.testing.assert_allclose(log_softmax(logits), expected, rtol=1e-6, atol=1e-5)


def test_log_softmax_of_a_suppressed_id_is_minus_infinity() -> None:
    found = log_softmax(np.array([0.0, -np.inf, 0.0], np.float32))
    assert found.tolist() == pytest.approx([-math.log(2), -math.inf, -math.log(2)])


@given(st.lists(st.sampled_from([-3.0, -2.0, -1.5, -math.inf]), min_size=1, max_size=30), st.integers(0, 35))
def test_top_is_a_sort(values: list[float], count: int) -> None:
    ranked = sorted(range(len(values)), key=lambda i: (-values[i], i))[:count]
    assert top(np.array(values, np.float32), count) == tuple((i, values[i]) for i in ranked)
