"""Tree accuracy: does a generated sentence have the words of its reference in an order that the syntax allows?

    simple accuracy     = 1 - (S + I + D) / R
    generation accuracy = 1 - (S + I' + D' + M) / R      with I' = I - M, D' = D - M

S, I, D are the substitutions, insertions and deletions of a weighted alignment with the reference, R its number of
tokens. M counts moves: a token deleted in one place and inserted in another is one error, not two. The string
accuracies align the two strings. The tree accuracies align treelets, one for each word with dependents in the tree of
the reference: the word and its dependents in the order of the reference, and in the order of the prediction. An order
that keeps phrases together thus costs little, and one that tears them apart costs in every treelet it tears.

    understandability = (1.3147 simple tree - 0.1039 S - 0.4458) / 0.8689
    quality           = (1.0192 simple tree - 0.0869 S - 0.3553) / 0.6639

are the paper's regressions on human judgements, with S of the string alignment.

How to read the values: 1 is a perfect copy; nothing is above 1; a bad sentence can be below 0. An ordering baseline of
the paper has simple tree accuracy 0.41, its best system 0.65. `tree_accuracy`, the headline, is the simple tree
accuracy, which agreed best with the judges.

Source: Bangalore, Rambow & Whittaker 2000, Evaluation Metrics for Generation, INLG (https://aclanthology.org/W00-1401).

>>> reference, heads = "There was no cost estimate for the second phase", [5, 5, 5, 5, 0, 5, 9, 9, 6]
>>> prediction = "There was estimate for phase the second no cost"
>>> features = extract([prediction], [reference], Models(), trees=[heads])[0]
>>> features.string
Counts(substitutions=1, insertions=2, deletions=2, moves=1)
>>> {name: round(value, 4) for name, value in score(features).items()}["tree_accuracy"]
0.3333
"""

from __future__ import annotations

import functools
import math
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from textfluency import __version__, weights
from textfluency.alignment import (
    SUBSTITUTION,
    SYMBOLS,
    Alignment,
    Costs,
    Counts,
    Encoded,
    Integers,
    Path,
    align_encoded,
    check_costs,
    count_operations,
    encode,
)
from textfluency.sentences import words

Parser = Callable[[list[list[str]]], list[list[int]]]
Tokenizer = Callable[[str], list[str]]
Text = str | Sequence[str]  # a string to tokenise, or its tokens


class Regression(NamedTuple):
    """A fit of human judgements, each number as printed in the paper."""

    simple_tree: float
    substitutions: float
    length: float
    intercept: float
    divisor: float


# Bangalore, Rambow & Whittaker 2000: the fits on human judgements, scaled so that a perfect sentence has 1.
UNDERSTANDABILITY = Regression(1.3147, -0.1039, 0.0, -0.4458, 0.8689)
QUALITY = Regression(1.0192, -0.0869, 0.0, -0.3553, 0.6639)
# The paper's fits that include sentence length, for which we take R, the tokens of the reference.
NORMALIZED_UNDERSTANDING = Regression(1.4728, -0.1015, -0.0228, -0.2127, 1.0)
NORMALIZED_QUALITY = Regression(1.2134, -0.0839, -0.0280, -0.0689, 1.0)

POSITION_WEIGHT = 1e-6  # ours: among equally good places for a repeated word, the one nearest to where it stood
LARGEST_TABLE = 200_000_000  # cells of one alignment, some 3 GB
TOKENS_PER_BLOCK = 250_000  # texts counted together; bounds the memory
CONFIGS = ("default", "string")


@dataclass(frozen=True)
class Models:
    """`parser` gives, for token lists, the head of each token (from 1, 0 = root); None: trees come with the call."""

    parser: Parser | None = None
    parser_name: str = "none"
    strings_only: bool = False


@dataclass(frozen=True)
class Features:
    """The operations of a prediction against its best reference, in the paper's terms."""

    string: Counts
    tree: Counts | None  # None: strings only
    reference_length: int  # R
    prediction_length: int
    reference_index: int = 0  # which of its references is the best


def load(config: str = "default") -> Models:
    """`default` parses references that come without trees; `string` never parses and has string accuracies only."""
    if config == "string":
        return Models(strings_only=True)
    if config != "default":
        raise ValueError(f"config={config!r} is not known. Configs: {', '.join(CONFIGS)}.")
    from textfluency.parsing import dependency

    parser = weights.load_once(("dependency parser", str(weights.resolve("parser"))), dependency.load)
    return Models(parser.heads, parser.name)


