"""wpslor: slor over word pieces instead of words (Kann, Rothe & Filippova 2018).

    WPSLOR(S) = (ln p_M(S) - ln p_u(S)) / |S|,   tokens are the 16,000 pieces of a sentencepiece model

There is hardly an unknown word, so names and rare forms are judged by their parts. Read it as slor: higher is better.
Everything but the model is slor's; see there.
"""

from __future__ import annotations

import functools

from textfluency import slor
from textfluency.slor import Explanation, Features, Models, Token, extract

__all__ = [
    "Explanation",
    "Features",
    "Models",
    "Token",
    "aggregate",
    "explain",
    "extract",
    "load",
    "score",
    "signature",
]

NAME = "wpslor"

load = functools.partial(slor.load, default=NAME)
score = functools.partial(slor.score, name=NAME)
aggregate = functools.partial(slor.aggregate, name=NAME)
explain = functools.partial(slor.explain, name=NAME)
signature = functools.partial(slor.signature, name=NAME)
