"""slor: how fluent is a text, with the rarity of its words taken out? (Kann, Rothe & Filippova 2018)

    SLOR(S) = (ln p_M(S) - ln p_u(S)) / |S|

p_M is a language model's probability of the text, p_u the product of its tokens' unigram probabilities, |S| the
number of tokens, end sign included in all three. A rare word lowers p_M and p_u alike, so *He is a citizen of Tuvalu*
is not punished against *He is a citizen of France*. Higher is better; there is no upper bound; word salad lies near
0. Beside it

    NCE(S) = ln p_M(S) / |S|        PPL(S) = exp(-NCE(S))
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textfluency import __version__, aggregation, language_model, normalization
from textfluency.normalization import Mode
from textfluency.sentences import sentences

NAME = "slor"
INCLUDE_EOS = True  # without the end sign a text cut short cannot be told from a whole one; the paper is silent


@dataclass(frozen=True)
class Models:
    language_model: language_model.LanguageModel


@dataclass(frozen=True, slots=True)
class Token:
    """A token with its two log-probabilities; `surplus` is what it adds to |S| * SLOR."""

    text: str
    model: float  # ln p_M(token | tokens before)
    unigram: float  # ln p_u(token)
    unknown: bool

    @property
    def surplus(self) -> float:
        return self.model - self.unigram


@dataclass(frozen=True)
class Features:
    """The sequences that a text was scored as: one, or one per sentence; none where there was nothing to score."""

    sequences: tuple[tuple[Token, ...], ...]
    windows: int  # more than there are sequences: some exceeded the model's window and were scored in overlapping parts


@dataclass(frozen=True)
class Explanation:
    """Which tokens made the score: the mean of `surplus` over a sequence's tokens is its SLOR."""

    score: dict[str, float]
    features: Features

    def __str__(self) -> str:
        lines = [f"{'token':<20}{'ln p_M':>9}{'ln p_u':>9}{'surplus':>9}"]
        for sequence in self.features.sequences:
            for token in sequence:
                numbers = f"{token.model:9.2f}{token.unigram:9.2f}{token.surplus:9.2f}"
                bar = ("+" if token.surplus > 0 else "-") * min(20, round(abs(token.surplus) * 2))
                lines.append(f"{token.text[:19]:<20}{numbers}  {bar}".rstrip())
        lines.append("  ".join(f"{key} {value:.4g}" for key, value in self.score.items()))
        return "\n".join(lines)


def load(
    config: str = "default",
    *,
    model: Any = None,
    tokenizer: Any = None,
    unigrams: str | Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
    default: str = NAME,
) -> Models:
    """`default`, `smollm2`, a folder or a Hub id; or `model` and `tokenizer` objects with their `unigrams` folder."""
    chosen = model if model is not None else default if config == "default" else config
    return Models(language_model.load(chosen, tokenizer=tokenizer, unigram_table=unigrams, device=device, dtype=dtype))


def extract(
    predictions: Sequence[str],
    models: Models,
    *,
    include_eos: bool = INCLUDE_EOS,
    normalize: Mode = "auto",
    split_sentences: bool = False,
) -> list[Features]:
    """The tokens of each text with their log-probabilities."""
    texts = [normalization.normalize(text, normalize) for text in predictions]
    parts = [sentences(text) if split_sentences else [text] for text in texts]
    scored = iter(
        language_model.score_tokens([part for group in parts for part in group], models.language_model, include_eos)
    )
    table, unknown = models.language_model.unigram_log_probabilities, models.language_model.unknown
    features = []
    for group in parts:
        sequences, windows = [], 0
        for part in (next(scored) for _ in group):
            if len(part.ids):
                rows = zip(part.tokens, part.log_probabilities, table[part.ids], part.ids == unknown, strict=True)
                sequences.append(tuple(Token(text, float(p), float(u), bool(oov)) for text, p, u, oov in rows))
                windows += part.windows
        features.append(Features(tuple(sequences), windows))
    return features


def score(features: Features, name: str = NAME) -> dict[str, float]:
    """The formulas, averaged over the sequences of a text; NaN where there was nothing to score."""
    keys = (name, "nce", "ppl", "oov_rate", "length")
    scores = []
    for tokens in features.sequences:
        length = len(tokens)
        nce = math.fsum(token.model for token in tokens) / length
        slor = math.fsum(token.surplus for token in tokens) / length
        oov_rate = sum(token.unknown for token in tokens) / length
        scores.append(dict(zip(keys, (slor, nce, _exp(-nce), oov_rate, float(length)), strict=True)))
    return aggregation.mean(scores, keys)


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def aggregate(scores: Sequence[dict[str, float]], name: str = NAME) -> dict[str, float]:
    """Means over the texts, and how many texts were empty."""
    empty = sum(math.isnan(score[name]) for score in scores)
    return {**aggregation.mean(scores, (name, "nce", "ppl")), "empty": float(empty)}


def explain(text: str, models: Models, name: str = NAME, **options: Any) -> Explanation:
    """The evidence behind the score of one text."""
    (features,) = extract([text], models, **options)
    return Explanation(score(features, name), features)


def signature(
    models: Models,
    *,
    include_eos: bool = INCLUDE_EOS,
    normalize: Mode = "auto",
    split_sentences: bool = False,
    name: str = NAME,
) -> str:
    """Everything that a score depends on, in one line to put beside it."""
    return (
        f"{name}|model:{models.language_model.name}|eos:{'yes' if include_eos else 'no'}|normalize:{normalize}"
        f"|split:{'yes' if split_sentences else 'no'}|version:{__version__}"
    )