def extract(
    predictions: Sequence[Text],
    references: Sequence[Text | Sequence[Text]],
    models: Models,
    trees: Sequence[Any] | None = None,
    tokenizer: Tokenizer = words,
    costs: Sequence[int] = Costs(),
) -> list[Features]:
    """The counts of each prediction against the reference where it scores best (the first, if equal).

    predictions: strings or token lists.
    references: per prediction a string or a list of strings; or, tokenised, a list of token lists. Beside a tokenised
        prediction a plain list of strings is the tokens of one reference.
    trees: per prediction a list with the tree of each reference, or just the tree if there is one reference. A tree is
        a list of heads, one per token of the reference (from 1, 0 = root), or a string in CoNLL-U. CoNLL-U brings its
        own tokens: its words replace the tokens of the reference, and its text must be that of the reference, white
        space aside. Instead of a tree, None has the parser of `models` parse the reference, as does `trees=None`.
    tokenizer: splits strings; case and everything else stay as they are.
    costs: of a substitution, an insertion, a deletion.
    """
    checked_costs = check_costs(costs)
    if models.strings_only and trees is not None:
        raise ValueError(
            "trees: the config 'string' has no tree scores. Leave out `trees`, or use the config 'default'."
        )
    candidates = _candidates(predictions, references, trees, functools.lru_cache(maxsize=None)(tokenizer))
    if not models.strings_only:
        candidates = _with_trees(candidates, models.parser)
    features = _count(candidates, checked_costs)
    if len(features) == len(predictions):
        return features
    best: list[Features | None] = [None] * len(predictions)
    for candidate, found in zip(candidates, features, strict=True):
        rival = best[candidate.prediction_index]
        if rival is None or _error_rate(found) < _error_rate(rival):
            best[candidate.prediction_index] = found
    return [found for found in best if found is not None]


def score(features: Features, regressions: bool = False) -> dict[str, float]:
    """The accuracies of one prediction; with `regressions` also the two fits that include sentence length."""
    string, tree, length = features.string, features.tree, features.reference_length
    return _scores(
        1 - string.errors / length,
        1 - string.errors_with_moves / length,
        None if tree is None else (1 - tree.errors / length, 1 - tree.errors_with_moves / length),
        string.substitutions,
        length,
        regressions,
    )


def aggregate(features: Sequence[Features], aggregation: str = "mean", regressions: bool = False) -> dict[str, float]:
    """`mean`: the mean over predictions, as in the paper. `pooled`: accuracies are 1 - all errors / all tokens.

    Pooled regressions take the pooled simple tree accuracy and the mean number of substitutions and tokens.
    """
    if aggregation not in ("mean", "pooled"):
        raise ValueError(f"aggregation={aggregation!r} is not known. Aggregations: mean, pooled.")
    if not features:
        raise ValueError("features is empty, and nothing has no accuracy. Give at least one prediction.")
    trees = [found.tree for found in features if found.tree is not None]
    if trees and len(trees) < len(features):
        raise ValueError("features: some have tree counts and some do not. Extract all of them with the same models.")
    if aggregation == "mean":
        single = [score(found, regressions) for found in features]
        return {key: math.fsum(scores[key] for scores in single) / len(single) for key in single[0]}
    strings = [found.string for found in features]
    length = sum(found.reference_length for found in features)
    tree_accuracies = (
        1 - sum(tree.errors for tree in trees) / length,
        1 - sum(tree.errors_with_moves for tree in trees) / length,
    )
    return _scores(
        1 - sum(string.errors for string in strings) / length,
        1 - sum(string.errors_with_moves for string in strings) / length,
        tree_accuracies if trees else None,
        sum(string.substitutions for string in strings) / len(features),
        length / len(features),
        regressions,
    )


def signature(
    models: Models, tokenizer: Tokenizer = words, costs: Sequence[int] = Costs(), aggregation: str = "mean"
) -> str:
    """Everything that a score depends on, in one line to put beside it."""
    tokenizer_name = getattr(tokenizer, "__name__", type(tokenizer).__name__)
    return (
        f"tree_accuracy|parser:{models.parser_name}|tokenizer:{tokenizer_name}"
        f"|costs:{','.join(map(str, costs))}|aggregation:{aggregation}|version:{__version__}"
    )


