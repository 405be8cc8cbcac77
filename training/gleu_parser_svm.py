"""How gleu_parser_svm is trained and the paper's experiments are repeated (Mutton et al. 2007, sections 3 to 5).

    python -m training.gleu_parser_svm --corpus reuters.txt.xz --constituents gum_const_train.ptb.xz \
        --out metrics/textfluency/weights/gleu_parser_svm

Sentences of 24 tokens are made from a newspaper's: glued together from runs of 1, 2, 3, 4, 6 or 8 tokens, taken whole,
or written into structures (tags, supertags, rules). Parsers judge them; a linear support vector machine learns from
whole sentences against those of runs of 1; the report tells how well it, and each judgement alone, follows the run
length.
"""

from __future__ import annotations

import argparse
import json
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import compress, islice, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tqdm import tqdm

from textfluency import gleu_parser_svm as gleu
from textfluency.gleu_parser_svm import CONFIGS, NAME, PAPER_JUDGEMENTS, Classifier, Dimension, Models
from textfluency.normalization import normalize
from textfluency.parsing.dependency import Parse, Parser
from textfluency.sentences import WORD, sentences
from training.corpora import paragraphs
from training.head_driven_model import NOISE, is_reserved

LENGTH = gleu.PAPER_LENGTH  # tokens of every sentence; section 3.2
RUN_LENGTHS = (1, 2, 3, 4, 6, 8, 24)  # ibid.; 24 is a sentence as it was written
TRAINING_SENTENCES = 1000  # of run length 24, and as many of 1; section 4.1
HELD_OUT_SENTENCES = 150  # of each, for the accuracy; ibid.
DEVELOPMENT_SENTENCES = 300  # per method: how fragments are cut was chosen on them, so no number is reported on them
TEST_SENTENCES = 1000  # per run length and structural method; sections 4.2 and 5
FINAL_MARKS = (".", "?", "!")  # every printed sample ends in one and begins with a capital, so ours must
PARSED_SENTENCES = 4000  # teach the structural methods which words have which tag
WORDS_PER_TAG = 150  # most frequent ones; what Viterbi chooses from
PATHS = 20  # kept per position
BIGRAM_SHARE = 0.9  # of P(word | previous word); the rest is the word's own frequency
LONGEST_DERIVATION = 400  # rules; a derivation that goes on is given up
LOW, HIGH = 1, 99  # percentiles that become 0 and 1; not for the paper's own judgements
SENTENCES_AT_A_TIME = 50
SEED = 2007

PUBLISHED = {  # what the paper reports, to stand beside our numbers
    "accuracy": 0.81,
    "correlation_with_run_length": {
        NAME: 0.4144,
        "fragments": -0.2267,
        "parse_log_probability": 0.3086,
        "null_tokens": -0.3204,
        "invalid_parses": 0.1776,
    },
    "human_means": {"24": 0.93, "8": 0.67, "1": 0.44, "supertags": 0.44, "tags": 0.39, "rules": 0.31},
}

Dice = random.Random
Tokens = tuple[str, ...]  # each with the white space before it, so that joined they are the text again


# --- sentences glued together (section 3.2) --------------------------------------------------------------------------


class Newspaper:
    """What the tree model has not seen of a corpus, by sentences, and where each word occurs."""

    def __init__(self, files: Sequence[str]) -> None:
        self.sentences = [
            tokens(sentence)
            for paragraph in paragraphs(files)
            if NOISE not in paragraph and is_reserved(paragraph)
            for sentence in sentences(paragraph)
        ]
        self.places: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for number, sentence in enumerate(self.sentences):
            for position, token in enumerate(sentence):
                self.places[token.strip()].append((number, position))

    def whole_sentences(self) -> list[str]:
        """Each once, in a random order."""
        found = sorted({text(sentence) for sentence in self.sentences if is_presentable(sentence)})
        Dice(SEED).shuffle(found)
        return found

    def glued(self, run_length: int, dice: Dice) -> Iterator[str]:
        """Without end: runs whose first word follows the run before by the bigram distribution."""
        while True:
            result: list[str] = []
            word = dice.choice(self.sentences)[0].strip()
            while run := self._run(word, run_length, dice):
                result += run
                if len(result) == LENGTH:
                    if is_presentable(tuple(result)):
                        yield text(result)
                    break
                successor = self._run(run[-1].strip(), 2, dice)
                if not successor:
                    break
                word = successor[1].strip()

    def _run(self, word: str, length: int, dice: Dice) -> Tokens:
        """Uniformly one of the runs that begin with the word and stay within a sentence; none if hard to find."""
        for _ in range(20):
            number, position = dice.choice(self.places[word])
            run = self.sentences[number][position : position + length]
            if len(run) == length:
                return run
        return ()


