"""Tree accuracy: the paper's numbers, invariants, a slow second implementation, and every complaint."""

from __future__ import annotations

import math
import random
from collections import Counter
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.benchmarks import tree_accuracy as benchmark
from tests.test_alignment import slow_align
from textfluency import tree_accuracy
from textfluency.alignment import Counts
from textfluency.tree_accuracy import Features, Models, aggregate, explain, extract, load, score

REFERENCE = "There was no cost estimate for the second phase"
HEADS = [5, 5, 5, 5, 0, 5, 9, 9, 6]
PREDICTION = "There was estimate for phase the second no cost"
NOT_PROJECTIVE = "There was estimate phase for the second no cost"
STRINGS = load("string")


def features_of(prediction: str, reference: str = REFERENCE, heads: list[int] = HEADS) -> Features:
    return extract([prediction], [reference], Models(), trees=[heads], tokenizer=str.split)[0]


def scores_of(prediction: str, reference: str = REFERENCE, heads: list[int] = HEADS) -> dict[str, float]:
    return score(features_of(prediction, reference, heads))


# The paper's own example, Table 1, and the cases worked out in the specification.


def test_table_1_counts() -> None:
    features = features_of(PREDICTION)
    assert features.string == Counts(substitutions=1, insertions=2, deletions=2, moves=1)
    assert features.tree == Counts(substitutions=0, insertions=3, deletions=3, moves=3)
    assert (features.reference_length, features.prediction_length, features.reference_index) == (9, 9, 0)


@pytest.mark.parametrize(
    ("prediction", "expected"),
    [
        (PREDICTION, (0.4444, 0.5556, 0.3333, 0.6667)),
        (NOT_PROJECTIVE, (0.4444, 0.5556, 0.1111, 0.5556)),
        (REFERENCE, (1, 1, 1, 1)),
        (REFERENCE.replace("for ", ""), (0.8889, 0.8889, 0.7778, 0.7778)),
        (REFERENCE + " very", (0.8889, 0.8889, 0.8889, 0.8889)),
        (REFERENCE.replace("no", "a"), (0.8889, 0.8889, 0.8889, 0.8889)),
        ("", (0, 0, -0.2222, -0.2222)),
        (" ".join(reversed(REFERENCE.split())), (0.1111, None, -0.1111, 0)),
    ],
)
def test_vectors_of_the_specification(prediction: str, expected: tuple[float | None, ...]) -> None:
    scores = scores_of(prediction)
    keys = ("simple_string", "generation_string", "simple_tree", "generation_tree")
    for key, value in zip(keys, expected, strict=True):
        if value is not None:
            assert scores[f"{key}_accuracy"] == pytest.approx(value, abs=5e-5), key


def test_regressions() -> None:
    scores = scores_of(PREDICTION)
    assert scores["understandability"] == pytest.approx(-0.1283, abs=5e-5)
    assert scores["quality"] == pytest.approx(-0.1543, abs=5e-5)
    perfect = score(features_of(REFERENCE), regressions=True)
    assert perfect["understandability"] == pytest.approx(1)
    assert perfect["quality"] == pytest.approx(1)
    assert perfect["normalized_understanding"] == pytest.approx(1.4728 - 0.0228 * 9 - 0.2127)
    assert perfect["normalized_quality"] == pytest.approx(1.2134 - 0.0280 * 9 - 0.0689)


def test_keys() -> None:
    assert list(scores_of(PREDICTION)) == [
        "tree_accuracy",
        "simple_string_accuracy",
        "generation_string_accuracy",
        "simple_tree_accuracy",
        "generation_tree_accuracy",
        "understandability",
        "quality",
    ]
    assert all(type(value) is float for value in scores_of(PREDICTION).values())
    strings = extract([PREDICTION], [REFERENCE], STRINGS)[0]
    assert list(score(strings)) == ["simple_string_accuracy", "generation_string_accuracy"]


def test_repeated_words_follow_their_heads() -> None:
    heads = [2, 3, 0, 5, 3]
    assert scores_of("the dog saw the cat", "the cat saw the dog", heads)["tree_accuracy"] == pytest.approx(0.6)


def test_forest_and_single_word() -> None:
    assert features_of("b a c", "a b c", [0, 0, 0]).tree == Counts(insertions=1, deletions=1, moves=1)
    assert features_of("c b a", "a b c", [0, 0, 0]).tree == Counts(substitutions=2)
    assert features_of("b", "a", [0]).tree == Counts(substitutions=1)
    assert features_of("", "a", [0]).tree == Counts(deletions=1)
    assert features_of("a b", "a", [0]).tree == Counts(insertions=1)