def _scores(
    simple_string: float,
    generation_string: float,
    trees: tuple[float, float] | None,
    substitutions: float,
    length: float,
    regressions: bool,
) -> dict[str, float]:
    strings = {"simple_string_accuracy": simple_string, "generation_string_accuracy": generation_string}
    if trees is None:
        return strings
    simple_tree, generation_tree = trees
    scores = {
        "tree_accuracy": simple_tree,
        **strings,
        "simple_tree_accuracy": simple_tree,
        "generation_tree_accuracy": generation_tree,
        "understandability": _predict(UNDERSTANDABILITY, simple_tree, substitutions, length),
        "quality": _predict(QUALITY, simple_tree, substitutions, length),
    }
    if regressions:
        scores["normalized_understanding"] = _predict(NORMALIZED_UNDERSTANDING, simple_tree, substitutions, length)
        scores["normalized_quality"] = _predict(NORMALIZED_QUALITY, simple_tree, substitutions, length)
    return scores


def _predict(fit: Regression, simple_tree: float, substitutions: float, length: float) -> float:
    value = fit.simple_tree * simple_tree + fit.substitutions * substitutions + fit.length * length + fit.intercept
    return value / fit.divisor


def _error_rate(features: Features) -> float:
    """What the headline score of a prediction subtracts from 1."""
    counts = features.string if features.tree is None else features.tree
    return counts.errors / features.reference_length


# Reading the input.


class _Candidate(NamedTuple):
    """A prediction beside one of its references."""

    prediction: list[str]
    reference: list[str]
    heads: list[int] | None
    prediction_index: int
    reference_index: int

    @property
    def name(self) -> str:
        return f"[{self.prediction_index}][{self.reference_index}]"


def _candidates(
    predictions: Sequence[Text], references: Sequence[Any], trees: Sequence[Any] | None, tokenizer: Tokenizer
) -> list[_Candidate]:
    for name, given in (("predictions", predictions), ("references", references), ("trees", trees)):
        if isinstance(given, str) or (given is not None and not hasattr(given, "__len__")):
            raise TypeError(f"{name} must be a list with one entry per prediction, not {_short(given)}. Write [...].")
        if given is not None and len(given) != len(predictions):
            raise ValueError(
                f"{name} has {len(given)} entries and predictions has {len(predictions)}. Give one per prediction."
            )
    candidates = []
    for index, (prediction, own_references) in enumerate(zip(predictions, references, strict=True)):
        predicted = _tokens(prediction, tokenizer, "predictions", index)
        if isinstance(own_references, str) or (not isinstance(prediction, str) and _is_flat(own_references)):
            own_references = [own_references]
        if not hasattr(own_references, "__len__") or len(own_references) == 0:
            raise ValueError(
                f"references[{index}] must be a string or a list of at least one, not {_short(own_references)}."
            )
        own_trees = _own_trees(trees, index, len(own_references))
        for number, (reference, tree) in enumerate(zip(own_references, own_trees, strict=True)):
            tokens = _tokens(reference, tokenizer, "references", index, number)
            heads = None
            if tree is not None:
                tokens, heads = _read_tree(tree, reference, tokens, f"[{index}][{number}]")
            if not tokens:
                raise ValueError(
                    f"references[{index}][{number}] is empty ({_short(reference)}), so there is nothing to compare "
                    f"predictions[{index}] with. Give a reference with words, or leave this prediction out."
                )
            if len(predicted) * len(tokens) > LARGEST_TABLE:
                raise ValueError(
                    f"predictions[{index}] has {len(predicted)} tokens and references[{index}][{number}] has "
                    f"{len(tokens)}, which is too long to align. Split them into sentences or paragraphs."
                )
            candidates.append(_Candidate(predicted, tokens, heads, index, number))
    return candidates


def _tokens(text: Text, tokenizer: Tokenizer, *place: str | int) -> list[str]:
    if isinstance(text, str):
        return tokenizer(text)
    if hasattr(text, "__len__"):
        tokens = list(text)
        if all(isinstance(token, str) for token in tokens):
            return tokens
    name, *indices = place
    raise TypeError(
        f"{name}{''.join(f'[{index}]' for index in indices)} must be a string or a list of tokens (strings), "
        f"not {_short(text)}."
    )


def _is_flat(texts: Any) -> bool:
    return hasattr(texts, "__len__") and all(isinstance(text, str) for text in texts)


