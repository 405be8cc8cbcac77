"""rouge_l: how much of a text stands, in the same order, in a reference? (Lin & Och 2004; ROUGE-L-mult in Kann et al.)

    P = LCS / |prediction|,   R = LCS / |reference|,   F = (1 + beta^2) P R / (R + beta^2 P)

LCS is the length of the longest common subsequence of words, text and reference taken as one sequence each. Of several
references the one with the best F counts. F lies between 0 and 1; higher is better.

>>> features, = extract(["police killed the gunman"], [["the gunman kill police", "police kill the gunman"]])
>>> score(features)
{'rouge_l': 0.75, 'precision': 0.75, 'recall': 0.75, 'best_reference': 1.0}
>>> print(align("police killed the gunman", "police kill the gunman"))
prediction  police killed the gunman
            ------        --- ------
reference   police kill   the gunman
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from textfluency import sentences

NAME = "rouge_l"
BETA = 1.0  # ROUGE-1.5.5's alpha = 0.5 and rouge_score's fmeasure; the paper does not say
TokenizerName = Literal["words", "rouge_score"]

_LATIN = b"abcdefghijklmnopqrstuvwxyz0123456789"  # all that rouge_score keeps of a text
_ELSE_TO_SPACE = bytes(byte if byte in _LATIN else ord(" ") for byte in range(256))


def words(text: str) -> list[str]:
    """Lower-cased words and punctuation marks of any script."""
    return sentences.words(text.lower())


def rouge_score_words(text: str) -> list[str]:
    """The words of google's rouge_score, not stemmed: plain Latin letters and digits, everything else is lost."""
    ascii_text = text.lower().encode("ascii", "replace")  # "?" for every other character
    return ascii_text.translate(_ELSE_TO_SPACE).decode("ascii").split()


TOKENIZERS: dict[str, Callable[[str], list[str]]] = {"words": words, "rouge_score": rouge_score_words}


@dataclass(frozen=True, slots=True)
class Features:
    """Lengths in words of a text, its references and their longest common subsequences."""

    length: int
    reference_lengths: tuple[int, ...]
    common: tuple[int, ...]


@dataclass(frozen=True)
class Alignment:
    """Two texts word by word; `matches` are the positions, in each, of the words of a longest common subsequence."""

    prediction: tuple[str, ...]
    reference: tuple[str, ...]
    matches: tuple[tuple[int, int], ...]

    @property
    def subsequence(self) -> tuple[str, ...]:
        return tuple(self.prediction[position] for position, _ in self.matches)

    def __str__(self) -> str:
        """The texts above one another; what they share is underlined."""
        rows: tuple[list[str], list[str], list[str]] = (["prediction "], ["           "], ["reference  "])
        before = (0, 0)
        for here in (*self.matches, (len(self.prediction), len(self.reference))):
            gaps = self.prediction[before[0] : here[0]], self.reference[before[1] : here[1]]
            for index in range(max(map(len, gaps))):
                upper, lower = (gap[index] if index < len(gap) else "" for gap in gaps)
                _add_column(rows, upper, "", lower)
            if here[0] < len(self.prediction):
                shared = self.prediction[here[0]]
                _add_column(rows, shared, "-" * len(shared), shared)
            before = here[0] + 1, here[1] + 1
        return "\n".join(" ".join(row).rstrip() for row in rows)


def _add_column(rows: Sequence[list[str]], *cells: str) -> None:
    width = max(map(len, cells))
    for row, cell in zip(rows, cells, strict=True):
        row.append(cell.ljust(width))


def extract(
    predictions: Sequence[str], references: Sequence[Sequence[str]], *, tokenizer: TokenizerName = "words"
) -> list[Features]:
    """Longest common subsequences of each text with each of its references; equal texts are tokenised once."""
    import numpy as np
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cpdist

    tokenize = _tokenizer(tokenizer)
    distinct = dict.fromkeys(predictions)
    for group in references:
        distinct.update(dict.fromkeys(group))
    tokens = {text: tuple(tokenize(text)) for text in distinct}  # tuples of strings cost the garbage collector nothing
    left = [tokens[text] for text, group in zip(predictions, references, strict=True) for _ in group]
    right = [tokens[text] for group in references for text in group]
    lengths = list(map(len, right))
    common = cpdist(left, right, scorer=LCSseq.similarity, dtype=np.int64).tolist()
    features, first = [], 0
    for text, group in zip(predictions, references, strict=True):
        last = first + len(group)
        features.append(Features(len(tokens[text]), tuple(lengths[first:last]), tuple(common[first:last])))
        first = last
    return features


def score(features: Features, beta: float = BETA) -> dict[str, float]:
    """The best F over the references with its precision and recall, and the reference's index (the first of equals)."""
    scores = [
        f_measure(common, features.length, length, beta)
        for common, length in zip(features.common, features.reference_lengths, strict=True)
    ]
    best = scores.index(max(scores))
    common, length = features.common[best], features.reference_lengths[best]
    return {
        NAME: scores[best],
        "precision": common / features.length if features.length else 0.0,
        "recall": common / length if length else 0.0,
        "best_reference": float(best),
    }


def f_measure(common: int, length: int, reference_length: int, beta: float = BETA) -> float:
    """F of precision and recall, in the form that needs no division by zero: 0 where there is nothing in common.

    >>> f_measure(3, 4, 4), f_measure(0, 0, 4)
    (0.75, 0.0)
    """
    return (1 + beta**2) * common / (length + beta**2 * reference_length) if common else 0.0


def align(prediction: str, reference: str, *, tokenizer: TokenizerName = "words") -> Alignment:
    """Which words of the two texts make up their longest common subsequence."""
    from rapidfuzz.distance import LCSseq

    upper, lower = (tuple(_tokenizer(tokenizer)(text)) for text in (prediction, reference))
    equal = [block for block in LCSseq.opcodes(upper, lower) if block.tag == "equal"]
    matches = [
        (block.src_start + step, block.dest_start + step)
        for block in equal
        for step in range(block.src_end - block.src_start)
    ]
    return Alignment(upper, lower, tuple(matches))


def _tokenizer(name: str) -> Callable[[str], list[str]]:
    if name not in TOKENIZERS:
        raise ValueError(f"`tokenizer` must be one of {', '.join(map(repr, get_args(TokenizerName)))}, got {name!r}.")
    return TOKENIZERS[name]
