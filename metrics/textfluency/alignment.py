"""Two token lists to the cheapest edit operations, for one pair or for thousands at once.

An alignment minimises (cost, number of operations). Among equals the backtrace from the end prefers the diagonal
(match or substitution), then a deletion, then an insertion. A substitution costs more than one insertion or deletion
and less than both together, so a word changed in place is a substitution and a word moved is not.

Operations are written as one string: `.` match, `s` substitution, `d` deletion, `i` insertion.

>>> align("a b c".split(), "a c d".split()).operations
'.d.i'

Many pairs are aligned side by side: numpy walks the antidiagonals of the table and every step serves all pairs of a
chunk. One integer per cell holds cost, number of operations and direction, so that one minimum settles all three.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

# Directions, in order of preference: the smaller number wins a tie. They fill the two low bits of a cell.
MATCH, SUBSTITUTION, DELETION, INSERTION = range(4)
DIRECTION_MASK = 3
SYMBOLS = np.frombuffer(b".sdi", np.uint8)  # by direction

CELLS_PER_CHUNK = 2_000_000  # bounds the memory (2 to 8 bytes each); larger chunks gain little, smaller ones are slower
LENGTH_RATIO = 1.3  # pairs in one chunk are padded to the longest, so lengths may differ by this factor
LENGTH_SLACK = 4  # and by this many tokens


class Costs(NamedTuple):
    """Whole numbers; the default is that of NIST sclite, the scorer of speech recognition."""

    substitution: int = 4
    insertion: int = 3
    deletion: int = 3


class Counts(NamedTuple):
    """How often each operation occurs. A move is a token deleted here and inserted there, and counts in all three."""

    substitutions: int = 0
    insertions: int = 0
    deletions: int = 0
    moves: int = 0

    @property
    def errors(self) -> int:
        return self.substitutions + self.insertions + self.deletions

    @property
    def errors_with_moves(self) -> int:
        """Errors when a move is one operation, not a deletion and an insertion."""
        return self.errors - self.moves


@dataclass(frozen=True, slots=True)
class Alignment:
    """The operations that turn the reference into the prediction, in order."""

    operations: str

    def steps(self) -> Iterator[tuple[str, int | None, int | None]]:
        """(operation, index in the reference, index in the prediction); None where a side has no token."""
        in_reference = in_prediction = 0
        for operation in self.operations:
            yield (
                operation,
                None if operation == "i" else in_reference,
                None if operation == "d" else in_prediction,
            )
            in_reference += operation != "i"
            in_prediction += operation != "d"


@dataclass(frozen=True)
class Encoded:
    """Token lists end to end, as integers: list k is `ids[starts[k] : starts[k] + lengths[k]]`."""

    ids: Integers
    lengths: Integers

    @cached_property
    def starts(self) -> Integers:
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def owners(self) -> Integers:
        """For each token the number of its list."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


def check_costs(costs: Sequence[int]) -> Costs:
    """The costs, or a ValueError that says what is wrong with them."""
    if len(costs) != 3 or not all(isinstance(cost, int | np.integer) and cost > 0 for cost in costs):
        raise ValueError(
            f"costs={costs!r} must be three positive whole numbers (substitution, insertion, deletion). "
            f"Multiply fractions by a common factor: (1.5, 1, 1) is (3, 2, 2)."
        )
    substitution, insertion, deletion = (int(cost) for cost in costs)
    if not max(insertion, deletion) < substitution < insertion + deletion:
        raise ValueError(
            f"costs={tuple(costs)!r}: the substitution cost {substitution} must lie strictly between "
            f"{max(insertion, deletion)} (the larger of the other two) and {insertion + deletion} (their sum), "
            f"or alignments are ambiguous. The default is {tuple(Costs())}."
        )
    return Costs(substitution, insertion, deletion)


def align(reference: Sequence[Hashable], prediction: Sequence[Hashable], costs: Sequence[int] = Costs()) -> Alignment:
    """The alignment of one pair."""
    return align_many([(reference, prediction)], costs)[0]


def align_many(
    pairs: Iterable[tuple[Sequence[Hashable], Sequence[Hashable]]], costs: Sequence[int] = Costs()
) -> list[Alignment]:
    """The alignment of each (reference, prediction); much faster than one by one, with the same results."""
    pairs = list(pairs)
    references, predictions = encode([reference for reference, _ in pairs], [prediction for _, prediction in pairs])
    return [Alignment(operations) for operations in align_encoded(references, predictions, check_costs(costs))]