def _own_trees(trees: Sequence[Any] | None, index: int, references: int) -> Sequence[Any]:
    own: Any = None if trees is None else trees[index]
    if own is None:
        return [None] * references
    if isinstance(own, str) or (hasattr(own, "__len__") and len(own) > 0 and isinstance(own[0], Integral)):
        own = [own]
    if not hasattr(own, "__len__") or len(own) != references:
        raise ValueError(
            f"trees[{index}] must hold one tree for each of the {references} references of predictions[{index}], "
            f"not {_short(own)}. A tree is a list of heads or a CoNLL-U string."
        )
    return list(own)


def _read_tree(tree: Any, reference: Text, tokens: list[str], name: str) -> tuple[list[str], list[int]]:
    """The tokens and heads of a reference; whether the heads form a tree is checked later, for all at once."""
    if isinstance(tree, str):
        surface, tokens, heads = _read_conllu(tree, name)
        text = reference if isinstance(reference, str) else "".join(reference)
        if "".join(surface.split()) != "".join(text.split()):
            raise ValueError(
                f"trees{name} is CoNLL-U of another text ({_short(surface)}) than references{name} ({_short(text)}). "
                f"Give the tree of this reference; only white space may differ."
            )
        return tokens, heads
    try:
        heads = list(map(operator.index, tree))
    except TypeError:
        raise TypeError(
            f"trees{name} must be a list of whole numbers or a CoNLL-U string, not {_short(tree)}. "
            f"Give for each token the number of its head, from 1, with 0 for the root."
        ) from None
    _check_length(heads, tokens, f"trees{name}", f"references{name}")
    return tokens, heads


def _read_conllu(text: str, name: str) -> tuple[str, list[str], list[int]]:
    """The surface text, the words and their heads. Sentences follow one another as trees of one forest."""
    surface: list[str] = []
    forms: list[str] = []
    heads: list[int] = []
    sentence_start = 0
    inside_token = 0  # words still to come that an earlier line such as "3-4 don't" has spelt already
    for line in text.splitlines():
        if not line.strip():
            sentence_start = len(forms)
            continue
        if line.startswith("#"):
            continue
        columns = line.split("\t")
        if len(columns) != 10:
            raise ValueError(
                f"trees{name}: the CoNLL-U line {_short(line)} has {len(columns)} columns. Write 10, divided by tabs."
            )
        number, form, head = columns[0], columns[1], columns[6]
        if "." in number:  # an empty node, which is no word of the text
            continue
        if "-" in number:
            first, last = number.split("-")
            inside_token = int(last) - int(first) + 1 if first.isdecimal() and last.isdecimal() else 0
            surface.append(form)
            continue
        if not head.isdecimal():
            raise ValueError(
                f"trees{name}: HEAD of the CoNLL-U line {_short(line)} is not a number. Write 0 for a root."
            )
        if inside_token:
            inside_token -= 1
        else:
            surface.append(form)
        forms.append(form)
        heads.append(int(head) + sentence_start if int(head) else 0)
    return "".join(surface), forms, heads


def _with_trees(candidates: list[_Candidate], parser: Parser | None) -> list[_Candidate]:
    """The candidates with checked trees; references that came without one are parsed together, each once."""
    _check_trees([candidate for candidate in candidates if candidate.heads is not None], "trees")
    bare = [candidate for candidate in candidates if candidate.heads is None]
    if not bare:
        return candidates
    if parser is None:
        raise ValueError(
            "trees: tree scores need the dependency tree of each reference, and no parser is installed. "
            "Give `trees`, for each reference its heads (from 1, 0 = root) or CoNLL-U; "
            "or use the config 'string', which has string accuracies only."
        )
    sentences = list(dict.fromkeys(tuple(candidate.reference) for candidate in bare))
    parsed = dict(zip(sentences, parser([list(tokens) for tokens in sentences]), strict=True))
    for candidate in bare:
        heads, reference = parsed[tuple(candidate.reference)], f"references{candidate.name}"
        _check_length(heads, candidate.reference, f"the parser's tree of {reference}", reference)
    _check_trees(
        [candidate._replace(heads=parsed[tuple(candidate.reference)]) for candidate in bare],
        "the parser's tree of references",
    )
    return [
        candidate if candidate.heads is not None else candidate._replace(heads=parsed[tuple(candidate.reference)])
        for candidate in candidates
    ]


def _check_length(heads: list[int], tokens: list[str], tree: str, reference: str) -> None:
    if len(heads) != len(tokens):
        raise ValueError(
            f"{tree} has {len(heads)} heads and {reference} has {len(tokens)} tokens: {_short(tokens)}. "
            f"Give one head per token, or the reference as a list of the tokens that the tree is about."
        )