def test_case_matters_and_the_default_tokenizer_splits_punctuation() -> None:
    found = extract(["the cat sat."], ["The cat sat."], STRINGS)[0]
    assert found.string == Counts(substitutions=1)
    assert found.reference_length == 4


# Input forms.


def test_token_lists_and_strings_agree() -> None:
    tokens = extract([PREDICTION.split()], [REFERENCE.split()], Models(), trees=[HEADS])
    assert tokens == extract([PREDICTION], [REFERENCE], Models(), trees=[[HEADS]])
    assert tokens == extract([PREDICTION], [[REFERENCE.split()]], Models(), trees=[[HEADS]])


def test_best_reference_by_tree() -> None:
    references = [REFERENCE, "for phase", PREDICTION]
    found = extract([PREDICTION], [references], Models(), trees=[[HEADS, [0, 1], [0] * 9]], tokenizer=str.split)
    assert found[0].reference_index == 2
    assert score(found[0])["tree_accuracy"] == 1


def test_best_reference_by_string_and_the_first_of_equals() -> None:
    found = extract(["a b", "a b"], [["x y z", "a c", "c b"], "a b"], STRINGS)
    assert [features.reference_index for features in found] == [1, 0]


CONLLU = """# text = He doesn't run.
1\tHe\the\tPRON\t_\t_\t4\tnsubj\t_\t_
2-3\tdoesn't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdoes\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\trun\trun\tVERB\t_\t_\t0\troot\t_\t_
4.1\tgone\tgo\tVERB\t_\t_\t_\t_\t_\t_
5\t.\t.\tPUNCT\t_\t_\t4\tpunct\t_\t_

1\tNo\tno\tINTJ\t_\t_\t0\troot\t_\t_
2\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_
"""


def test_conllu() -> None:
    reference = "He doesn't run. No."
    found = extract(["He run doesn't. No."], [reference], Models(), trees=[CONLLU])
    heads = [4, 4, 4, 0, 4, 0, 6]
    assert found == extract(["He run doesn't. No."], [reference], Models(), trees=[[heads]])
    assert found[0].reference_length == 7
    explanation = explain(reference, reference, tree=CONLLU)
    assert explanation.reference == ("He", "does", "n't", "run", ".", "No", ".")
    assert explanation.treelets[-1].head is None  # the two roots


def test_parser_parses_each_bare_reference_once() -> None:
    seen: list[list[list[str]]] = []

    def parser(sentences: list[list[str]]) -> list[list[int]]:
        seen.append(sentences)
        return [[0] + [1] * (len(sentence) - 1) for sentence in sentences]

    found = extract(["b a", "a b", "c"], ["a b", ["a b", "c d e"], "x y"], Models(parser), trees=None)
    assert seen == [[["a", "b"], ["c", "d", "e"], ["x", "y"]]]
    assert found[1].tree == Counts()
    assert extract(["b a"], ["a b"], Models(parser), trees=[[None]])[0] == found[0]
    with pytest.raises(ValueError, match=r"the parser's tree of references\[0\]\[0\] has 1 heads"):
        extract(["a"], ["a b"], Models(lambda sentences: [[0]]))


def test_empty_predictions_never_raise() -> None:
    found = extract(["", " ", []], ["a b", "a", ["c"]], Models(), trees=[[0, 1], [0], [0]])
    assert [score(features)["simple_string_accuracy"] for features in found] == [0, 0, 0]
    assert extract([], [], Models()) == []


# Aggregation.


def test_aggregations() -> None:
    features = [features_of(PREDICTION), features_of("x", "x", [0])]
    mean, pooled = aggregate(features), aggregate(features, "pooled")
    assert mean["tree_accuracy"] == pytest.approx((1 / 3 + 1) / 2)
    assert pooled["tree_accuracy"] == pytest.approx(1 - 6 / 10)
    assert pooled["generation_string_accuracy"] == pytest.approx(1 - 4 / 10)
    assert pooled["quality"] == pytest.approx((1.0192 * 0.4 - 0.0869 * 0.5 - 0.3553) / 0.6639)
    assert list(aggregate(extract(["a"], ["b"], STRINGS), "pooled")) == [
        "simple_string_accuracy",
        "generation_string_accuracy",
    ]
    assert len(aggregate(features, "pooled", regressions=True)) == len(aggregate(features, regressions=True)) == 9