def encode(*groups: Sequence[Sequence[Hashable]]) -> list[Encoded]:
    """Groups of token lists as integers; equal tokens get equal integers in all groups."""
    vocabulary: defaultdict[Hashable, int] = defaultdict(itertools.count().__next__)  # numbers what it has not seen
    return [
        Encoded(
            np.fromiter(
                map(vocabulary.__getitem__, itertools.chain.from_iterable(lists)), np.int64, sum(map(len, lists))
            ),
            np.fromiter(map(len, lists), np.int64, len(lists)),
        )
        for lists in groups
    ]


def align_encoded(references: Encoded, predictions: Encoded, costs: Costs) -> list[str]:
    """The operations of each pair. Chunks bound the memory, except that one pair needs its whole table."""
    operations = [""] * len(references.lengths)
    for chunk in _chunks(references.lengths, predictions.lengths):
        for pair, aligned in zip(chunk.tolist(), _align_chunk(references, predictions, chunk, costs), strict=True):
            operations[pair] = aligned
    return operations


@dataclass(frozen=True)
class Path:
    """The operations of all pairs end to end, each with its pair and its places in the flat token arrays."""

    codes: NDArray[np.uint8]
    pairs: Integers
    in_reference: Integers  # meaningless at an insertion
    in_prediction: Integers  # meaningless at a deletion

    @classmethod
    def of(cls, operations: list[str]) -> Path:
        codes = np.frombuffer("".join(operations).encode("ascii"), np.uint8)
        lengths = np.fromiter(map(len, operations), np.int64, len(operations))
        # Operations other than insertions use up the reference tokens one by one, so counting them gives the index.
        return cls(
            codes,
            np.repeat(np.arange(len(operations)), lengths),
            np.cumsum(codes != SYMBOLS[INSERTION]) - 1,
            np.cumsum(codes != SYMBOLS[DELETION]) - 1,
        )