def _check_trees(candidates: list[_Candidate], what: str) -> None:
    """Heads in range, at least one root, no cycle."""
    if not candidates:
        return
    trees = _encode_heads(candidates)
    lengths = trees.lengths[trees.owners]
    _refuse(
        candidates,
        what,
        trees.owners[(trees.ids < 0) | (trees.ids > lengths)],
        "has a head that is no token of its reference. Heads count from 1; 0 is the root",
    )
    parents = _parents(trees)
    has_root = np.zeros(len(candidates), np.bool_)
    has_root[trees.owners[parents < 0]] = True
    _refuse(candidates, what, np.flatnonzero(~has_root), "has no root. Give one word the head 0")
    # Each round doubles the distance that a node has gone up; without cycles all arrive at a root.
    ancestors = np.where(parents < 0, np.arange(len(parents)), parents)
    for _ in range(int(trees.lengths.max()).bit_length()):
        ancestors = ancestors[ancestors]
    _refuse(
        candidates,
        what,
        trees.owners[parents[ancestors] >= 0],
        "has a cycle: some words are their own ancestors. Every word must lead up to a root",
    )


def _refuse(candidates: list[_Candidate], what: str, offenders: Integers, problem: str) -> None:
    if len(offenders):
        candidate = candidates[int(offenders.min())]
        raise ValueError(f"{what}{candidate.name} {problem}: {_short(candidate.heads)}.")


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


# Counting, for many texts at once: all tokens stand end to end in flat arrays, and a node is an index into them.


class _Groups(NamedTuple):
    """Members with equal keys side by side: group g is `members[starts[g] : starts[g] + sizes[g]]`, ascending."""

    keys: Integers
    starts: Integers
    sizes: Integers
    members: Integers


class _Analysis(NamedTuple):
    """What a block of candidates was found to be. Places are indices into all tokens of all predictions."""

    operations: list[str]
    string: Integers  # one row of Counts per candidate
    tree: Integers | None
    treelets: _Groups | None
    places: Integers  # of each node in the prediction, -1: missing
    replaced: NDArray[np.bool_]  # nodes whose place holds another word


def _count(candidates: list[_Candidate], costs: Costs) -> list[Features]:
    # A copy of the reference has no errors; everything else is counted in blocks.
    strings: list[Counts] = [Counts()] * len(candidates)
    trees: list[Counts | None] = [None if candidate.heads is None else Counts() for candidate in candidates]
    changed = [index for index, candidate in enumerate(candidates) if candidate.prediction != candidate.reference]
    for block in _blocks(candidates, changed):
        analysis = _analyse([candidates[index] for index in block], costs)
        for index, counts in zip(block, analysis.string.tolist(), strict=True):
            strings[index] = Counts._make(counts)
        for index, counts in zip(block, [] if analysis.tree is None else analysis.tree.tolist(), strict=False):
            trees[index] = Counts._make(counts)
    return [
        Features(string, tree, len(candidate.reference), len(candidate.prediction), candidate.reference_index)
        for candidate, string, tree in zip(candidates, strings, trees, strict=True)
    ]


def _blocks(candidates: list[_Candidate], indices: list[int]) -> Iterator[list[int]]:
    block: list[int] = []
    tokens = 0
    for index in indices:
        block.append(index)
        tokens += len(candidates[index].prediction) + len(candidates[index].reference)
        if tokens > TOKENS_PER_BLOCK:
            yield block
            block, tokens = [], 0
    if block:
        yield block


def _analyse(candidates: list[_Candidate], costs: Costs) -> _Analysis:
    references, predictions = encode(
        [candidate.reference for candidate in candidates], [candidate.prediction for candidate in candidates]
    )
    operations = align_encoded(references, predictions, costs)
    path = Path.of(operations)
    string = count_operations(references, predictions, path)
    places = np.full(len(references.ids), -1)
    replaced = np.zeros(len(places), np.bool_)
    if candidates[0].heads is None:
        return _Analysis(operations, string, None, None, places, replaced)
    parents = _parents(_encode_heads(candidates))
    treelets = _treelets(references, parents)
    _place_nodes(places, references, predictions, parents, treelets)
    _place_replaced(places, replaced, path, len(predictions.ids))
    tree = _count_treelets(references, predictions, treelets, places, replaced, costs)
    return _Analysis(operations, string, tree, treelets, places, replaced)


def _encode_heads(candidates: list[_Candidate]) -> Encoded:
    lists = [candidate.heads or [] for candidate in candidates]
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return Encoded(np.fromiter(chain.from_iterable(lists), np.int64, int(lengths.sum())), lengths)


