"""Alignment against a slow, obvious implementation, its tie-breaking, its costs, its limits."""

from __future__ import annotations

import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from textfluency import alignment
from textfluency.alignment import Alignment, Costs, Counts, align, align_many

REFERENCE = "There was no cost estimate for the second phase"
PREDICTION = "There was estimate for phase the second no cost"

tokens = st.lists(st.sampled_from("abcd"), max_size=9)


def slow_align(reference: list[str], prediction: list[str], costs: tuple[int, int, int] = (4, 3, 3)) -> str:
    """The definition, word for word: best (cost, operations) of every pair of prefixes, then the walk back."""
    substitution, insertion, deletion = costs

    @cache
    def best(row: int, column: int) -> tuple[int, int]:
        return min(options(row, column), key=lambda option: option[0])[0] if row or column else (0, 0)

    @cache
    def options(row: int, column: int) -> list[tuple[tuple[int, int], str, int, int]]:
        found = []
        if row and column:
            cost, number = best(row - 1, column - 1)
            if reference[row - 1] == prediction[column - 1]:
                found.append(((cost, number), ".", row - 1, column - 1))
            else:
                found.append(((cost + substitution, number + 1), "s", row - 1, column - 1))
        if row:
            cost, number = best(row - 1, column)
            found.append(((cost + deletion, number + 1), "d", row - 1, column))
        if column:
            cost, number = best(row, column - 1)
            found.append(((cost + insertion, number + 1), "i", row, column - 1))
        return found

    operations = ""
    row, column = len(reference), len(prediction)
    while row or column:
        # min keeps the first of equals, and the options stand in order of preference.
        _, operation, row, column = min(options(row, column), key=lambda option: option[0])
        operations = operation + operations
    return operations


def test_the_line_printed_in_the_paper() -> None:
    assert " ".join(align(REFERENCE.split(), PREDICTION.split()).operations) == ". . d d . . i . . i s"


@pytest.mark.parametrize("costs", [(4, 3, 3), (3, 2, 2), (5, 4, 2), (7, 3, 6), (19, 10, 10)])
def test_same_as_the_slow_implementation(costs: tuple[int, int, int]) -> None:
    generator = random.Random(sum(costs))
    pairs = [
        (
            generator.choices("abcdef", k=generator.randint(0, 14)),
            generator.choices("abcdef", k=generator.randint(0, 14)),
        )
        for _ in range(150)
    ]
    assert [found.operations for found in align_many(pairs, costs)] == [slow_align(*pair, costs) for pair in pairs]


@given(st.lists(st.tuples(tokens, tokens), max_size=6))
@settings(deadline=None, max_examples=60)
def test_a_batch_is_the_same_as_one_by_one(pairs: list[tuple[list[str], list[str]]]) -> None:
    assert align_many(pairs) == [align(*pair) for pair in pairs]


@given(tokens, tokens)
@settings(deadline=None, max_examples=60)
def test_operations_turn_the_reference_into_the_prediction(reference: list[str], prediction: list[str]) -> None:
    steps = list(align(reference, prediction).steps())
    assert [left for _, left, _ in steps if left is not None] == list(range(len(reference)))
    assert [right for _, _, right in steps if right is not None] == list(range(len(prediction)))
    for operation, left, right in steps:
        if left is None or right is None:
            assert operation == ("i" if left is None else "d")
        else:
            assert operation == ("." if reference[left] == prediction[right] else "s")


def test_small_chunks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = random.Random(1)
    pairs = [
        (generator.choices("abc", k=generator.randint(0, 40)), generator.choices("abc", k=generator.randint(0, 40)))
        for _ in range(80)
    ]
    expected = align_many(pairs)
    monkeypatch.setattr(alignment, "CELLS_PER_CHUNK", 1)
    assert align_many(pairs) == expected


@pytest.mark.parametrize("size", [60, 300])
def test_wider_integers_for_longer_texts(size: int) -> None:
    generator = random.Random(size)
    reference, prediction = generator.choices(range(20), k=size), generator.choices(range(20), k=size - 7)
    operations = align(reference, prediction).operations
    # The same alignment from larger, equivalent costs, which need the next size of integer.
    assert operations == align(reference, prediction, (40_000, 30_000, 30_000)).operations
    assert operations.count("d") - operations.count("i") == 7


def test_two_thousand_tokens() -> None:
    reference = [number % 700 for number in range(2000)]
    prediction = [*reference[500:], *reference[:500]]
    operations = align(reference, prediction).operations
    assert operations.count("d") == operations.count("i")
    assert len(operations) - operations.count("i") == 2000


def test_empty_sides() -> None:
    assert align_many([]) == []
    assert align_many([([], []), (["a"], []), ([], ["a", "b"])]) == [Alignment(""), Alignment("d"), Alignment("ii")]


def test_tokens_may_be_anything_hashable() -> None:
    assert align([("a", 1), None, 3.0], [None, 3.0]).operations == "d.."


def test_counts() -> None:
    counts = Counts(substitutions=1, insertions=2, deletions=2, moves=1)
    assert counts.errors == 5
    assert counts.errors_with_moves == 4


def test_cost_range() -> None:
    assert alignment.check_costs([3, 2, 2]) == Costs(3, 2, 2)
    for costs in ((3, 3, 3), (6, 3, 3), (3, 2, 4), (2, 3, 3)):
        with pytest.raises(ValueError, match=r"costs=.*substitution cost \d must lie strictly between .* default"):
            align(["a"], ["b"], costs)
    for wrong in ((1.5, 1, 1), (4, 3), (1, 0, 1), (4, 3, -3), ("4", 3, 3)):
        with pytest.raises(ValueError, match=r"costs=.* whole numbers .*Multiply fractions"):
            align(["a"], ["b"], wrong)  # type: ignore[arg-type]
