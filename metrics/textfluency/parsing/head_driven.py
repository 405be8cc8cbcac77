"""How probable a dependency tree is: a head-driven generative model in Collins' manner (Collins 1999, model 1).

A tree is made from its root downward. Each head makes its dependents on either side from the inside out, then stops:

    P(tree) = product of P(label, tag | head's tag, label and word, side, previous sibling's label)   structure
            * product of P(word | its tag, its label, head's word)                                    words

Both back off to shorter contexts by interpolation (Witten & Bell 1991): a context seen n times with t outcomes gives
one that was seen c times (c + t * p) / (n + t), where p is what the next shorter context says.

All counts lie in one table of hashed keys, so there is no vocabulary: 32 bits of key and one byte for the logarithm of
the count, which is right to within three per cent.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from textfluency import weights
from textfluency.parsing.dependency import Parse

STRUCTURE_CONTEXTS = ((0, 1, 2, 3, 4), (0, 1, 3, 4), (0, 3, 4), (0, 3))  # columns of Events.structure, longest first
WORD_CONTEXTS = ((0, 1, 2), (0, 1), (0,), ())  # columns of Events.words
OUTCOME = -1  # the last column of either
STRUCTURE_OUTCOMES = 2000  # pairs of label and tag, and the stop: what is left when nothing is known
KNOWN_WORDS = 60_000  # the same for words
RARE_WORD = 6  # a word seen less often is the unknown word, as in Collins 1999: rarity alone is no fault of a sentence
RARE = 5e-3  # an attachment is rare if such a head has a dependent of that label and tag with less probability
STEPS_PER_E_FOLD = 16  # of the byte that stores a count
COUNT, TOTAL, KINDS = 1, 2, 3  # what an entry of the table tells about its context

Integers = NDArray[np.uint64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TreeProbability:
    """Natural logarithms, summed over the sentence."""

    structure: float
    words: float
    unigrams: float  # the words' probability without any tree, to compare with
    rare_attachments: tuple[int, ...]  # words, counted from 1, that such a head hardly ever has as dependents

    @property
    def joint(self) -> float:
        """The probability of the best parse, which is the parser's tree: Collins' number."""
        return self.structure + self.words


@dataclass(frozen=True)
class HeadDrivenModel:
    name: str
    keys: NDArray[np.uint32]  # sorted
    codes: NDArray[np.uint8]

    def score(self, parses: Sequence[Parse]) -> list[TreeProbability]:
        """One result per tree; an empty tree has probability one."""
        events = events_of(parses)
        known = self._look_up(entry(mixed(events.words, (OUTCOME,)), COUNT)) >= RARE_WORD
        structure = self._probabilities(events.structure, STRUCTURE_CONTEXTS, STRUCTURE_OUTCOMES)
        words = self._probabilities(events.words, WORD_CONTEXTS, KNOWN_WORDS, known)
        unigrams = self._probabilities(events.words, WORD_CONTEXTS[-1:], KNOWN_WORDS, known)
        attachment = self._probabilities(events.structure, STRUCTURE_CONTEXTS[-1:], STRUCTURE_OUTCOMES)
        rare_attachments: list[list[int]] = [[] for _ in parses]
        for step in np.flatnonzero((attachment < RARE) & (events.dependents > 0)):
            rare_attachments[events.structure_owners[step]].append(int(events.dependents[step]))
        sums = np.stack(
            [
                np.bincount(owners, weights=values, minlength=len(parses))
                for values, owners in (
                    (np.log(structure), events.structure_owners),
                    (np.log(words), events.word_owners),
                    (np.log(unigrams), events.word_owners),
                )
            ],
            axis=1,
        )
        return [
            TreeProbability(float(row[0]), float(row[1]), float(row[2]), tuple(sorted(rare)))
            for row, rare in zip(sums, rare_attachments, strict=True)
        ]

    def _probabilities(
        self,
        events: Integers,
        contexts: Sequence[tuple[int, ...]],
        outcomes: int,
        known: NDArray[np.bool_] | None = None,
    ) -> Floats:
        """The probability of each row's outcome. All that is not `known` is one outcome: what is left for the new."""
        known = np.ones(len(events), dtype=bool) if known is None else known
        probability = np.where(known, 1 / outcomes, 1.0)
        for columns in reversed(contexts):
            context = mixed(events, columns)
            total, kinds = self._look_up(entry(context, TOTAL)), self._look_up(entry(context, KINDS))
            count = self._look_up(entry(mixed(events, (*columns, OUTCOME)), COUNT)) * known
            stored = kinds > 0  # with the total; a key that is there by accident has no second
            probability[stored] = ((count + kinds * probability) / np.maximum(total + kinds, 1))[stored]
        return probability

    def _look_up(self, keys: NDArray[np.uint32]) -> Floats:
        position = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
        return np.where(self.keys[position] == keys, decoded(self.codes[position]), 0.0)


