"""Words to dependency trees, with our own parser (see biaffine.py) or an installed spaCy pipeline.

A parser scores every word as the head of every other word; the tree is the best one with a single root. How sure the
parser was of each arc is part of the result: a parser attaches everything somewhere, so only its doubt tells
how well the pieces of a sentence hold together.

>>> parser = load()
>>> parser.parse([["She", "sings", "."]])[0].heads
(2, 0, 2)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from textfluency import weights

if TYPE_CHECKING:
    from spacy.language import Language

SPACY = "spacy:"  # a source that begins so names an installed spaCy pipeline
LONGEST_SENTENCE = 600  # words; arc scores need memory by the square, so what is longer is parsed in pieces
WORDS_PER_BATCH = 3000


@dataclass(frozen=True)
class Parse:
    """A sentence's tree in the terms of CoNLL: the head of each word counts from 1, and 0 marks the root."""

    words: tuple[str, ...]
    tags: tuple[str, ...]  # Penn Treebank parts of speech
    heads: tuple[int, ...]
    labels: tuple[str, ...]  # Universal Dependencies relations
    arc_probabilities: tuple[float, ...]  # of each head, given the sentence


Sentence = list[str]


@dataclass(frozen=True)
class Parser:
    """Parses lists of words. `parse_batch` is what does it, for a few sentences of like length, none of them empty."""

    name: str
    parse_batch: Callable[[list[Sentence]], list[Parse]]

    def parse(self, sentences: list[Sentence]) -> list[Parse]:
        """One tree per sentence, in the given order. An empty sentence has an empty tree."""
        pieces = [
            (index, sentence[start : start + LONGEST_SENTENCE])
            for index, sentence in enumerate(sentences)
            for start in range(0, len(sentence), LONGEST_SENTENCE)
        ]
        pieces_of: list[list[Parse]] = [[] for _ in sentences]
        parses: dict[int, Parse] = {}
        for batch in _batches([piece for _, piece in pieces]):
            parses.update(zip(batch, self.parse_batch([pieces[position][1] for position in batch]), strict=True))
        for position, (index, _) in enumerate(pieces):
            pieces_of[index].append(parses[position])
        return [_joined(parts) for parts in pieces_of]

    def heads(self, sentences: list[Sentence]) -> list[list[int]]:
        """Only the trees, as tree_accuracy takes them."""
        return [list(parse.heads) for parse in self.parse(sentences)]


def load(source: Path | str | None = None) -> Parser:
    """The embedded parser, one that `training.parser` wrote into a folder, or `spacy:` with the name of a pipeline."""
    if isinstance(source, str) and source.startswith(SPACY):
        return _load_spacy(source.removeprefix(SPACY))
    from textfluency.parsing import biaffine

    folder = weights.resolve("parser") if source is None else Path(source)
    name = f"biaffine:{weights.fingerprint(folder)}"
    return weights.load_once(name, lambda: Parser(name, biaffine.load(folder).parse_batch))


def _batches(sentences: list[Sentence]) -> Iterator[list[int]]:
    """Positions of sentences that are parsed together: of like length, so that hardly anything is padding."""
    batch: list[int] = []
    for position in sorted(range(len(sentences)), key=lambda position: len(sentences[position])):
        if batch and (len(batch) + 1) * len(sentences[position]) > WORDS_PER_BATCH:
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _joined(parts: list[Parse]) -> Parse:
    """The pieces of one long sentence under the root of the first."""
    if not parts:
        return Parse((), (), (), (), ())
    heads = list(parts[0].heads)
    labels = list(parts[0].labels)
    root = heads.index(0) + 1
    for part in parts[1:]:
        offset = len(heads)
        heads += [head + offset if head else root for head in part.heads]
        labels += [label if head else "parataxis" for head, label in zip(part.heads, part.labels, strict=True)]
    return Parse(
        words=tuple(word for part in parts for word in part.words),
        tags=tuple(tag for part in parts for tag in part.tags),
        heads=tuple(heads),
        labels=tuple(labels),
        arc_probabilities=tuple(probability for part in parts for probability in part.arc_probabilities),
    )


# --- the best tree ---------------------------------------------------------------------------------------------------