# Explanation.


def test_explanation_holds_the_evidence() -> None:
    found = explain(PREDICTION, REFERENCE, tree=HEADS)
    assert " ".join(found.alignment.operations) == ". . d d . . i . . i s"
    assert found.features == features_of(PREDICTION)
    assert [
        (treelet.head, " ".join(treelet.reference), " ".join(treelet.result), *treelet.counts[1:3], treelet.moves)
        for treelet in found.treelets
    ] == [
        ("estimate", "There was no cost estimate for", "There was estimate for no cost", 2, 2, 2),
        ("for", "for phase", "for phase", 0, 0, 0),
        ("phase", "the second phase", "phase the second", 1, 1, 1),
    ]
    assert str(found).splitlines()[:8] == [
        "REF: There was no cost estimate for ***** the second ** phase",
        "HYP: There was ** **** estimate for phase the second no cost",
        "               M  D                 I                M  S",
        "string: S=1, I=2, D=2, M=1",
        "estimate : There was no cost estimate for | There was estimate for no cost   I=2, D=2, M=2",
        "for      : for phase | for phase   in order",
        "phase    : the second phase | phase the second   I=1, D=1, M=1",
        "tree: I=3, D=3, M=3",
    ]


def test_explanation_of_strings_alone_and_of_strange_words() -> None:
    assert explain("a x", "a b").treelets == ()
    assert explain(["a", "x"], "a b").reference == ("a", "b")
    assert "no errors" in str(explain("a", "a", STRINGS))
    found = explain("so a b", ["a", "b"], tree=[2, 0])
    assert found.unattached == ("so",)
    assert "not in the tree: so   I=1" in str(found)
    with pytest.raises(ValueError, match="trees"):
        explain("a", "a", Models())


# A slow, obvious second implementation.


def slow_counts(reference: list[Any], prediction: list[Any]) -> Counter[str]:
    operations = slow_align(reference, prediction)
    left, right = iter(reference), iter(prediction)
    deleted: Counter[Any] = Counter()
    inserted: Counter[Any] = Counter()
    for operation in operations:
        above = next(left) if operation != "i" else None
        below = next(right) if operation != "d" else None
        deleted.update([above] if operation == "d" else [])
        inserted.update([below] if operation == "i" else [])
    counts = Counter(operations)
    counts["m"] = (deleted & inserted).total()
    return counts


def slow_places(reference: list[str], prediction: list[str], heads: list[int]) -> dict[int, int]:
    """Node -> place, repeated words by trying every assignment."""
    places: dict[int, int] = {}
    repeated = []
    for word in dict.fromkeys(reference):
        here = [node for node, other in enumerate(reference) if other == word]
        there = [place for place, other in enumerate(prediction) if other == word]
        if len(here) == len(there) == 1:
            places[here[0]] = there[0]
        elif there:
            repeated.append((len(here), here[0], here, there))
    for _, _, here, there in sorted(repeated):

        def cost(node: int, place: int) -> float:
            relatives = [k for k in range(len(heads)) if k in places and (heads[k] == node + 1 or heads[node] == k + 1)]
            misfits = [abs((place - places[k]) - (node - k)) for k in relatives]
            return (sum(misfits) / len(misfits) if misfits else abs(node - place)) + 1e-6 * abs(node - place)

        table = {(node, place): cost(node, place) for node in here for place in there}
        if len(here) <= len(there):
            choices = [list(zip(here, order, strict=True)) for order in permutations(there, len(here))]
        else:
            choices = [list(zip(order, there, strict=True)) for order in permutations(here, len(there))]
        totals = [sum(table[pair] for pair in choice) for choice in choices]
        if sum(total < min(totals) + 1e-9 for total in totals) > 1:
            raise TieError
        places.update(choices[totals.index(min(totals))])
    return places


class TieError(Exception):
    """Two assignments are equally good: either is right."""