def count_operations(references: Encoded, predictions: Encoded, path: Path) -> Integers:
    """One row per pair, columns as in Counts.

    moves = sum over tokens w of min(deletions of w, insertions of w). Substituted tokens never enter a move.
    """
    pairs = len(references.lengths)
    deleted, inserted = path.codes == SYMBOLS[DELETION], path.codes == SYMBOLS[INSERTION]
    tokens = 1 + int(max(references.ids.max(initial=0), predictions.ids.max(initial=0)))
    forms_deleted = path.pairs[deleted] * tokens + references.ids[path.in_reference[deleted]]
    forms_inserted = path.pairs[inserted] * tokens + predictions.ids[path.in_prediction[inserted]]
    moved, times = _multiset_intersection(forms_deleted, forms_inserted)
    return np.stack(
        [
            np.bincount(path.pairs[path.codes == SYMBOLS[SUBSTITUTION]], minlength=pairs),
            np.bincount(path.pairs[inserted], minlength=pairs),
            np.bincount(path.pairs[deleted], minlength=pairs),
            np.bincount(moved // tokens, times, minlength=pairs).astype(np.int64),
        ],
        axis=1,
    )


def _multiset_intersection(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """The values that both hold, and how often both hold them."""
    first_values, first_times = np.unique(first, return_counts=True)
    second_values, second_times = np.unique(second, return_counts=True)
    values, in_first, in_second = np.intersect1d(first_values, second_values, assume_unique=True, return_indices=True)
    return values, np.minimum(first_times[in_first], second_times[in_second])


def _chunks(rows: Integers, columns: Integers) -> Iterator[Integers]:
    """Pairs of like size, few enough for their tables to stay within CELLS_PER_CHUNK."""
    longer = np.maximum(rows, columns)
    order = np.lexsort((rows, longer))
    longer = longer[order]
    start = 0
    while start < len(order):
        limit = int(longer[start] * LENGTH_RATIO) + LENGTH_SLACK
        alike = int(np.searchsorted(longer, limit, side="right"))
        end = min(alike, start + 1 + CELLS_PER_CHUNK // ((2 * limit + 1) * (limit + 1)))
        yield order[start:end]
        start = end


def _align_chunk(references: Encoded, predictions: Encoded, chunk: Integers, costs: Costs) -> list[str]:
    rows, columns = references.lengths[chunk], predictions.lengths[chunk]
    height, width, pairs = int(rows.max()), int(columns.max()), len(chunk)
    table = _table(_padded(references, chunk, height), _padded(predictions, chunk, width)[::-1], costs)
    # The backtrace goes through the flat table; each direction is a fixed distance, whatever the cell.
    diagonal, row = (height + 1) * pairs, pairs
    distances = np.array([2 * diagonal + row, 2 * diagonal + row, diagonal + row, diagonal])
    flat = table.reshape(-1)
    start = np.arange(pairs)
    place = (rows + columns) * diagonal + rows * row + start
    lengths = np.zeros(pairs, np.int64)
    directions = np.zeros((height + width, pairs), np.uint8)
    steps = 0
    while True:
        open_pairs = place >= pairs
        if not open_pairs.any():
            break
        lengths += open_pairs
        direction = flat.take(place) & DIRECTION_MASK
        directions[steps] = direction
        # A pair that is done would walk on to a negative place: it waits at its start.
        place = np.maximum(place - distances.take(direction), start)
        steps += 1
    text = SYMBOLS.take(directions[:steps][::-1].T).tobytes().decode("ascii")
    ends = range(steps, steps * pairs + 1, steps) if steps else [0] * pairs
    return [text[end - length : end] for end, length in zip(ends, lengths.tolist(), strict=True)]


def _padded(lists: Encoded, chunk: Integers, height: int) -> NDArray[np.int32]:
    """Tokens by position and pair. What fills the end of short lists is never looked at by the backtrace."""
    places = lists.starts[chunk] + np.arange(height)[:, None]
    padded: Integers = lists.ids[np.minimum(places, len(lists.ids) - 1)]
    return padded.astype(np.int32)


def _table(
    reference: NDArray[np.int32], prediction_reversed: NDArray[np.int32], costs: Costs
) -> NDArray[np.signedinteger]:
    """The table of all pairs: [antidiagonal = row + column, row, pair].

    A cell is (cost * base + operations) * 4 + direction, with base above the number of operations. On an antidiagonal
    the rows ascend and the columns descend; with the prediction reversed all operands are blocks of memory.
    """
    height, width, pairs = len(reference), len(prediction_reversed), reference.shape[1]
    base = height + width + 1
    largest = 4 * base * (height * costs.deletion + width * costs.insertion + sum(costs) + 1)
    kind = next(kind for kind in (np.int16, np.int32, np.int64) if largest <= np.iinfo(kind).max)
    substitution, insertion, deletion = (4 * (cost * base + 1) for cost in costs)
    substituted, inserted, deleted = (
        kind(substitution + SUBSTITUTION),
        kind(insertion + INSERTION),
        kind(deletion + DELETION),
    )

    table = np.zeros((height + width + 1, height + 1, pairs), kind)
    one_back, two_back, current = np.zeros((3, height + 1, pairs), kind)  # the last antidiagonals, without directions
    scratch = np.empty((height + 1, pairs), kind)
    differ = np.empty((height + 1, pairs), np.bool_)
    for antidiagonal in range(1, height + width + 1):
        first, last = max(1, antidiagonal - width), min(height, antidiagonal - 1) + 1
        if first < last:
            cells, other = table[antidiagonal, first:last], scratch[first:last]
            shift = width - antidiagonal
            unequal = np.not_equal(
                reference[first - 1 : last - 1],
                prediction_reversed[shift + first : shift + last],
                out=differ[first:last],
            )
            np.multiply(unequal, substituted, out=cells)
            np.add(cells, two_back[first - 1 : last - 1], out=cells)
            np.add(one_back[first - 1 : last - 1], deleted, out=other)
            np.minimum(cells, other, out=cells)
            np.add(one_back[first:last], inserted, out=other)
            np.minimum(cells, other, out=cells)
            np.bitwise_and(cells, ~DIRECTION_MASK, out=current[first:last])
        if antidiagonal <= width:
            current[0] = antidiagonal * insertion
            table[antidiagonal, 0] = antidiagonal * insertion + INSERTION
        if antidiagonal <= height:
            current[antidiagonal] = antidiagonal * deletion
            table[antidiagonal, antidiagonal] = antidiagonal * deletion + DELETION
        one_back, two_back, current = current, one_back, two_back
    return table
