"""rouge_lm: does a text say what a reference says, and is it fluent? (Kann, Rothe & Filippova 2018, section 5)

    ROUGE-LM(x) = z(ROUGE-L-mult(x)) + z(WPSLOR(x)),   z(v) = (v - mean) / standard deviation

The two halves are on different scales, so each is measured in standard deviations from a mean. Whose mean it is decides
how the value reads:

    stored   the default, statistics that come with the weights: 0 is an average output of systems that people rated, so
             one text can be scored alone and two systems can be compared
    batch    as in the paper, statistics of the texts of the call: it ranks them, but their mean is 0 by construction
    fitted   yours, from `fit(predictions, references, models)`: fit on the pool of all systems, then score each

The config `svr` replaces the sum by a support vector regression on the two raw scores that was fitted to human ratings.
Higher is better.
"""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from textfluency import aggregation, rouge_l, weights, wpslor
from textfluency.normalization import normalize
from textfluency.rouge_l import BETA, Alignment, TokenizerName

NAME = "rouge_lm"
SVR = "svr"  # the config
STATISTICS_FILE = "statistics.json"  # one Normalization per language model
REGRESSION_FILE, REGRESSION_NUMBERS = "svr.json", "svr.safetensors"
FEWEST_IN_BATCH = 30  # below it, mean and standard deviation of a batch say little