def slow_features(reference: list[str], prediction: list[str], heads: list[int]) -> tuple[Counts, Counts]:
    places = slow_places(reference, prediction, heads)
    taken = set(places.values())
    string = slow_counts(reference, prediction)
    replaced = set()
    row = column = 0
    for operation in slow_align(reference, prediction):
        if operation == "s" and row not in places and column not in taken:
            places[row] = column
            replaced.add(row)
        row += operation != "i"
        column += operation != "d"
    size = len(reference)
    treelets = [[k for k in range(size) if k == node or heads[k] == node + 1] for node in range(size)]
    treelets = [treelet for treelet in treelets if len(treelet) > 1]
    roots = [k for k in range(size) if heads[k] == 0]
    if len(roots) > 1 or size == 1:
        treelets.append(roots)
    tree = Counter({"i": len(prediction) - len(places)})
    for treelet in treelets:
        result = sorted((node for node in treelet if node in places), key=places.__getitem__)
        tree.update(slow_counts(treelet, [f"not {node}" if node in replaced else node for node in result]))
    return Counts(*(string[key] for key in "sidm")), Counts(*(tree[key] for key in "sidm"))


def random_tree(size: int, generator: random.Random, roots: int = 1) -> list[int]:
    order = generator.sample(range(size), size)
    heads = [0] * size
    for number in range(min(roots, size), size):
        heads[order[number]] = order[generator.randrange(number)] + 1
    return heads


def test_same_as_the_slow_implementation() -> None:
    generator = random.Random(7)
    pairs: list[tuple[list[str], list[str], list[int]]] = []
    for number in range(400):
        reference = generator.choices("abcdefghijk"[: 4 + number % 8], k=generator.randint(1, 9))
        prediction = generator.sample(reference, len(reference)) if number % 3 else list(reference)
        for _ in range(generator.randint(0, 3)):
            place = generator.randint(0, len(prediction))
            prediction[place : place + generator.randint(0, 2)] = generator.choices("abcxyz", k=generator.randint(0, 1))
        pairs.append((reference, prediction, random_tree(len(reference), generator, generator.choice([1, 1, 1, 2, 3]))))
    found = extract([p for _, p, _ in pairs], [r for r, _, _ in pairs], Models(), trees=[[h] for _, _, h in pairs])
    compared = 0
    for (reference, prediction, heads), features in zip(pairs, found, strict=True):
        try:
            expected = slow_features(reference, prediction, heads)
        except TieError:
            continue
        assert (features.string, features.tree) == expected, (reference, prediction, heads)
        compared += 1
    assert compared > 250


# Invariants.

sentences = st.lists(st.sampled_from(["the", "cat", "dog", "saw", "a", "in", ".", "park"]), min_size=1, max_size=9)


@st.composite
def examples(draw: st.DrawFn) -> tuple[list[str], list[str], list[int]]:
    reference = draw(sentences)
    prediction = draw(st.one_of(sentences, st.permutations(reference)))
    return prediction, reference, random_tree(len(reference), random.Random(draw(st.integers(0, 99))))


def extract_all(pairs: list[tuple[list[str], list[str], list[int]]]) -> list[Features]:
    predictions, references, heads = ([pair[part] for pair in pairs] for part in range(3))
    return extract(predictions, references, Models(), trees=heads)  # type: ignore[arg-type]


@given(examples())
@settings(deadline=None, max_examples=80)
def test_one_is_a_copy_and_the_most_and_moves_never_cost(example: tuple[list[str], list[str], list[int]]) -> None:
    prediction, reference, heads = example
    scores = score(extract_all([example])[0])
    assert all(value <= 1 + 1e-9 for value in scores.values())
    assert scores["generation_string_accuracy"] >= scores["simple_string_accuracy"]
    assert scores["generation_tree_accuracy"] >= scores["simple_tree_accuracy"]
    assert (scores["simple_string_accuracy"] == 1) == (prediction == reference)
    copy = score(extract_all([(reference, reference, heads)])[0])
    assert all(math.isclose(value, 1) for value in copy.values())


@given(st.lists(examples(), min_size=1, max_size=6), st.randoms(use_true_random=False))
@settings(deadline=None, max_examples=50)
def test_neither_order_nor_size_of_the_batch_matters(
    pairs: list[tuple[list[str], list[str], list[int]]], generator: random.Random
) -> None:
    found = extract_all(pairs)
    assert found == [extract_all([pair])[0] for pair in pairs]
    order = generator.sample(range(len(pairs)), len(pairs))
    shuffled = extract_all([pairs[index] for index in order])
    assert shuffled == [found[index] for index in order]
    assert aggregate(shuffled) == aggregate(found)
    for (prediction, reference, heads), features in zip(pairs, found, strict=True):
        explanation = explain(prediction, reference, tree=heads)
        assert explanation.features == features
        parts = [treelet.counts for treelet in explanation.treelets]
        sums = Counts(*(sum(column) for column in zip(*parts, strict=True)))
        assert sums._replace(insertions=sums.insertions + len(explanation.unattached)) == features.tree
        str(explanation)


