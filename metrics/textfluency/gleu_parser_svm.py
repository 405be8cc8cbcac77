"""gleu_parser_svm: how badly do parsers struggle with a sentence? (GLEU: Mutton, Dras, Wan & Dale 2007)

    GLEU(S) = w . x(S) + b

x are the parsers' judgements, each brought into [0, 1], and w, b come from a linear support vector machine that learned
to tell sentences of a newspaper from sentences glued together word by word. Above 0 a sentence reads like the former;
higher is better; there are no bounds. The paper's four judgements, and where ours come from:

    fragments               Connexor's fragments: our dependency tree's pieces, cut at attachments that are very rare
    parse_log_probability   Collins' best parse: the tree's log-probability by a head-driven model
    null_tokens             Link Grammar: words left out, by length
    invalid_parses          Link Grammar: share of parses that break its later rules

Neither the GLEU of grammatical error correction (Napoles et al. 2015) nor that of machine translation (Wu et al. 2016).
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from textfluency import __version__, aggregation, weights
from textfluency.normalization import Mode, normalize
from textfluency.parsing import dependency, head_driven, link_grammar
from textfluency.parsing.dependency import Parse
from textfluency.parsing.head_driven import TreeProbability
from textfluency.parsing.link_grammar import Judgement
from textfluency.sentences import sentences, words

NAME = "gleu_parser_svm"
CONFIGS = ("default", "paper")  # all judgements, or the paper's four
PAPER_JUDGEMENTS = ("fragments", "parse_log_probability", "null_tokens", "invalid_parses")
PAPER_LENGTH = 24  # tokens of every sentence in the paper, hence of the training data
DOUBTFUL_ARC = 0.5  # an arc to which the parser gives less probability is marked in explanations
STRICT_DISJUNCT_COST = 1.5  # Link Grammar's own bound lets almost everything parse


@dataclass(frozen=True)
class Dimension:
    """A judgement as the support vector machine sees it: (value - low) / (high - low), cut to [0, 1], times weight."""

    low: float
    high: float
    missing: float  # the training data's mean, for a sentence that has no value
    weight: float

    def normalized(self, value: float) -> float:
        value = self.missing if math.isnan(value) else value
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


@dataclass(frozen=True)
class Classifier:
    dimensions: dict[str, Dimension]
    bias: float
    link_grammar: str  # the version that the weights belong to

    def contributions(self, judgements: dict[str, float]) -> dict[str, float]:
        """What each judgement adds to the decision value; with the bias they sum up to it."""
        return {
            name: dimension.weight * dimension.normalized(judgements[name])
            for name, dimension in self.dimensions.items()
        }


@dataclass(frozen=True)
class Models:
    config: str
    parser: dependency.Parser
    tree_model: head_driven.HeadDrivenModel
    grammar: link_grammar.LinkGrammar
    classifier: Classifier


@dataclass(frozen=True)
class Sentence:
    """What the parsers make of one sentence."""

    text: str
    parse: Parse
    probability: TreeProbability
    linkage: Judgement
    strict_linkage: Judgement | None  # with STRICT_DISJUNCT_COST; `paper` does without

    @property
    def fragments(self) -> tuple[tuple[str, ...], ...]:
        """The pieces of the tree that hold together, in the order of their first words.

        A parser attaches everything somewhere. Connexor's grammar leaves alone what it has no rule for; we cut off what
        the treebanks have next to no example of. (Cutting the parser's doubtful arcs instead tells less.)
        """
        cut = set(self.probability.rare_attachments)
        pieces: dict[int, list[str]] = {}
        for position, word in enumerate(self.parse.words, start=1):
            top = position
            while top not in cut and self.parse.heads[top - 1]:
                top = self.parse.heads[top - 1]
            pieces.setdefault(top, []).append(word)
        return tuple(map(tuple, pieces.values()))


@dataclass(frozen=True)
class Features:
    sentences: tuple[Sentence, ...]


@dataclass(frozen=True)
class Explanation:
    """The evidence: each sentence's tree in pieces, the words left out, and what every judgement contributes."""

    score: dict[str, float]
    features: Features
    classifier: Classifier

    def __str__(self) -> str:
        lines = []
        for sentence in self.features.sentences:
            parse = sentence.parse
            lines += [sentence.text, "  fragments: " + " | ".join(map(" ".join, sentence.fragments))]
            lines.append("  left out by Link Grammar: " + (" ".join(sentence.linkage.skipped) or "nothing"))
            for word, tag, head, label, p in zip(
                parse.words, parse.tags, parse.heads, parse.labels, parse.arc_probabilities, strict=True
            ):
                above = parse.words[head - 1] if head else "-"
                lines.append(
                    f"  {word[:19]:<20}{tag:<6}{label:<14}{above[:19]:<20}{p:5.2f}{'  ?' * (p < DOUBTFUL_ARC)}"
                )
            judged = judgements(sentence)
            for name, share in self.classifier.contributions(judged).items():
                lines.append(f"  {name:<28}{judged[name]:10.3f}{share:+9.3f}")
            lines.append(f"  {'bias':<38}{self.classifier.bias:+9.3f}")
        lines.append("  ".join(f"{key} {value:.4g}" for key, value in self.score.items()))
        return "\n".join(lines)


def load(config: str = "default", *, parser: Path | str | None = None, workers: int = 0) -> Models:
    """`default` or `paper`; `parser` as in textfluency.parsing.dependency, `workers` as in link_grammar."""
    if config not in CONFIGS:
        raise ValueError(f"`config` must be one of {', '.join(map(repr, CONFIGS))}, got {config!r}.")
    return weights.load_once((NAME, config, str(parser), workers), lambda: _load(config, parser, workers))


def _load(config: str, parser: Path | str | None, workers: int) -> Models:
    classifier = load_classifier(weights.resolve(NAME) / f"{config}.json")
    models = load_parsers(config, classifier, parser=parser, workers=workers)
    if models.grammar.version != classifier.link_grammar:
        warnings.warn(
            f"{NAME} was trained with {classifier.link_grammar}, but {models.grammar.version} is installed: their "
            "dictionaries differ, so scores are not comparable. Train anew: python -m training.gleu_parser_svm.",
            stacklevel=5,  # the one who called load
        )
    return models


def load_parsers(config: str, classifier: Classifier, *, parser: Path | str | None = None, workers: int = 0) -> Models:
    return Models(
        config=config,
        parser=dependency.load(parser),
        tree_model=head_driven.load(),
        grammar=link_grammar.load(workers=workers),
        classifier=classifier,
    )


def load_classifier(file: Path) -> Classifier:
    stored = json.loads(file.read_text(encoding="utf-8"))
    dimensions = {name: Dimension(**constants) for name, constants in stored["dimensions"].items()}
    return Classifier(dimensions, stored["bias"], stored["link_grammar"])


def save_classifier(classifier: Classifier, file: Path) -> None:
    file.write_text(json.dumps(asdict(classifier), indent=1) + "\n", encoding="utf-8")


def extract(predictions: Sequence[str], models: Models, *, normalization: Mode = "auto") -> list[Features]:
    """Splits every text into sentences and has all parsers judge them."""
    split = [sentences(normalize(text, normalization)) for text in predictions]
    judged = iter(judge([sentence for group in split for sentence in group], models))
    return [Features(tuple(next(judged) for _ in group)) for group in split]


def judge(texts: Sequence[str], models: Models) -> list[Sentence]:
    """What all parsers make of each sentence."""
    parses = models.parser.parse([words(text) for text in texts])
    linkages = models.grammar.parse(texts)
    strict: Sequence[Judgement | None] = [None] * len(texts)
    if models.config == "default":
        strict = models.grammar.parse(texts, STRICT_DISJUNCT_COST)
    return list(map(Sentence, texts, parses, models.tree_model.score(parses), linkages, strict))


def judgements(sentence: Sentence) -> dict[str, float]:
    """What the parsers say about a sentence, in numbers; NaN where they say nothing.

    The paper counts fragments and probability by sentence, and all its sentences have 24 tokens. `default` counts cuts
    and probability by 24 words, which is the same there and fair to sentences of another length. What it has beyond
    the paper's four is what lowered the machine's loss in cross-validation of its training data.
    """
    probability, linkage, strict = sentence.probability, sentence.linkage, sentence.strict_linkage
    length = max(1, len(sentence.parse.words))
    scale = 1.0 if strict is None else PAPER_LENGTH / length
    result = {
        "fragments": 1 + (len(sentence.fragments) - 1) * scale,
        "parse_log_probability": probability.joint * scale,
        "null_tokens": linkage.null_share,
        "invalid_parses": linkage.invalid_share,
    }
    if strict is None:
        return result
    return result | {
        "words_given_tree": (probability.joint - probability.unigrams) / length,  # takes out rarity, as SLOR does
        "structure": probability.structure / length,
        "strict_null_tokens": strict.null_share,
        "strict_disjunct_cost": strict.disjunct_cost / length,
    }


def score(features: Features, classifier: Classifier) -> dict[str, float]:
    """The decision value and the paper's judgements in [0, 1], averaged over a text's sentences; NaN if it has none."""
    keys = (NAME, *PAPER_JUDGEMENTS)
    scores = []
    for sentence in features.sentences:
        judged = judgements(sentence)
        decision = math.fsum(classifier.contributions(judged).values()) + classifier.bias
        paper = [classifier.dimensions[name].normalized(judged[name]) for name in PAPER_JUDGEMENTS]
        scores.append(dict(zip(keys, (decision, *paper), strict=True)))
    timeouts = sum(sentence.linkage.timed_out for sentence in features.sentences)
    return {**aggregation.mean(scores, keys), "timeouts": float(timeouts)}


def with_constants_of(features: Sequence[Features], classifier: Classifier) -> Classifier:
    """The paper's own normalisation, by the extremes of the very data set: texts then depend on each other.

    The default keeps the training data's extremes, for then a text's score is its own.
    """
    rows = [judgements(sentence) for text in features for sentence in text.sentences]
    dimensions = dict(classifier.dimensions)
    if rows:
        most = max(row["fragments"] for row in rows)
        least = min(row["parse_log_probability"] for row in rows)
        dimensions["fragments"] = replace(dimensions["fragments"], high=most)
        dimensions["parse_log_probability"] = replace(dimensions["parse_log_probability"], low=least)
    return replace(classifier, dimensions=dimensions)


def aggregate(scores: Sequence[dict[str, float]]) -> dict[str, float]:
    """Means over the texts, the number of sentences that Link Grammar gave up, and the number of empty texts."""
    return {
        **aggregation.mean(scores, (NAME, *PAPER_JUDGEMENTS)),
        "timeouts": math.fsum(score["timeouts"] for score in scores),
        "empty": float(sum(math.isnan(score[NAME]) for score in scores)),
    }


def explain(text: str, models: Models, *, normalization: Mode = "auto") -> Explanation:
    """The evidence behind the score of one text."""
    (features,) = extract([text], models, normalization=normalization)
    return Explanation(score(features, models.classifier), features, models.classifier)


def signature(models: Models, *, normalization: Mode = "auto") -> str:
    """Everything that a score depends on, in one line to put beside it."""
    return (
        f"{NAME}|config:{models.config}|parser:{models.parser.name}|tree_model:{models.tree_model.name}"
        f"|{models.grammar.version}|normalize:{normalization}|version:{__version__}"
    )