@dataclass(frozen=True)
class Normalization:
    """Means and standard deviations (over n, not n - 1) of both halves, and the language model that they hold for."""

    rouge_mean: float
    rouge_sd: float
    wpslor_mean: float
    wpslor_sd: float
    texts: int = 0
    language_model: str = ""
    batch: bool = False

    def __post_init__(self) -> None:
        if self.rouge_sd < 0 or self.wpslor_sd < 0:
            raise ValueError("`rouge_sd` and `wpslor_sd` are standard deviations and cannot be negative.")
        for half, sd in (("ROUGE-L", self.rouge_sd), ("WPSLOR", self.wpslor_sd)):
            if sd == 0:
                warnings.warn(
                    f"The {half} of all {self.texts} texts is the same: its standard deviation is 0, so its z-score "
                    "is set to 0. Fit the statistics on more texts.",
                    stacklevel=3,
                )

    @classmethod
    def of(cls, rouge: ArrayLike, fluency: ArrayLike, language_model: str = "", batch: bool = False) -> Normalization:
        """The statistics of given scores; a text without a WPSLOR, i.e. an empty one, is left out of both halves."""
        columns = np.array([rouge, fluency], dtype=np.float64)
        columns = columns[:, ~np.isnan(columns).any(axis=0)]
        if not columns.size:
            return cls(math.nan, math.nan, math.nan, math.nan, 0, language_model, batch)
        means = columns.mean(axis=1)
        sds = np.where(np.ptp(columns, axis=1) == 0, 0.0, columns.std(axis=1))  # equal values may have std 1e-17
        return cls(
            float(means[0]), float(sds[0]), float(means[1]), float(sds[1]), columns.shape[1], language_model, batch
        )

    @classmethod
    def load(cls, file: str | Path) -> Normalization:
        return cls(**json.loads(Path(file).read_text(encoding="utf-8")))

    def save(self, file: str | Path) -> None:
        Path(file).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @property
    def fingerprint(self) -> str:
        """Eight characters that change when any of the numbers does."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:8]

    def z_scores(self, rouge: float, fluency: float) -> tuple[float, float]:
        return _z(rouge, self.rouge_mean, self.rouge_sd), _z(fluency, self.wpslor_mean, self.wpslor_sd)


def _z(value: float, mean: float, sd: float) -> float:
    return 0.0 if sd == 0 and not math.isnan(value) else (value - mean) / (sd or 1.0)


Choice = str | Path | Normalization | Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Regression:
    """A support vector regression: sum_i c_i exp(-gamma |x - s_i|^2) + intercept, where x is (WPSLOR, ROUGE-L)."""

    support_vectors: NDArray[np.float64]
    coefficients: NDArray[np.float64]
    intercept: float
    gamma: float
    language_model: str

    def predict(self, fluency: float, rouge: float) -> float:
        distances = ((self.support_vectors - (fluency, rouge)) ** 2).sum(axis=1)
        return float(self.coefficients @ np.exp(-self.gamma * distances) + self.intercept)

    def save(self, folder: Path) -> None:
        from safetensors.numpy import save_file

        numbers = {"support_vectors": self.support_vectors, "coefficients": self.coefficients}
        save_file({name: np.ascontiguousarray(array) for name, array in numbers.items()}, folder / REGRESSION_NUMBERS)
        rest = {"intercept": self.intercept, "gamma": self.gamma, "language_model": self.language_model}
        (folder / REGRESSION_FILE).write_text(json.dumps(rest, indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, folder: Path) -> Regression:
        from safetensors.numpy import load_file

        rest = json.loads((folder / REGRESSION_FILE).read_text(encoding="utf-8"))
        numbers = load_file(folder / REGRESSION_NUMBERS)
        return cls(numbers["support_vectors"], numbers["coefficients"], **rest)

    @property
    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.intercept} {self.gamma}".encode())
        digest.update(self.support_vectors.tobytes() + self.coefficients.tobytes())
        return digest.hexdigest()[:8]


@dataclass(frozen=True)
class Models:
    """The language model and what puts the halves together; `normalization` is None where none is stored for it."""

    wpslor: wpslor.Models
    normalization: Normalization | None = None
    regression: Regression | None = None

    @property
    def language_model(self) -> str:
        return self.wpslor.language_model.name


@dataclass(frozen=True)
class Features:
    rouge_l: rouge_l.Features
    wpslor: wpslor.Features


@dataclass(frozen=True)
class Explanation:
    """What a text shares with its best reference, and which of its tokens the language model found fluent."""

    score: dict[str, float]
    alignment: Alignment
    fluency: wpslor.Explanation

    def __str__(self) -> str:
        numbers = "  ".join(f"{key} {value:.4g}" for key, value in self.score.items())
        return f"{self.alignment}\n{self.fluency}\n{numbers}"


def load(config: str = "default", *, language_model: wpslor.Models | None = None) -> Models:
    """`default`, `svr`, or a config of wpslor for the fluent half; `language_model` is what wpslor.load gave."""
    half = language_model or wpslor.load("default" if config == SVR else config)
    name = half.language_model.name
    folder = weights.resolve(NAME)
    stored = json.loads((folder / STATISTICS_FILE).read_text(encoding="utf-8")).get(name)
    regression = Regression.load(folder) if config == SVR else None
    if regression and regression.language_model != name:
        raise ValueError(
            f"The config {SVR!r} was fitted with the language model {regression.language_model!r} and knows nothing of "
            f"{name!r}. Fit it anew with `python -m training.rouge_lm --svr`, or use the config 'default'."
        )
    return Models(half, Normalization(**stored) if stored else None, regression)


def extract(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    models: Models,
    *,
    tokenizer: TokenizerName = "words",
) -> list[Features]:
    """Both halves of each text, for a list of references per text."""
    if tokenizer == "words":  # brackets and quotes as both halves see them; rouge_score's way is to be reproduced
        overlaps = rouge_l.extract(
            [normalize(text) for text in predictions],
            [[normalize(reference) for reference in own] for own in references],
            tokenizer=tokenizer,
        )
    else:
        overlaps = rouge_l.extract(predictions, references, tokenizer=tokenizer)
    return [
        Features(overlap, fluency)
        for overlap, fluency in zip(overlaps, wpslor.extract(predictions, models.wpslor), strict=True)
    ]


def fit(
    predictions: Sequence[str],
    references: Sequence[Sequence[str]],
    models: Models,
    *,
    tokenizer: TokenizerName = "words",
    beta: float = BETA,
) -> Normalization:
    """The statistics of these texts, to score others with: fit on the pool of all systems, then score each of them."""
    fitted = fit_features(extract(predictions, references, models, tokenizer=tokenizer), models, beta=beta)
    if not fitted.texts:
        raise ValueError("`predictions` holds no text that is not empty, so there is nothing to fit statistics on.")
    return fitted


def fit_features(
    features: Sequence[Features], models: Models, *, beta: float = BETA, batch: bool = False
) -> Normalization:
    """The same for texts that were extracted already."""
    halves = [_halves(item, beta) for item in features]
    rouge, fluency = [overlap[rouge_l.NAME] for overlap, _ in halves], [value for _, value in halves]
    return Normalization.of(rouge, fluency, models.language_model, batch)


def choose_normalization(
    choice: Choice, features: Sequence[Features], models: Models, *, beta: float = BETA
) -> Normalization | None:
    """What `normalization=` means: "stored", "batch", a file that `save` wrote, a Normalization or its numbers.

    None, for stored statistics that there are not, is all right for a regression, which needs none.
    """
    if choice != "batch":
        return _given(choice, models)
    if len(features) < FEWEST_IN_BATCH:
        warnings.warn(
            f'normalization="batch" takes mean and standard deviation from {len(features)} texts; fewer than '
            f'{FEWEST_IN_BATCH} say little. Use the default, normalization="stored", or fit on more texts.',
            stacklevel=2,
        )
    return fit_features(features, models, beta=beta, batch=True)


def _given(choice: Choice, models: Models) -> Normalization | None:
    if choice == "stored":
        if models.normalization is None and models.regression is None:
            raise ValueError(_nothing_stored(models))
        return models.normalization
    if isinstance(choice, str | Path):
        if not Path(choice).is_file():
            raise ValueError(
                '`normalization` must be "stored", "batch" or a file that Normalization.save wrote, '
                f"got {str(choice)!r}."
            )
        choice = Normalization.load(choice)
    chosen = choice if isinstance(choice, Normalization) else Normalization(**choice)
    if chosen.language_model and chosen.language_model != models.language_model:
        warnings.warn(
            f"These statistics were fitted with the language model {chosen.language_model!r}, but "
            f"{models.language_model!r} is in use, whose WPSLOR is on another scale. Fit them anew.",
            stacklevel=3,
        )
    return chosen


def score(
    features: Features, models: Models, *, normalization: Normalization | None = None, beta: float = BETA
) -> dict[str, float]:
    """The formula; without a `normalization` the stored one counts. An empty text has ROUGE-L 0 and rouge_lm NaN."""
    overlap, fluency = _halves(features, beta)
    chosen = normalization or models.normalization
    z_rouge, z_wpslor = chosen.z_scores(overlap[rouge_l.NAME], fluency) if chosen else (math.nan, math.nan)
    if models.regression:
        combined = models.regression.predict(fluency, overlap[rouge_l.NAME])
    elif chosen:
        combined = z_rouge + z_wpslor
    else:
        raise ValueError(_nothing_stored(models))
    return {
        NAME: combined,
        rouge_l.NAME: overlap[rouge_l.NAME],
        wpslor.NAME: fluency,
        "z_rouge": z_rouge,
        "z_wpslor": z_wpslor,
        "best_reference": overlap["best_reference"],
    }


def aggregate(
    scores: Sequence[dict[str, float]], models: Models, normalization: Normalization | None = None
) -> dict[str, float]:
    """Means over the texts, and how many were empty.

    Under `batch` the mean of the sum is 0 by construction and says nothing: it is given as NaN, and the means of the
    halves are the result.
    """
    result = aggregation.mean(scores, (NAME, rouge_l.NAME, wpslor.NAME))
    if normalization and normalization.batch and not models.regression:
        result[NAME] = math.nan
    return {**result, "empty": float(sum(math.isnan(score[wpslor.NAME]) for score in scores))}


def explain(
    prediction: str,
    references: Sequence[str],
    models: Models,
    *,
    normalization: Choice = "stored",
    tokenizer: TokenizerName = "words",
    beta: float = BETA,
) -> Explanation:
    """The evidence behind the score of one text."""
    (features,) = extract([prediction], [references], models, tokenizer=tokenizer)
    chosen = choose_normalization(normalization, [features], models, beta=beta)
    result = score(features, models, normalization=chosen, beta=beta)
    best = references[int(result["best_reference"])]
    return Explanation(
        result,
        rouge_l.align(prediction, best, tokenizer=tokenizer),
        wpslor.Explanation(wpslor.score(features.wpslor), features.wpslor),
    )


def signature(
    models: Models,
    *,
    normalization: Choice = "stored",
    tokenizer: TokenizerName = "words",
    beta: float = BETA,
) -> str:
    """Everything that a score depends on, in one line to put beside it."""
    chosen = None if normalization == "batch" else _given(normalization, models)
    statistics = chosen.fingerprint if chosen else "batch" if normalization == "batch" else "none"
    combination = f"{SVR}@{models.regression.fingerprint}" if models.regression else "sum"
    return (
        f"{NAME}|combination:{combination}|normalization:{statistics}|tokenizer:{tokenizer}|beta:{beta:g}"
        f"|{wpslor.signature(models.wpslor)}"
    )


def _halves(features: Features, beta: float) -> tuple[dict[str, float], float]:
    return rouge_l.score(features.rouge_l, beta), wpslor.score(features.wpslor)[wpslor.NAME]


def _nothing_stored(models: Models) -> str:
    return (
        f"No statistics are stored for the language model {models.language_model!r}. Fit some, "
        'rouge_lm.fit(predictions, references, models), and pass them as `normalization`, or use normalization="batch".'
    )
