"""How well do scores agree with people, how sure is that, and is one metric or system really better than another?

Correlations (Pearson, Spearman, Kendall's tau-b) come with seeded percentile-bootstrap intervals, over texts, over
systems or averaged within documents. Two metrics against the same human ratings: Williams' test. Two systems on the
same texts: paired bootstrap and paired permutation. A pair with a NaN in it is left out and counted.

A bootstrap sample is a row of weights, how often each pair was drawn, so a thousand samples are a few matrix products:
each correlation is written once, for weighted pairs, and the value itself is the case in which every weight is 1.

>>> correlation([1, 2, 3, 4], [1, 3, 2, 4], "spearman", resamples=0).value
0.8
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

RESAMPLES = 1000
PERMUTATIONS = 10_000
LEVEL = 0.95  # of the intervals
SEED = 2018
DRAWS_AT_A_TIME = 2_000_000  # weights in memory at once
SMALLEST_VARIANCE = 1e-12  # of values whose variance is 1 overall: a sample below it is constant

Method = Literal["pearson", "spearman", "kendall"]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Correlation:
    """A correlation over `n` units with its bootstrap interval; `left_out` units had no value on one side."""

    method: Method
    value: float
    low: float
    high: float
    n: int
    left_out: int
    unit: Literal["texts", "systems", "documents"] = "texts"


@dataclass(frozen=True)
class Williams:
    """Is r(human, first) different from r(human, second)? `t` has n - 3 degrees of freedom, `p_value` is two-sided."""

    r_first: float
    r_second: float
    r_between: float
    t: float
    p_value: float
    n: int
    left_out: int = 0


@dataclass(frozen=True)
class Comparison:
    """Mean score of the first system less that of the second; `p_value` is two-sided, the interval the bootstrap's."""

    difference: float
    low: float
    high: float
    p_value: float
    n: int
    left_out: int


# --- correlations ----------------------------------------------------------------------------------------------------


def correlation(
    first: ArrayLike,
    second: ArrayLike,
    method: Method = "pearson",
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = SEED,
) -> Correlation:
    """Over texts (segment level). `resamples=0` gives no interval: its ends are NaN."""
    if method not in get_args(Method):
        raise ValueError(f"`method` must be one of {', '.join(map(repr, get_args(Method)))}, got {method!r}.")
    (x, y), left_out = complete(first, second)
    weighted = WEIGHTED[method]
    value = float(weighted(x, y, np.ones((1, len(x))))[0])
    samples = [weighted(x, y, weights) for weights in _samples(len(x), resamples, seed)]
    return Correlation(method, value, *_interval(samples, level), len(x), left_out)


def correlation_of_systems(
    first: ArrayLike,
    second: ArrayLike,
    systems: Sequence[Hashable],
    method: Method = "pearson",
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = SEED,
) -> Correlation:
    """Between the means of each system (system level); the bootstrap draws systems."""
    means: list[tuple[float, float]] = []
    for rows in _groups(systems, len(np.asarray(first))):
        (x, y), _ = complete(np.asarray(first)[rows], np.asarray(second)[rows])
        means.append((float(x.mean()), float(y.mean())) if len(x) else (math.nan, math.nan))
    x, y = np.array(means).reshape(-1, 2).T
    result = correlation(x, y, method, resamples=resamples, level=level, seed=seed)
    return Correlation(method, result.value, result.low, result.high, result.n, result.left_out, "systems")


def correlation_within_documents(
    first: ArrayLike,
    second: ArrayLike,
    documents: Sequence[Hashable],
    method: Method = "pearson",
    *,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = SEED,
) -> Correlation:
    """The average over documents of the correlation among the texts of one document; the bootstrap draws documents.

    It asks whether a metric ranks the systems' answers to one input. A document whose scores or ratings are all equal
    has no correlation and is left out.
    """
    values = np.array(
        [
            correlation(np.asarray(first)[rows], np.asarray(second)[rows], method, resamples=0).value
            for rows in _groups(documents, len(np.asarray(first)))
        ]
    )
    kept = values[~np.isnan(values)]
    samples = [weights @ kept / len(kept) for weights in _samples(len(kept), resamples, seed)]
    value = float(kept.mean()) if len(kept) else math.nan
    return Correlation(method, value, *_interval(samples, level), len(kept), len(values) - len(kept), "documents")


