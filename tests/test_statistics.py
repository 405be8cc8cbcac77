"""The statistics against scipy, published examples and slow, obvious versions of themselves."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from textfluency import statistics
from textfluency.statistics import (
    correlation,
    correlation_of_systems,
    correlation_within_documents,
    linear_fit_error,
    paired_bootstrap,
    paired_permutation,
    williams,
    williams_of_correlations,
)

SCIPY = {"pearson": stats.pearsonr, "spearman": stats.spearmanr, "kendall": stats.kendalltau}
METHODS = list(SCIPY)


def noisy_pairs(n: int, seed: int = 0, ties: bool = True) -> tuple[np.ndarray, np.ndarray]:
    dice = np.random.default_rng(seed)
    first = dice.normal(size=n)
    second = first + dice.normal(size=n)
    return first, np.round(2 * second) if ties else second


# --- correlations ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("ties", [True, False])
def test_value_is_scipys(method, ties):
    first, second = noisy_pairs(700, ties=ties)
    expected = SCIPY[method](first, second).statistic
    assert correlation(first, second, method, resamples=0).value == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=3, max_size=30))
def test_value_is_scipys_with_many_ties(pairs):
    first, second = np.array(pairs, dtype=float).T
    constant = np.ptp(first) == 0 or np.ptp(second) == 0
    for method in METHODS:
        value = correlation(first, second, method, resamples=0).value
        if constant:
            assert math.isnan(value)
        else:
            assert value == pytest.approx(SCIPY[method](first, second).statistic, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
def test_interval_is_that_of_a_loop_over_samples(method):
    """The weights that stand for a sample give what scipy gives for the sample written out."""
    first, second = noisy_pairs(40)
    found = correlation(first, second, method, resamples=50, seed=7)
    drawn = np.random.default_rng(7).integers(0, 40, (50, 40))
    values = [SCIPY[method](first[rows], second[rows]).statistic for rows in drawn]
    assert [found.low, found.high] == pytest.approx(np.quantile(values, [0.025, 0.975]), abs=1e-9)


def test_interval_covers_the_truth_about_as_often_as_it_says():
    truth, hits = 1 / math.sqrt(2), 0
    for seed in range(200):
        found = correlation(*noisy_pairs(60, seed, ties=False), resamples=200)
        hits += found.low <= truth <= found.high
    assert 175 <= hits <= 199


def test_same_seed_same_interval():
    pairs = noisy_pairs(50)
    assert correlation(*pairs) == correlation(*pairs)
    assert correlation(*pairs) != correlation(*pairs, seed=1)


def test_nan_pairs_are_left_out_and_counted():
    found = correlation([1, 2, math.nan, 4, 5], [2, 1, 3, math.nan, 7], resamples=10)
    assert (found.n, found.left_out) == (3, 2)
    assert found.value == pytest.approx(stats.pearsonr([1, 2, 5], [2, 1, 7]).statistic)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("values", [[], [1.0], [0.1, 0.1, 0.1]])
def test_no_correlation_of_nothing_or_of_a_constant(method, values):
    found = correlation(values, values, method)
    assert math.isnan(found.value)
    assert math.isnan(found.low)


def test_unequal_lengths_and_unknown_methods_are_refused():
    with pytest.raises(ValueError, match="equally long"):
        correlation([1, 2, 3], [1, 2])
    with pytest.raises(ValueError, match="'pearson', 'spearman', 'kendall'"):
        correlation([1, 2, 3], [1, 2, 3], "cosine")  # type: ignore[arg-type]


def test_results_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        correlation([1, 2, 3], [1, 2, 4], resamples=0).value = 1.0  # type: ignore[misc]


def test_a_thousand_samples_are_quick():
    first, second = noisy_pairs(2000)
    start = time.perf_counter()
    correlation(first, second, "spearman")
    assert time.perf_counter() - start < 3


# --- levels ----------------------------------------------------------------------------------------------------------


def test_system_level_correlates_the_means():
    first, second = noisy_pairs(60)
    systems = [f"system {index % 5}" for index in range(60)]
    means = [[values[index::5].mean() for index in range(5)] for values in (first, second)]
    found = correlation_of_systems(first, second, systems, resamples=20)
    assert found.value == pytest.approx(stats.pearsonr(*means).statistic)
    assert (found.n, found.unit) == (5, "systems")


def test_system_level_can_be_high_where_segment_level_is_low():
    dice = np.random.default_rng(0)
    quality = np.repeat(np.arange(4.0), 100)
    first, second = quality + 10 * dice.normal(size=400), quality + 10 * dice.normal(size=400)
    systems = quality.tolist()
    assert correlation(first, second).value < 0.3 < correlation_of_systems(first, second, systems).value


def test_within_documents_averages_the_correlations_of_the_documents():
    first, second = noisy_pairs(60)
    documents = [index // 6 for index in range(60)]
    expected = np.mean([stats.spearmanr(first[i : i + 6], second[i : i + 6]).statistic for i in range(0, 60, 6)])
    found = correlation_within_documents(first, second, documents, "spearman")
    assert found.value == pytest.approx(expected)
    assert found.low < found.value < found.high
    assert (found.n, found.left_out, found.unit) == (10, 0, "documents")


def test_documents_without_a_correlation_are_left_out():
    found = correlation_within_documents([1, 2, 3, 5, 5, 9], [2, 3, 4, 1, 2, 7], ["a", "a", "a", "b", "b", "c"])
    assert (found.value, found.n, found.left_out) == (pytest.approx(1.0), 1, 2)


def test_labels_must_fit():
    with pytest.raises(ValueError, match="2 labels for 3 values"):
        correlation_of_systems([1, 2, 3], [1, 2, 3], ["a", "b"])


def test_the_papers_error_is_that_of_the_best_line():
    first, second = noisy_pairs(300)
    slope, intercept = np.polyfit(first, second, 1)
    expected = np.mean((slope * first + intercept - second) ** 2)
    assert linear_fit_error(first, second) == pytest.approx(expected)
    assert linear_fit_error(first, second) == pytest.approx(
        np.var(second) * (1 - stats.pearsonr(first, second)[0] ** 2)
    )


# --- Williams' test --------------------------------------------------------------------------------------------------


def test_williams_published_example():
    """Silver, Hittner & May 2006 (DEPCOR), the example that R's cocor checks itself against."""
    found = williams_of_correlations(0.3, 0.4, 0.5, 100)
    assert (round(found.t, 4), round(found.p_value, 4)) == (-1.0767, 0.2843)