def load(folder: Path | None = None) -> HeadDrivenModel:
    """The embedded model, or one that `training.head_driven_model` wrote."""
    from safetensors.numpy import load_file

    folder = folder or weights.resolve("head_driven")
    stored = load_file(folder / "model.safetensors")
    return HeadDrivenModel(f"head-driven:{weights.fingerprint(folder)}", stored["keys"], stored["codes"])


# --- a tree as a list of steps ---------------------------------------------------------------------------------------

STOP = "</s>"  # the outcome that ends a side
START = "<s>"  # the sibling before the first
ROOT = "<root>"  # the head above the sentence
LEFT, RIGHT = 0, 1


@dataclass(frozen=True)
class Events:
    """The steps that make some trees, as rows of hashes, and the number of the tree that each belongs to."""

    structure: Integers  # head's tag, label, word; side; previous sibling's label; outcome: label and tag, or the stop
    words: Integers  # tag, label, head's word; outcome: word
    dependents: NDArray[np.int64]  # the word that a step of the structure makes, from 1; 0 for a stop
    structure_owners: NDArray[np.int64]
    word_owners: NDArray[np.int64]


def events_of(parses: Sequence[Parse]) -> Events:
    structure: list[tuple[int, ...]] = []
    words: list[tuple[int, ...]] = []
    made: list[int] = []
    structure_owners: list[int] = []
    for owner, parse in enumerate(parses):
        tags, labels = [_hash(tag) for tag in (ROOT, *parse.tags)], [_hash(label) for label in (ROOT, *parse.labels)]
        forms = [_hash(normalised(word)) for word in (ROOT, *parse.words)]
        outcomes = [_hash(f"{label} {tag}") for label, tag in zip(parse.labels, parse.tags, strict=True)]
        dependents: list[tuple[list[int], list[int]]] = [([], []) for _ in forms]
        for word, head in enumerate(parse.heads, start=1):
            dependents[head][LEFT if word < head else RIGHT].append(word)
            words.append((tags[word], labels[word], forms[head], forms[word]))
        for head, (left, right) in enumerate(dependents):
            for side, row in ((LEFT, left[::-1]), (RIGHT, right)):
                if head == 0 and side == LEFT:
                    continue
                previous = _hash(START)
                for word in row:
                    structure.append((tags[head], labels[head], forms[head], side, previous, outcomes[word - 1]))
                    previous = labels[word]
                    made.append(word)
                structure.append((tags[head], labels[head], forms[head], side, previous, _hash(STOP)))
                made.append(0)
        structure_owners += [owner] * (len(structure) - len(structure_owners))
    return Events(
        np.array(structure, dtype=np.uint64).reshape(-1, 6),
        np.array(words, dtype=np.uint64).reshape(-1, 4),
        np.array(made, dtype=np.int64),
        np.array(structure_owners, dtype=np.int64),
        np.repeat(np.arange(len(parses)), [len(parse.words) for parse in parses]),
    )


@functools.lru_cache(maxsize=200_000)
def normalised(word: str) -> str:
    """Case does not count, and one number is as good as another."""
    return "<number>" if any(sign.isdigit() for sign in word) else word.lower()


@functools.lru_cache(maxsize=200_000)
def _hash(text: str) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass"))


# --- the table -------------------------------------------------------------------------------------------------------


def mixed(events: Integers, columns: Sequence[int]) -> Integers:
    """One 64-bit number for what stands in the columns of each row; which columns they are matters too."""
    mixture = np.full(len(events), 0x9E3779B97F4A7C15 + events.shape[1], dtype=np.uint64)
    for column in columns:
        mixture ^= events[:, column] + np.uint64(column % events.shape[1] + 1)
        mixture *= np.uint64(0xFF51AFD7ED558CCD)  # the finaliser of MurmurHash3
        mixture ^= mixture >> np.uint64(32)
    return mixture


def entry(mixture: Integers, kind: int) -> NDArray[np.uint32]:
    """The key of an outcome's COUNT, or of a context's TOTAL number of events or number of KINDS of outcome."""
    return ((mixture + np.uint64(kind)) * np.uint64(0xC4CEB9FE1A85EC53) >> np.uint64(32)).astype(np.uint32)


def encoded(counts: NDArray[np.int64]) -> NDArray[np.uint8]:
    steps: Floats = np.rint(STEPS_PER_E_FOLD * np.log(counts))
    return steps.clip(max=255).astype(np.uint8)


def decoded(codes: NDArray[np.uint8]) -> Floats:
    return np.exp(codes.astype(np.float64) / STEPS_PER_E_FOLD)