def tokens(sentence: str) -> Tokens:
    """The words of a sentence with the space before each; the first gets one, for a run may begin with it."""
    found, end = [], 0
    for match in WORD.finditer(" " + sentence):
        found.append(f" {sentence}"[end : match.end()])
        end = match.end()
    return tuple(found)


def text(parts: Sequence[str]) -> str:
    return "".join(parts).strip()


def is_presentable(sentence: Sequence[str]) -> bool:
    """Whether it looks like one whole sentence, as all printed samples do."""
    first, last = sentence[0].strip(), sentence[-1].strip()
    whole = len(sentence) == LENGTH and first[:1].isupper() and last in FINAL_MARKS
    return whole and len(sentences(text(sentence))) == 1


# --- sentences written into structures (section 5) -------------------------------------------------------------------

Templates = Iterator[list[str]]  # of classes: one class of words per position


@dataclass(frozen=True)
class Lexicon:
    """Which words a class has, and which words follow which."""

    words: dict[str, Counter[str]]
    followers: dict[str, Counter[str]]
    frequencies: Counter[str]

    @classmethod
    def of(cls, parses: Sequence[Parse], classes: Callable[[Parse], Sequence[str]]) -> Lexicon:
        by_class: dict[str, Counter[str]] = defaultdict(Counter)
        followers: dict[str, Counter[str]] = defaultdict(Counter)
        for parse in parses:
            for word, kind in zip(parse.words, classes(parse), strict=True):
                by_class[kind][word] += 1
            for word, successor in pairwise(parse.words):
                followers[word][successor] += 1
        frequencies = Counter(word for parse in parses for word in parse.words)
        return cls({kind: Counter(dict(found.most_common(WORDS_PER_TAG))) for kind, found in by_class.items()},
                   followers, frequencies)  # fmt: skip

    def fill(self, template: Sequence[str], dice: Dice) -> list[str] | None:
        """The words w that maximise the product of P(w | class) P(w | word before), none twice; the first is drawn."""
        if not all(self.words.get(kind) for kind in template):
            return None
        first = self.words[template[0]]
        paths = [(0.0, [dice.choices(list(first), weights=list(first.values()))[0]])]
        total = self.frequencies.total()
        for kind in template[1:]:
            choices, size = self.words[kind], self.words[kind].total()
            best: dict[str, tuple[float, list[str]]] = {}
            for probability, path in paths:
                followers = self.followers[path[-1]]
                seen = max(1, followers.total())
                for word, count in choices.items():
                    if word in path and word[0].isalnum():
                        continue
                    bigram = BIGRAM_SHARE * followers[word] / seen + (1 - BIGRAM_SHARE) * self.frequencies[word] / total
                    value = probability + math.log(count / size) + math.log(bigram)
                    if word not in best or value > best[word][0]:
                        best[word] = (value, [*path, word])
            paths = sorted(best.values(), reverse=True)[:PATHS]
            if not paths:
                return None
        return paths[0][1]


def tags(parse: Parse) -> Sequence[str]:
    return parse.tags


def supertags(parse: Parse) -> list[str]:
    """A stand-in for supertags: a word's tag, its relation, and on which side its head is."""
    return [
        f"{tag} {label} {'root' if not head else 'left' if head < position else 'right'}"
        for position, (tag, label, head) in enumerate(zip(parse.tags, parse.labels, parse.heads, strict=True), start=1)
    ]


def sequence_templates(rows: Sequence[Sequence[str]], dice: Dice) -> Templates:
    """Sequences of classes by their bigrams, from a sentence's start to its end, those of the right length."""
    successors: dict[str, list[str]] = defaultdict(list)
    for row in rows:
        for before, after in pairwise(["<s>", *row, "</s>"]):
            successors[before].append(after)
    while True:
        template = ["<s>"]
        while template[-1] != "</s>" and len(template) <= LENGTH + 1:
            template.append(dice.choice(successors[template[-1]]))
        if len(template) == LENGTH + 2 and template[-1] == "</s>":
            yield template[1:-1]