@given(st.text(max_size=40))
@settings(deadline=None, max_examples=100)
def test_any_prediction_has_a_score(prediction: str) -> None:
    features = extract([prediction], [REFERENCE], Models(), trees=[HEADS])
    assert all(math.isfinite(value) for value in aggregate(features).values())


def test_small_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, references, trees = benchmark.make(60)
    expected = extract(predictions, references, Models(), trees=trees)
    monkeypatch.setattr(tree_accuracy, "TOKENS_PER_BLOCK", 100)
    assert extract(predictions, references, Models(), trees=trees) == expected


# Complaints.


@pytest.mark.parametrize(
    ("tree", "problem"),
    [
        ([2, 0], r"trees\[1\]\[0\] has 2 heads and references\[1\]\[0\] has 3 tokens.*one head per token"),
        ([2, 0, 4], r"trees\[1\]\[0\] has a head that is no token.*from 1.*\[2, 0, 4\]"),
        ([1, -1, 1], r"trees\[1\]\[0\] has a head that is no token"),
        ([2, 3, 1], r"trees\[1\]\[0\] has no root.*head 0"),
        ([0, 3, 2], r"trees\[1\]\[0\] has a cycle.*lead up to a root"),
        ([0, 2, 1], r"trees\[1\]\[0\] has a cycle"),
        ([[0, 1, 1], [0, 1, 1]], r"trees\[1\] must hold one tree for each of the 1 references"),
        ("1\ta\n", r"trees\[1\]\[0\]: the CoNLL-U line .* 2 columns.*tabs"),
        ("1\ta" + "\t_" * 8, r"trees\[1\]\[0\]: HEAD .* is not a number"),
        ("1\tx" + "\t_" * 4 + "\t0" + "\t_" * 3, r"trees\[1\]\[0\] is CoNLL-U of another text"),
    ],
)
def test_bad_trees(tree: Any, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        extract(["b", "b c a"], ["b", "a b c"], Models(), trees=[[0], tree])


def test_bad_input() -> None:
    with pytest.raises(TypeError, match=r"trees\[0\]\[0\] must be a list of whole numbers.*from 1"):
        extract(["a"], ["a"], Models(), trees=[[[0.5]]])
    with pytest.raises(ValueError, match=r"references\[1\]\[0\] is empty.*leave this prediction out"):
        extract(["a", "a"], ["a", " "], STRINGS)
    with pytest.raises(ValueError, match=r"references\[0\] must be a string or a list of at least one"):
        extract(["a"], [[]], STRINGS)
    with pytest.raises(TypeError, match="predictions must be a list"):
        extract("a", ["a"], STRINGS)
    with pytest.raises(TypeError, match=r"predictions\[0\] must be a string or a list of tokens"):
        extract([3], ["a"], STRINGS)  # type: ignore[list-item]
    with pytest.raises(TypeError, match=r"references\[0\]\[1\] must be a string or a list of tokens"):
        extract(["a"], [["a", None]], STRINGS)  # type: ignore[list-item]
    with pytest.raises(ValueError, match="references has 2 entries and predictions has 1"):
        extract(["a"], ["a", "b"], STRINGS)
    with pytest.raises(ValueError, match=r"Give `trees`.*config 'string'"):
        extract(["a"], ["a"], Models())
    with pytest.raises(ValueError, match=r"config 'string' has no tree scores"):
        extract(["a"], ["a"], STRINGS, trees=[[0]])
    with pytest.raises(ValueError, match=r"costs=\(2, 1, 1\)"):
        extract(["a"], ["a"], STRINGS, costs=(2, 1, 1))
    with pytest.raises(ValueError, match="Configs: default, string"):
        load("strings")
    with pytest.raises(ValueError, match="Aggregations: mean, pooled"):
        aggregate([features_of(PREDICTION)], "median")
    with pytest.raises(ValueError, match="at least one prediction"):
        aggregate([])
    with pytest.raises(ValueError, match="same models"):
        aggregate([features_of("x"), *extract(["a"], ["a"], STRINGS)])


def test_load() -> None:
    assert load("string") == Models(strings_only=True)
    parser = load().parser
    assert parser is not None
    assert parser([["It", "rained", "."]]) == [[2, 0, 2]]
    assert load().parser == parser  # the second call loads nothing