def linear_fit_error(first: ArrayLike, second: ArrayLike) -> float:
    """The mean squared error of the best straight line from `first` to `second`: Var(second) * (1 - r^2).

    It is what Kann et al. 2018 call MSE, so on one data set it orders metrics exactly as |r| does.
    """
    (x, y), _ = complete(first, second)
    return float(y.var() * (1 - correlation(x, y, resamples=0).value ** 2)) if len(y) else math.nan


# --- tests -----------------------------------------------------------------------------------------------------------


def williams(human: ArrayLike, first: ArrayLike, second: ArrayLike) -> Williams:
    """Do two metrics differ in their Pearson correlation with the same human ratings? (Williams 1959)"""
    (h, x, y), left_out = complete(human, first, second)
    r_first, r_second, r_between = (correlation(*pair, resamples=0).value for pair in ((h, x), (h, y), (x, y)))
    return williams_of_correlations(r_first, r_second, r_between, len(h), left_out)


def williams_of_correlations(r_first: float, r_second: float, r_between: float, n: int, left_out: int = 0) -> Williams:
    """The formula, the T2 that Steiger (1980) recommends, for three correlations from `n` texts."""
    from scipy.special import stdtr

    determinant = 1 - r_first**2 - r_second**2 - r_between**2 + 2 * r_first * r_second * r_between
    mean = (r_first + r_second) / 2
    t = math.nan
    if n > 3:
        spread = 2 * determinant * (n - 1) / (n - 3) + mean**2 * (1 - r_between) ** 3
        if spread > 0:
            t = (r_first - r_second) * math.sqrt((n - 1) * (1 + r_between) / spread)
        elif r_first == r_second:  # the two metrics are one
            t = 0.0
    p_value = float(2 * stdtr(n - 3, -abs(t))) if n > 3 else math.nan
    return Williams(r_first, r_second, r_between, t, p_value, n, left_out)


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, *, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = SEED
) -> Comparison:
    """Two systems on the same texts: the difference of their means over texts drawn anew (Koehn 2004).

    The p-value is the share of samples whose difference lies at least as far from the observed one as that lies from 0.
    """
    (x, y), left_out = complete(first, second)
    difference = float((x - y).mean()) if len(x) else math.nan
    samples = [weights @ (x - y) / len(x) for weights in _samples(len(x), resamples, seed)]
    extreme = sum(int((np.abs(sample - difference) >= abs(difference)).sum()) for sample in samples)
    p_value = (extreme + 1) / (resamples + 1) if len(x) else math.nan
    return Comparison(difference, *_interval(samples, level), p_value, len(x), left_out)


def paired_permutation(
    first: ArrayLike, second: ArrayLike, *, permutations: int = PERMUTATIONS, seed: int = SEED
) -> Comparison:
    """Two systems on the same texts: how often is the difference as large when scores of a text change places at will?

    Exact where all 2^n exchanges are no more than `permutations`, else by as many random ones. There is no interval.
    """
    (x, y), left_out = complete(first, second)
    differences = x - y
    n = len(differences)
    if n == 0:
        return Comparison(math.nan, math.nan, math.nan, math.nan, 0, left_out)
    observed = abs(differences.sum())
    tolerance = 1e-12 * np.abs(differences).sum()  # the same sum in another order is the same sum
    exact = 2**n <= permutations
    if exact:
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        p_value = float((np.abs(signs @ differences) >= observed - tolerance).mean())
    else:
        dice, extreme = np.random.default_rng(seed), 0
        for rows in _row_counts(permutations, n):
            signs = 1.0 - 2.0 * dice.integers(0, 2, (rows, n), dtype=np.int8)
            extreme += int((np.abs(signs @ differences) >= observed - tolerance).sum())
        p_value = (extreme + 1) / (permutations + 1)
    return Comparison(float(differences.mean()), math.nan, math.nan, p_value, n, left_out)


# --- the parts -------------------------------------------------------------------------------------------------------


def complete(*columns: ArrayLike) -> tuple[list[Numbers], int]:
    """The columns without the rows that hold a NaN, and how many those were."""
    arrays = [np.asarray(column, dtype=np.float64) for column in columns]
    if len({array.shape for array in arrays}) > 1:
        raise ValueError(f"Columns must be equally long, got {', '.join(str(array.size) for array in arrays)} values.")
    kept = ~np.isnan(arrays).any(axis=0)
    return [array[kept] for array in arrays], int((~kept).sum())


def _pearson(x: Numbers, y: Numbers, weights: Numbers) -> Numbers:
    """One correlation per row of weights."""
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return np.full(len(weights), math.nan)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    moments = weights @ np.stack([x, y, x * x, y * y, x * y], axis=1) / len(x)
    mean_x, mean_y, square_x, square_y, product = moments.T
    return _ratio(product - mean_x * mean_y, square_x - mean_x**2, square_y - mean_y**2)