def rule_templates(file: str, dice: Dice) -> Templates:
    """Sequences of tags by the rules of a treebank's trees, those of the right length."""
    from nltk import Tree

    rules: dict[str, list[tuple[str, ...]]] = defaultdict(list)
    for tree in (Tree.fromstring(block) for block in bracketed(file)):
        for node in tree.subtrees(lambda node: node.height() > 2):
            rules[node.label()].append(tuple(child.label() for child in node if isinstance(child, Tree)))
        rules["<s>"].append((tree.label(),))
    while True:
        template: list[str] = []
        pending = ["<s>"]
        for _ in range(LONGEST_DERIVATION):
            if not pending or len(template) > LENGTH:
                break
            symbol = pending.pop()
            if symbol in rules:
                pending += reversed(dice.choice(rules[symbol]))
            else:
                template.append(symbol)
        if not pending and len(template) == LENGTH:
            yield template


def bracketed(file: str) -> Iterator[str]:
    """The trees of a file in brackets, one or several lines each."""
    block, depth = "", 0
    for line in paragraphs([file]):
        block += line + " "
        depth += line.count("(") - line.count(")")
        if depth == 0:
            yield block
            block = ""


def written(templates: Templates, lexicon: Lexicon, dice: Dice) -> Iterator[str]:
    for template in templates:
        if filled := lexicon.fill(template, dice):
            sentence = normalize(" ".join(filled))
            if len(sentences(sentence)) == 1:
                yield sentence[:1].upper() + sentence[1:]


# --- the data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Example:
    part: str  # train, held_out, development or test
    method: str  # a run length or a structural method
    text: str


def examples(newspaper: Newspaper, parser: Parser, constituents: str | None, per_method: int) -> list[Example]:
    whole = iter(newspaper.whole_sentences())
    streams: dict[str, Iterator[str]] = {
        str(length): whole if length == LENGTH else newspaper.glued(length, Dice(f"{SEED} {length}"))
        for length in RUN_LENGTHS
    }
    some = Dice(SEED).sample(newspaper.sentences, min(PARSED_SENTENCES, len(newspaper.sentences)))
    parses = parser.parse([[token.strip() for token in sentence] for sentence in some])
    for method, classes in (("tags", tags), ("supertags", supertags)):
        dice = Dice(f"{SEED} {method}")
        templates = sequence_templates([classes(parse) for parse in parses], dice)
        streams[method] = written(templates, Lexicon.of(parses, classes), dice)
    if constituents:
        dice = Dice(f"{SEED} rules")
        streams["rules"] = written(rule_templates(constituents, dice), Lexicon.of(parses, tags), dice)
    result = []
    for method, stream in streams.items():
        sizes = {"development": DEVELOPMENT_SENTENCES, "test": per_method}
        if method in ("1", str(LENGTH)):
            sizes = {"train": TRAINING_SENTENCES, "held_out": HELD_OUT_SENTENCES, **sizes}
        for part, size in sizes.items():
            result += [Example(part, method, text) for text in islice(stream, size)]
    return [example for example in result if example.part != "development"]