def _parents(trees: Encoded) -> Integers:
    """Of each node the node above it, -1 for roots."""
    return np.where(trees.ids == 0, -1, trees.ids - 1 + trees.starts[trees.owners])


def _group(keys: Integers, members: Integers) -> _Groups:
    # Sorting one number made of both takes a third of the time of a sort by two.
    span = int(members.max(initial=0)) + 1
    both, members = np.divmod(np.sort(keys * span + members), span)
    starts = np.flatnonzero(np.concatenate(([True], both[1:] != both[:-1]))) if len(both) else np.zeros(0, np.int64)
    return _Groups(both[starts], starts, np.diff(starts, append=len(both)), members)


def _treelets(references: Encoded, parents: Integers) -> _Groups:
    """Each word that has dependents, together with them, in reference order; its key is the word.

    The roots of a forest make one treelet more, and so does the only word of a reference; its key is not a node.
    """
    nodes = np.arange(len(parents))
    is_root = parents < 0
    roots = np.bincount(references.owners[is_root], minlength=len(references.lengths))
    rooted = is_root & ((roots > 1) | (references.lengths == 1))[references.owners]
    heads = np.unique(parents[~is_root])
    return _group(
        np.concatenate((parents[~is_root], heads, len(parents) + references.owners[rooted])),
        np.concatenate((nodes[~is_root], heads, nodes[rooted])),
    )


def _place_nodes(
    places: Integers, references: Encoded, predictions: Encoded, parents: Integers, treelets: _Groups
) -> None:
    """Finds each reference word in the prediction, one to one.

    A word that occurs once on both sides is itself. Repeated words are given, rare ones first, the places that fit best
    with the words above and below them in the tree: those are as far away as they are in the reference.
    """
    words_in_use = 1 + int(max(references.ids.max(initial=0), predictions.ids.max(initial=0)))
    left, right = (
        _group(side.owners * words_in_use + side.ids, np.arange(len(side.ids))) for side in (references, predictions)
    )
    keys, in_left, in_right = np.intersect1d(left.keys, right.keys, assume_unique=True, return_indices=True)
    single = (left.sizes[in_left] == 1) & (right.sizes[in_right] == 1)
    places[left.members[left.starts[in_left[single]]]] = right.members[right.starts[in_right[single]]]

    keys, in_left, in_right = keys[~single], in_left[~single], in_right[~single]
    if not len(keys):
        return
    owners = keys // words_in_use
    order = np.lexsort((left.members[left.starts[in_left]], left.sizes[in_left], owners))
    in_left, in_right, owners = in_left[order], in_right[order], owners[order]
    shifts = (predictions.starts - references.starts)[owners]

    # Plain lists from here on: numpy is slow at single elements.
    found, above, related = places.tolist(), parents.tolist(), treelets.members.tolist()
    own_treelets = treelets.keys < len(parents)
    bounds = np.zeros((2, len(parents)), np.int64)
    bounds[:, treelets.keys[own_treelets]] = np.stack((treelets.starts, treelets.starts + treelets.sizes))[
        :, own_treelets
    ]
    related_from, related_to = bounds.tolist()
    left_members, right_members = left.members.tolist(), right.members.tolist()
    for left_start, left_size, right_start, right_size, shift in zip(
        left.starts[in_left].tolist(),
        left.sizes[in_left].tolist(),
        right.starts[in_right].tolist(),
        right.sizes[in_right].tolist(),
        shifts.tolist(),
        strict=True,
    ):
        nodes = left_members[left_start : left_start + left_size]
        free = right_members[right_start : right_start + right_size]
        costs = []
        for node in nodes:
            relatives = related[related_from[node] : related_to[node]]
            targets = [found[other] + node - other for other in relatives if found[other] >= 0]
            parent = above[node]
            if parent >= 0 and found[parent] >= 0:
                targets.append(found[parent] + node - parent)
            here = node + shift
            if not targets:
                targets = [here]
            number = len(targets)
            costs.append(
                [
                    sum([abs(place - target) for target in targets]) / number + POSITION_WEIGHT * abs(place - here)
                    for place in free
                ]
            )
        for row, column in _assign(costs):
            found[nodes[row]] = free[column]
    places[:] = found