def _spearman(x: Numbers, y: Numbers, weights: Numbers) -> Numbers:
    """Pearson's correlation of the ranks, which each sample has anew."""
    if len(x) < 2:
        return np.full(len(weights), math.nan)
    deviations_x, deviations_y = (_middle_ranks(values, weights) / len(x) for values in (x, y))
    weighted_x = weights * deviations_x
    return _ratio(
        (weighted_x * deviations_y).mean(axis=1),
        (weighted_x * deviations_x).mean(axis=1),
        (weights * deviations_y * deviations_y).mean(axis=1),
    )


def _middle_ranks(values: Numbers, weights: Numbers) -> Numbers:
    """Ranks less their mean; ties share the middle of their ranks."""
    counts, group = _tie_counts(values, weights)
    return (counts.cumsum(axis=1) - counts / 2 - len(values) / 2)[:, group]


def _kendall(x: Numbers, y: Numbers, weights: Numbers) -> Numbers:
    """tau-b: concordant less discordant pairs, over the geometric mean of the pairs that are no tie in x and none in y.

    With S the matrix of signs, concordant less discordant pairs are the quadratic form w'Sw / 2.
    """
    n = len(x)
    agreement = np.zeros(len(weights))
    narrow = weights.astype(np.float32)  # sums of integers below 2^24 are exact
    for first in range(0, n, 512):
        part = slice(first, first + 512)
        signs = (np.sign(x[:, None] - x[part]) * np.sign(y[:, None] - y[part])).astype(np.float32)
        agreement += ((narrow @ signs).astype(np.float64) * weights[:, part]).sum(axis=1) / 2
    pairs = n * (n - 1) / 2
    counts_x, counts_y = (_tie_counts(values, weights)[0] for values in (x, y))
    untied_x, untied_y = (pairs - (counts * (counts - 1)).sum(axis=1) / 2 for counts in (counts_x, counts_y))
    return _ratio(agreement, untied_x, untied_y)


def _tie_counts(values: Numbers, weights: Numbers) -> tuple[Numbers, NDArray[np.intp]]:
    """How often each sample drew each distinct value, in ascending order, and the position of every value there."""
    _, starts, group = np.unique(np.sort(values), return_index=True, return_inverse=True)
    order = np.argsort(values, kind="stable")
    counts = np.add.reduceat(weights[:, order], starts, axis=1) if len(values) else weights
    position = np.empty(len(values), dtype=np.intp)
    position[order] = group
    return counts, position


def _ratio(covariance: Numbers, variance_x: Numbers, variance_y: Numbers) -> Numbers:
    """covariance / sqrt(variances); NaN where a sample is constant."""
    constant = (variance_x < SMALLEST_VARIANCE) | (variance_y < SMALLEST_VARIANCE)
    product = np.where(constant, math.nan, variance_x * variance_y)
    return np.clip(covariance / np.sqrt(product), -1, 1)


WEIGHTED: dict[str, Callable[[Numbers, Numbers, Numbers], Numbers]] = {
    "pearson": _pearson,
    "spearman": _spearman,
    "kendall": _kendall,
}


def _samples(n: int, resamples: int, seed: int) -> Iterator[Numbers]:
    """Rows of weights: how often each of n units was drawn in n draws."""
    dice = np.random.default_rng(seed)
    for rows in _row_counts(resamples, n) if n else ():
        drawn = dice.integers(0, n, (rows, n)) + n * np.arange(rows)[:, None]
        yield np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n).astype(np.float64)


def _row_counts(rows: int, n: int) -> Iterator[int]:
    at_a_time = max(1, DRAWS_AT_A_TIME // n)
    for first in range(0, rows, at_a_time):
        yield min(at_a_time, rows - first)


def _interval(samples: Sequence[Numbers], level: float) -> tuple[float, float]:
    values = np.concatenate([np.empty(0), *samples])
    values = values[~np.isnan(values)]
    if not len(values):
        return math.nan, math.nan
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _groups(labels: Sequence[Hashable], count: int) -> list[NDArray[np.intp]]:
    """The row numbers of each label, in order of appearance."""
    if len(labels) != count:
        raise ValueError(f"There are {len(labels)} labels for {count} values. Give one label per value.")
    rows: dict[Hashable, list[int]] = {}
    for row, label in enumerate(labels):
        rows.setdefault(label, []).append(row)
    return [np.array(members) for members in rows.values()]