def judged(data: Sequence[Example], models: Models, file: Path) -> dict[str, list[dict[str, float]]]:
    """The judgements of each example, by config; kept in a file, so an interrupted run goes on where it stopped."""
    known: dict[str, dict[str, dict[str, float]]] = {}
    if file.exists():
        known = dict(json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    unknown = list(dict.fromkeys(example.text for example in data if example.text not in known))
    with file.open("a", encoding="utf-8") as lines, tqdm(total=len(unknown), desc="judging", unit=" sentences") as bar:
        for first in range(0, len(unknown), SENTENCES_AT_A_TIME):
            for sentence in gleu.judge(unknown[first : first + SENTENCES_AT_A_TIME], models):
                known[sentence.text] = {
                    "default": gleu.judgements(sentence),
                    "paper": gleu.judgements(replace(sentence, strict_linkage=None)),
                }
                lines.write(json.dumps([sentence.text, known[sentence.text]]) + "\n")
                bar.update()
            lines.flush()
    return {config: [known[example.text][config] for example in data] for config in CONFIGS}


# --- learning and measuring ------------------------------------------------------------------------------------------


def dimension(name: str, values: NDArray[np.float64]) -> Dimension:
    """The training data's constants of one judgement, without its weight. The paper's own are normalised as there."""
    present = values[~np.isnan(values)]
    if name == "fragments":
        low, high = 0.0, float(present.max())
    elif name == "parse_log_probability":
        low, high = float(present.min()), 0.0  # 1 - lp / lp_min, that is, higher is better, as table 6 has it
    elif name in PAPER_JUDGEMENTS:
        low, high = 0.0, 1.0
    else:
        low, high = (float(bound) for bound in np.percentile(present, (LOW, HIGH)))
    return Dimension(low, max(high, low + 1e-9), float(present.mean()), weight=0.0)


def matrix(rows: Sequence[dict[str, float]], dimensions: dict[str, Dimension]) -> NDArray[np.float64]:
    return np.array([[constants.normalized(row[name]) for name, constants in dimensions.items()] for row in rows])


def fitted(
    rows: Sequence[dict[str, float]], fluent: NDArray[np.bool_], names: Sequence[str], version: str
) -> Classifier:
    """SVM-light's defaults, which the paper does not say it changed: a linear kernel and C = 1 / mean(x . x)."""
    from sklearn.svm import SVC

    dimensions = {name: dimension(name, np.array([row[name] for row in rows])) for name in names}
    vectors = matrix(rows, dimensions)
    machine = SVC(kernel="linear", C=1 / (vectors**2).sum(axis=1).mean()).fit(vectors, fluent)
    weighted = {
        name: Dimension(constants.low, constants.high, constants.missing, float(weight))
        for (name, constants), weight in zip(dimensions.items(), machine.coef_[0], strict=True)
    }
    return Classifier(weighted, float(machine.intercept_[0]), version)


def decisions(classifier: Classifier, rows: Sequence[dict[str, float]]) -> NDArray[np.float64]:
    weights = np.array([constants.weight for constants in classifier.dimensions.values()])
    values: NDArray[np.float64] = matrix(rows, classifier.dimensions) @ weights + classifier.bias
    return values


def measured(classifier: Classifier, data: Sequence[Example], rows: Sequence[dict[str, float]]) -> dict[str, Any]:
    """The paper's three experiments: accuracy, correlation with the run length, and means by method."""
    values = decisions(classifier, rows)
    parts = np.array([example.part for example in data])
    methods = np.array([example.method for example in data])
    held_out = parts == "held_out"
    accuracy = np.mean((values[held_out] > 0) == (methods[held_out] == str(LENGTH)))
    tested = parts == "test"
    by_length = tested & np.isin(methods, [str(length) for length in RUN_LENGTHS])
    lengths = methods[by_length].astype(float)
    columns = matrix(rows, classifier.dimensions)[by_length]
    ends = tested & np.isin(methods, ["1", str(LENGTH)])
    return {
        "accuracy": round(float(accuracy), 4),
        "accuracy_on_test": round(float(np.mean((values[ends] > 0) == (methods[ends] == str(LENGTH)))), 4),
        "correlation_with_run_length": {
            NAME: correlation(values[by_length], lengths),
            **{name: correlation(columns[:, index], lengths) for index, name in enumerate(classifier.dimensions)},
        },
        "means": {
            method: round(float(values[tested & (methods == method)].mean()), 4)
            for method in dict.fromkeys(methods[tested].tolist())
        },
    }


def correlation(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    return round(float(np.corrcoef(first, second)[0, 1]), 4)


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--corpus", nargs="+", required=True, metavar="FILE", help="news, one paragraph per line")
    command.add_argument("--constituents", metavar="FILE", help="treebank in brackets, for sentences by rules")
    command.add_argument("--test-sentences", type=int, default=TEST_SENTENCES, help="per method (default: %(default)s)")
    command.add_argument("--workers", type=int, default=0, help="processes for Link Grammar (default: this one)")
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the weights go")
    command.add_argument("--work", type=Path, metavar="FOLDER", help="judgements so far (default: OUT/work)")
    options = command.parse_args()
    torch.set_num_threads(1)
    work = options.work or options.out / "work"
    options.out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)

    models = gleu.load_parsers("default", Classifier({}, 0.0, ""), workers=options.workers)
    data = examples(Newspaper(options.corpus), models.parser, options.constituents, options.test_sentences)
    rows = judged(data, models, work / "judgements.jsonl")
    report: dict[str, Any] = {
        "published": PUBLISHED,
        "signature": gleu.signature(models),
        "examples": dict(Counter(f"{example.part} {example.method}" for example in data)),
    }
    in_training = [example.part == "train" for example in data]
    fluent = np.array([example.method == str(LENGTH) for example in compress(data, in_training)])
    for config in CONFIGS:
        training = list(compress(rows[config], in_training))
        classifier = fitted(training, fluent, list(training[0]), models.grammar.version)
        gleu.save_classifier(classifier, options.out / f"{config}.json")
        report[config] = measured(classifier, data, rows[config])
    samples = {example.method: example.text for example in data if example.part == "test"}
    (options.out / "report.json").write_text(
        json.dumps(report | {"samples": samples}, indent=1) + "\n", encoding="utf-8"
    )
    print(json.dumps({config: report[config] for config in CONFIGS}, indent=1))


if __name__ == "__main__":
    main()
