"""From one result per text to one result per call."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(scores: Sequence[dict[str, float]], keys: Sequence[str]) -> dict[str, float]:
    """The mean of each key over the texts that have a value; NaN where none has.

    >>> mean([{"slor": 1.0}, {"slor": 3.0}, {"slor": math.nan}], ["slor"])
    {'slor': 2.0}
    """
    result = {}
    for key in keys:
        values = [score[key] for score in scores if not math.isnan(score[key])]
        result[key] = math.fsum(values) / len(values) if values else math.nan
    return result


def columns(scores: Sequence[dict[str, float]]) -> dict[str, list[float]]:
    """One list per key instead of one dictionary per text.

    >>> columns([{"slor": 1.0, "nce": -2.0}, {"slor": 3.0, "nce": -4.0}])
    {'slor': [1.0, 3.0], 'nce': [-2.0, -4.0]}
    """
    return {key: [score[key] for score in scores] for key in (scores[0] if scores else ())}