def test_williams_with_the_numbers_of_steigers_case_a():
    """Steiger 1980, also r.test(103, .4, .5, .1) in the manual of R's psych; t by hand from the formula."""
    found = williams_of_correlations(0.4, 0.5, 0.1, 103)
    assert found.t == pytest.approx(-0.8913, abs=5e-5)
    assert found.p_value == pytest.approx(0.375, abs=1e-3)


def test_williams_of_data():
    dice = np.random.default_rng(3)
    human = dice.normal(size=200)
    good, poor = human + dice.normal(size=200), human + 3 * dice.normal(size=200)
    found = williams(human, good, poor)
    assert found == williams_of_correlations(found.r_first, found.r_second, found.r_between, 200)
    assert found.r_between == pytest.approx(stats.pearsonr(good, poor).statistic)
    assert found.t > 0
    assert found.p_value < 0.001
    reverse = williams(human, poor, good)
    assert (reverse.t, reverse.p_value) == (pytest.approx(-found.t), pytest.approx(found.p_value))


def test_williams_keeps_its_level():
    """Two metrics equally good by construction differ significantly in about one data set of twenty."""
    dice = np.random.default_rng(5)
    rejected = 0
    for _ in range(400):
        human, shared = dice.normal(size=(2, 50))
        first, second = (human + shared + noise for noise in dice.normal(size=(2, 50)))
        rejected += williams(human, first, second).p_value < 0.05
    assert 8 <= rejected <= 36


def test_williams_of_a_metric_with_itself_and_of_too_few_texts():
    first, second = noisy_pairs(30)
    assert williams(second, first, first).p_value == pytest.approx(1.0)
    assert math.isnan(williams([1, 2, 3], [1, 3, 2], [2, 3, 1]).p_value)


# --- two systems -----------------------------------------------------------------------------------------------------


def test_permutation_is_exact_for_few_texts():
    first, second = np.array([3.0, 2.5, 4.0, 1.0, 2.0]), np.array([2.0, 2.0, 4.5, 0.5, 1.0])
    differences = first - second
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((1, -1), repeat=5)]
    expected = np.mean([total >= abs(differences.sum()) - 1e-12 for total in sums])
    found = paired_permutation(first, second)
    assert (found.p_value, found.difference) == (pytest.approx(expected), pytest.approx(differences.mean()))


def test_permutation_by_chance_agrees_with_scipy():
    first, second = noisy_pairs(40, ties=False)
    second = second + 0.2
    expected = stats.permutation_test(
        (first, second), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=9999, rng=1
    )
    assert paired_permutation(first, second).p_value == pytest.approx(expected.pvalue, abs=0.02)


def test_bootstrap_interval_and_p_value():
    first, second = noisy_pairs(200, ties=False)
    found = paired_bootstrap(first + 0.5, second)
    error = np.std(first - second) / math.sqrt(200)
    assert found.difference == pytest.approx(np.mean(first + 0.5 - second))
    assert found.low == pytest.approx(found.difference - 1.96 * error, abs=0.03)
    assert found.high == pytest.approx(found.difference + 1.96 * error, abs=0.03)
    assert found.p_value < 0.01


@pytest.mark.parametrize("test", [paired_bootstrap, paired_permutation])
def test_equal_systems_do_not_differ(test):
    first, _ = noisy_pairs(50)
    assert (test(first, first).difference, test(first, first).p_value) == (0, 1)


@pytest.mark.parametrize("test", [paired_bootstrap, paired_permutation])
def test_nothing_to_compare(test):
    found = test([math.nan], [1.0])
    assert math.isnan(found.p_value)
    assert (found.n, found.left_out) == (0, 1)


def test_samples_are_drawn_in_portions(monkeypatch):
    """Memory stays bounded, and every sample has n draws."""
    monkeypatch.setattr(statistics, "DRAWS_AT_A_TIME", 100)
    portions = list(statistics._samples(30, 10, seed=0))
    assert [len(portion) for portion in portions] == [3, 3, 3, 1]
    assert all((portion.sum(axis=1) == 30).all() for portion in portions)