def _assign(costs: list[list[float]]) -> list[tuple[int, int]]:
    """The cheapest one-to-one assignment of rows to columns."""
    if len(costs) > len(costs[0]):
        return [(row, column) for column, row in _assign([list(column) for column in zip(*costs, strict=True)])]
    best = [row.index(min(row)) for row in costs]
    if len(set(best)) == len(best):
        return list(enumerate(best))
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(costs)
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def _place_replaced(places: Integers, replaced: NDArray[np.bool_], path: Path, tokens: int) -> None:
    """A word substituted in place keeps its place, if neither it nor its substitute has been found elsewhere."""
    taken = np.zeros(tokens, np.bool_)
    taken[places[places >= 0]] = True
    substitutions = path.codes == SYMBOLS[SUBSTITUTION]
    nodes, others = path.in_reference[substitutions], path.in_prediction[substitutions]
    free = (places[nodes] < 0) & ~taken[others]
    places[nodes[free]] = others[free]
    replaced[nodes[free]] = True


def _count_treelets(
    references: Encoded,
    predictions: Encoded,
    treelets: _Groups,
    places: Integers,
    replaced: NDArray[np.bool_],
    costs: Costs,
) -> Integers:
    """The operations of all treelets of a text, plus one insertion for each predicted token that is no node.

    In a treelet whose words are in order, whatever is missing is a deletion and whatever is replaced a substitution:
    only treelets out of order need an alignment. Many have the same disorder, which is aligned once.
    """
    pairs = len(references.lengths)
    numbers = np.repeat(np.arange(len(treelets.keys)), treelets.sizes)
    owners = references.owners[treelets.members]
    where, other_word = places[treelets.members], replaced[treelets.members]
    present = where >= 0
    seen_numbers, seen_places = numbers[present], where[present]
    disordered = np.zeros(len(treelets.keys), np.bool_)
    disordered[seen_numbers[1:][(seen_numbers[1:] == seen_numbers[:-1]) & (seen_places[1:] < seen_places[:-1])]] = True

    in_order = ~disordered[numbers]
    total = np.zeros((pairs, 4), np.int64)
    total[:, 0] = np.bincount(owners[in_order & other_word], minlength=pairs)
    total[:, 1] = predictions.lengths - np.bincount(references.owners[places >= 0], minlength=pairs)
    total[:, 2] = np.bincount(owners[in_order & ~present], minlength=pairs)

    patterns: dict[tuple[int, tuple[int, ...]], int] = {}
    found = []
    where_list, other_list = where.tolist(), other_word.tolist()
    for start, size in zip(treelets.starts[disordered].tolist(), treelets.sizes[disordered].tolist(), strict=True):
        pattern = _result_order(where_list[start : start + size], other_list[start : start + size])
        found.append(patterns.setdefault((size, pattern), len(patterns)))
    if patterns:
        counts = _count_patterns(list(patterns), costs)[1]
        np.add.at(total, owners[treelets.starts[disordered]], counts[found])
    return total


def _result_order(places: list[int], replaced: list[bool]) -> tuple[int, ...]:
    """The nodes of a treelet, numbered as in the reference, in the order of the result; other words get new numbers."""
    size = len(places)
    order = sorted([node for node in range(size) if places[node] >= 0], key=places.__getitem__)
    return tuple([node + size if replaced[node] else node for node in order])


def _count_patterns(patterns: list[tuple[int, tuple[int, ...]]], costs: Costs) -> tuple[list[str], Integers]:
    """The alignment and the counts of treelets, each given by its size and the order of its result."""
    left, right = encode([range(size) for size, _ in patterns], [order for _, order in patterns])
    operations = align_encoded(left, right, costs)
    return operations, count_operations(left, right, Path.of(operations))


# Showing the evidence.


@dataclass(frozen=True)
class Treelet:
    """A word with its dependents, in the order of the reference and of the result."""

    head: str | None  # None: the roots of a forest
    reference: tuple[str, ...]
    result: tuple[str, ...]
    counts: Counts
    operations: str

    @property
    def moves(self) -> int:
        return self.counts.moves