def best_tree(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The heads of the tree with the highest sum of arc scores among those with exactly one root.

    `scores[d, h]` tells how well node h heads node d; node 0 is the root above the words, so row 0 is not looked at.
    Most often every word's best head already makes such a tree. Where not: Chu & Liu 1965 and Edmonds 1967, with a fine
    on each arc from the root that is higher than anything a second root could gain.
    """
    scores = np.array(scores, dtype=np.float64)
    np.fill_diagonal(scores, -np.inf)
    heads: NDArray[np.int64] = scores.argmax(axis=1)
    heads[0] = 0
    if (heads[1:] == 0).sum() == 1 and not _cycle(heads):
        return heads
    words = ~np.eye(len(scores), dtype=bool)
    words[0] = False
    scores[1:, 0] -= len(scores) * (1 + np.ptp(scores[words]))
    return _maximum_spanning_tree(scores)


def _maximum_spanning_tree(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """Takes every node's best head; while there is a cycle, makes one node of it and solves the smaller problem."""
    heads: NDArray[np.int64] = scores.argmax(axis=1)
    heads[0] = 0
    cycle = np.array(_cycle(heads), dtype=np.int64)
    if not len(cycle):
        return heads
    outside = np.setdiff1d(np.arange(len(scores)), cycle)  # node 0 is among them and stays first
    kept = scores[cycle, heads[cycle]]
    entering = scores[np.ix_(cycle, outside)] - kept[:, None]  # what it costs to break the cycle at each of its nodes
    smaller = np.full((len(outside) + 1, len(outside) + 1), -np.inf)  # the cycle is the last node
    smaller[:-1, :-1] = scores[np.ix_(outside, outside)]
    smaller[:-1, -1] = scores[np.ix_(outside, cycle)].max(axis=1)
    smaller[-1, :-1] = entering.max(axis=0)
    solved = _maximum_spanning_tree(smaller)
    for node, head in zip(outside, solved[:-1], strict=True):
        if head == len(outside):
            heads[node] = cycle[scores[node, cycle].argmax()]
        else:
            heads[node] = outside[head]
    heads[cycle[entering[:, solved[-1]].argmax()]] = outside[solved[-1]]
    return heads


def _cycle(heads: NDArray[np.int64]) -> list[int]:
    """The nodes of some cycle, or none."""
    visited_from = np.zeros(len(heads), dtype=np.int64)
    visited_from[0] = -1
    for start in range(1, len(heads)):
        node = start
        while not visited_from[node]:
            visited_from[node] = start
            node = heads[node]
        if visited_from[node] == start:
            cycle = [int(node)]
            while heads[cycle[-1]] != node:
                cycle.append(int(heads[cycle[-1]]))
            return cycle
    return []


# --- spaCy -----------------------------------------------------------------------------------------------------------


def _load_spacy(pipeline: str) -> Parser:
    """spaCy does not tell how sure it is of an arc, so every probability is 1."""
    try:
        import spacy
    except ImportError as error:
        raise ImportError(f"The parser {SPACY}{pipeline} needs spaCy: pip install spacy") from error
    try:
        language: Language = spacy.load(pipeline)
    except OSError as error:
        raise ValueError(f"No spaCy pipeline {pipeline!r} is installed: python -m spacy download {pipeline}") from error

    def parse_batch(sentences: list[Sentence]) -> list[Parse]:
        documents = (spacy.tokens.Doc(language.vocab, words=sentence) for sentence in sentences)
        return [
            Parse(
                words=tuple(sentence),
                tags=tuple(token.tag_ for token in parsed),
                heads=_single_root([0 if token.head.i == token.i else token.head.i + 1 for token in parsed]),
                labels=tuple(token.dep_ for token in parsed),
                arc_probabilities=(1.0,) * len(sentence),
            )
            for sentence, parsed in zip(sentences, language.pipe(documents), strict=True)
        ]

    return Parser(name=f"{SPACY}{pipeline}", parse_batch=parse_batch)


def _single_root(heads: list[int]) -> tuple[int, ...]:
    """spaCy may cut what it is given into several sentences; their roots go under the first."""
    root = heads.index(0) + 1
    return tuple(root if not head and position != root else head for position, head in enumerate(heads, start=1))