@dataclass(frozen=True)
class Explanation:
    """Where the counts of a prediction come from; `print` draws it."""

    reference: tuple[str, ...]
    prediction: tuple[str, ...]
    alignment: Alignment
    treelets: tuple[Treelet, ...]
    unattached: tuple[str, ...]  # predicted tokens that are no node of the tree: an insertion each
    features: Features

    @property
    def score(self) -> dict[str, float]:
        return score(self.features)

    def __str__(self) -> str:
        lines = [*_draw(self.reference, self.prediction, self.alignment), _counts_line("string", self.features.string)]
        if self.features.tree is not None:
            width = max(len(treelet.head or "(roots)") for treelet in self.treelets)
            for treelet in self.treelets:
                result = " ".join(treelet.result)
                counts = ", ".join(_nonzero(treelet.counts)) or "in order"
                lines.append(
                    f"{treelet.head or '(roots)':{width}} : {' '.join(treelet.reference)} | {result}   {counts}"
                )
            if self.unattached:
                lines.append(f"not in the tree: {' '.join(self.unattached)}   I={len(self.unattached)}")
            lines.append(_counts_line("tree", self.features.tree))
        lines += [f"{name} = {value:.4f}" for name, value in self.score.items()]
        return "\n".join(lines)


def explain(
    prediction: Text,
    reference: Text,
    models: Models | None = None,
    tree: Any = None,
    tokenizer: Tokenizer = words,
    costs: Sequence[int] = Costs(),
) -> Explanation:
    """The alignment and the treelets behind the scores of one pair; without tree and models, of the strings alone."""
    checked_costs = check_costs(costs)
    # Tokens in a list of their own: they would be read as several references.
    references = [reference] if isinstance(reference, str) else [[reference]]
    candidates = _candidates([prediction], references, None if tree is None else [[tree]], tokenizer)
    if tree is not None or (models is not None and not models.strings_only):
        candidates = _with_trees(candidates, None if models is None else models.parser)
    analysis = _analyse(candidates, checked_costs)
    predicted, tokens = candidates[0].prediction, candidates[0].reference
    string = Counts._make(analysis.string[0].tolist())
    tree_counts = None if analysis.tree is None else Counts._make(analysis.tree[0].tolist())
    found = set(analysis.places.tolist())
    return Explanation(
        tuple(tokens),
        tuple(predicted),
        Alignment(analysis.operations[0]),
        tuple(_show_treelets(analysis, tokens, predicted, checked_costs)),
        () if tree_counts is None else tuple(token for place, token in enumerate(predicted) if place not in found),
        Features(string, tree_counts, len(tokens), len(predicted)),
    )


def _show_treelets(analysis: _Analysis, tokens: list[str], predicted: list[str], costs: Costs) -> Iterator[Treelet]:
    if analysis.treelets is None:
        return
    keys, starts, sizes, members = (part.tolist() for part in analysis.treelets)
    places, replaced = analysis.places.tolist(), analysis.replaced.tolist()
    groups = [members[start : start + size] for start, size in zip(starts, sizes, strict=True)]
    orders = [_result_order([places[node] for node in nodes], [replaced[node] for node in nodes]) for nodes in groups]
    operations, counts = _count_patterns(list(zip(sizes, orders, strict=True)), costs)
    for key, nodes, order, aligned, row in zip(keys, groups, orders, operations, counts.tolist(), strict=True):
        yield Treelet(
            tokens[key] if key < len(tokens) else tokens[nodes[0]] if len(nodes) == 1 else None,
            tuple(tokens[node] for node in nodes),
            tuple(predicted[places[nodes[number % len(nodes)]]] for number in order),
            Counts._make(row),
            aligned,
        )


def _draw(reference: Sequence[str], prediction: Sequence[str], alignment: Alignment) -> list[str]:
    """Both texts one above the other; below them S, I, D, or M at both ends of a move."""
    deleted, inserted = (
        Counter(
            (reference[left] if left is not None else prediction[right])  # type: ignore[index]
            for operation, left, right in alignment.steps()
            if operation == wanted
        )
        for wanted in "di"
    )
    moved = {"d": deleted & inserted, "i": deleted & inserted}
    rows = [["REF:", "HYP:", ""]]
    for operation, left, right in alignment.steps():
        above = reference[left] if left is not None else ""
        below = prediction[right] if right is not None else ""
        mark = "" if operation == "." else operation.upper()
        if operation in moved and moved[operation][above or below] > 0:
            moved[operation][above or below] -= 1
            mark = "M"
        width = max(len(above), len(below))
        rows.append([above or "*" * width, below or "*" * width, mark])
    widths = [max(map(len, row)) for row in rows]
    return [
        " ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*rows, strict=True)
    ]


def _counts_line(name: str, counts: Counts) -> str:
    return f"{name}: {', '.join(_nonzero(counts)) or 'no errors'}"


def _nonzero(counts: Counts) -> list[str]:
    return [f"{letter}={number}" for letter, number in zip("SIDM", counts, strict=True) if number]
