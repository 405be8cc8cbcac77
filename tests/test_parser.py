"""The dependency parser: trees are trees, neighbours do not matter, a tiny treebank is learned and reloaded."""

from __future__ import annotations

import itertools
import json
import math
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from textfluency import weights
from textfluency.parsing import biaffine, dependency, head_driven
from textfluency.parsing.dependency import Parse, Parser, best_tree

EMBEDDED = weights.EMBEDDED / "parser"
GOLD = [  # hand-written, Universal Dependencies: word/head
    "The/2 cat/3 sat/0 on/6 the/6 mat/3 ./3",
    "She/2 sings/0 ./2",
    "My/3 old/3 friend/4 bought/0 a/7 new/7 car/4 yesterday/4 ./4",
    "They/4 did/4 n't/4 know/0 that/7 she/7 left/4 ./4",
    "The/2 book/7 that/5 I/5 read/2 was/7 good/0 ./7",
    "He/2 gave/0 her/2 the/5 keys/2 and/7 went/2 home/7 ./2",
    "Can/3 you/3 help/0 me/3 with/7 this/7 problem/3 ?/3",
    "The/2 committee/4 will/4 discuss/0 the/6 report/4 in/8 March/4 ./4",
]


@pytest.fixture(scope="module")
def parser() -> Parser:
    return dependency.load(EMBEDDED)


def gold(annotated: str) -> tuple[list[str], list[int]]:
    pairs = [token.rsplit("/", 1) for token in annotated.split()]
    return [word for word, _ in pairs], [int(head) for _, head in pairs]


def is_tree(heads: list[int]) -> bool:
    """One root, and every word leads up to it."""
    for word in range(1, len(heads) + 1):
        for _ in heads:
            word = heads[word - 1] if word else 0
        if word:
            return False
    return heads.count(0) == 1


def score(scores: NDArray[np.float64], heads: tuple[int, ...]) -> float:
    return float(sum(scores[word, head] for word, head in enumerate(heads, start=1)))


# --- the best tree ---------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_best_tree_is_the_best_of_all(words: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(words + 1, words + 1)) * 3
    heads = tuple(best_tree(scores)[1:].tolist())
    trees = (tree for tree in itertools.product(range(words + 1), repeat=words) if is_tree(list(tree)))
    assert is_tree(list(heads))
    assert score(scores, heads) == pytest.approx(max(score(scores, tree) for tree in trees))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 80), st.integers(0, 2**32 - 1))
def test_best_tree_is_a_tree(words: int, seed: int) -> None:
    scores = np.random.default_rng(seed).normal(size=(words + 1, words + 1))
    assert is_tree(best_tree(scores)[1:].tolist())


def test_cycles_within_cycles_are_broken() -> None:
    words = 300
    scores = np.full((words + 1, words + 1), -50.0)
    for word in range(1, words + 1):
        scores[word, word ^ 1 if 1 < (word ^ 1) <= words else 1] = 0
        scores[word, max(1, word // 2)] -= 1
    assert is_tree(best_tree(scores)[1:].tolist())


# --- the embedded parser ---------------------------------------------------------------------------------------------


@settings(max_examples=25, deadline=None)
@given(sentences=st.lists(st.lists(st.text(max_size=8), max_size=30), max_size=4))
def test_any_words_get_well_formed_trees(parser: Parser, sentences: list[list[str]]) -> None:
    parses = parser.parse(sentences)
    assert [list(parse.words) for parse in parses] == sentences
    for parse in parses:
        assert not parse.words or is_tree(list(parse.heads))
        assert {len(parse.tags), len(parse.heads), len(parse.labels), len(parse.arc_probabilities)} == {
            len(parse.words)
        }
        assert all(0 <= probability <= 1.00001 for probability in parse.arc_probabilities)
        assert all((label == "root") == (head == 0) for label, head in zip(parse.labels, parse.heads, strict=True))


def test_neighbours_in_a_batch_do_not_matter(parser: Parser) -> None:
    sentences = [gold(annotated)[0] for annotated in GOLD] + [["no"] * length for length in (1, 2, 40, 41)]
    for alone, together in zip([parser.parse([s])[0] for s in sentences], parser.parse(sentences), strict=True):
        assert (alone.heads, alone.tags, alone.labels) == (together.heads, together.tags, together.labels)
        assert alone.arc_probabilities == pytest.approx(together.arc_probabilities, abs=1e-5)


def test_easy_sentences_are_parsed_right(parser: Parser) -> None:
    sentences, trees = zip(*map(gold, GOLD), strict=True)
    heads = parser.heads(list(sentences))
    right = sum(a == b for tree, found in zip(trees, heads, strict=True) for a, b in zip(tree, found, strict=True))
    assert right / sum(map(len, trees)) > 0.93


def test_doubt_grows_with_disorder(parser: Parser) -> None:
    orderly, disorderly = parser.parse([gold(GOLD[2])[0], sorted(gold(GOLD[2])[0])])
    assert min(orderly.arc_probabilities) > min(disorderly.arc_probabilities)


def test_empty_and_long_sentences(parser: Parser) -> None:
    assert parser.parse([]) == []
    assert parser.parse([[]]) == [Parse((), (), (), (), ())]
    assert parser.heads([[], ["Yes"]]) == [[], [0]]
    for length in (500, 1300):
        (heads,) = parser.heads([(gold(GOLD[0])[0] * length)[:length]])
        assert len(heads) == length
        assert is_tree(heads)


def test_report_holds_what_is_promised() -> None:
    report = json.loads((EMBEDDED / "report.json").read_text())
    assert report["test"]["ud_ewt_test"]["uas"] > 87
    assert sum(file.stat().st_size for file in EMBEDDED.iterdir()) < 8 * 1024**2


def test_missing_spacy_pipeline_names_the_remedy() -> None:
    with pytest.raises((ImportError, ValueError), match=r"pip install spacy|spacy download"):
        dependency.load("spacy:no_such_pipeline")


# --- features and training -------------------------------------------------------------------------------------------


def test_forms_and_shapes() -> None:
    assert biaffine.form("May-1987") == "may-0000"
    assert [biaffine.shape(word) for word in ("London", "NATO", "1,234", "e-mail")] == ["Xxx", "XX", "0,00", "x-xx"]


def tiny_treebank() -> str:
    """Twenty sentences of one pattern, as CoNLL-U, with multi-word tokens and empty nodes to be passed over."""
    blocks = []
    for subject, verb, thing in zip(
        ["dog", "cat", "bird", "child", "man"] * 4,
        ["sees", "likes", "finds", "wants"] * 5,
        ["stones", "old books", "a tree", "the red ball"] * 5,
        strict=True,
    ):
        words = ["The", subject, verb, *thing.split(), "."]
        head_of_object = len(words) - 1
        heads = [2, 3, 0] + [head_of_object] * (len(words) - 5) + [3, 3]
        labels = ["det", "nsubj", "root"] + ["amod"] * (len(words) - 5) + ["obj", "punct"]
        tags = ["DT", "NN", "VBZ"] + ["JJ"] * (len(words) - 5) + ["NNS", "."]
        rows = [
            f"{number}\t{word}\t_\t_\t{tag}\t_\t{head}\t{label}\t_\t_"
            for number, (word, tag, head, label) in enumerate(zip(words, tags, heads, labels, strict=True), start=1)
        ]
        empty_node = "2.1\tghost\t_\t_\tNN\t_\t_\t_\t_\t_"
        blocks.append("\n".join(["# text", "1-2\tThedog" + "\t_" * 8, *rows[:2], empty_node, *rows[2:]]) + "\n\n")
    return "".join(blocks)


def test_training_overfits_and_reloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from training import parser as trainer

    treebank, text = tmp_path / "tiny.conllu", tmp_path / "text.txt"
    treebank.write_text(tiny_treebank())
    text.write_text("The dog sees stones and the cat likes old books .\n" * 50)
    monkeypatch.setattr(trainer, "WARM_UP_STEPS", 5)
    monkeypatch.setattr(trainer, "EPOCHS_PER_EVALUATION", 20)
    command = [
        "parser",
        "--train",
        str(treebank),
        "--dev",
        str(treebank),
        "--test",
        str(treebank),
        "--out",
        str(tmp_path),
    ]

    monkeypatch.setattr(sys, "argv", [*command, "--corpus", str(text), "--epochs", "30"])
    trainer.main()
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["test"]["tiny"] == {"uas": 100.0, "las": 100.0, "tags": 100.0}
    assert report["epochs"] == 30
    reloaded = dependency.load(tmp_path)
    assert reloaded.heads([["The", "bird", "likes", "old", "books", "."]]) == [[2, 3, 0, 5, 3, 3]]

    monkeypatch.setattr(sys, "argv", [*command, "--corpus", str(text), "--epochs", "32", "--resume"])
    trainer.main()
    resumed = json.loads((tmp_path / "report.json").read_text())
    assert [point["epoch"] for point in resumed["curve"]] == list(range(1, 33))


# --- how probable a tree is ------------------------------------------------------------------------------------------


def toy_parses() -> list[Parse]:
    words = [("Cats", "sleep"), ("Dogs", "sleep"), ("Dogs", "bark"), ("Dogs", "bark")]
    return [Parse(pair, ("NNS", "VBP"), (2, 0), ("nsubj", "root"), (1.0, 1.0)) for pair in words]


def counted(parses: list[Parse]) -> head_driven.HeadDrivenModel:
    from training import head_driven_model as trainer

    events = head_driven.events_of(parses)
    structure, word = trainer.Counts(head_driven.STRUCTURE_CONTEXTS), trainer.Counts(head_driven.WORD_CONTEXTS)
    structure.add(events.structure)
    word.add(events.words)
    return trainer.table(structure, word, fewest=0)  # nothing is left out, so that numbers can be checked by hand


def test_witten_bell_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(head_driven, "RARE_WORD", 1)
    parses = toy_parses()
    (score,) = counted(parses).score(parses[:1])
    probability = 1 / head_driven.KNOWN_WORDS
    unigram = [(count + 4 * probability) / (8 + 4) for count in (1, 2)]  # 8 words, 4 kinds; Cats once, sleep twice
    assert score.unigrams == pytest.approx(sum(map(math.log, unigram)), rel=0.02)
    cats = unigram[0]
    for count, total, kinds in ((1, 4, 2), (1, 4, 2), (1, 2, 2)):  # given NNS; and nsubj; and sleep
        cats = (count + kinds * cats) / (total + kinds)
    sleep = unigram[1]
    for count, total, kinds in ((2, 4, 2),) * 3:
        sleep = (count + kinds * sleep) / (total + kinds)
    assert score.words == pytest.approx(math.log(cats) + math.log(sleep), rel=0.02)
    assert score.joint == score.structure + score.words


def test_rare_words_are_one_unknown_word() -> None:
    model = counted(toy_parses())
    strangers = [replace(toy_parses()[0], words=(word, "sleep")) for word in ("Zyxts", "Cats")]
    first, second = model.score(strangers)
    assert first.words == second.words
    assert first.unigrams == pytest.approx(2 * math.log(4 / (8 + 4)), rel=0.02)  # 4 kinds of 8 words, twice unknown


def test_unseen_structure_is_less_probable() -> None:
    model = counted(toy_parses())
    strange = Parse(("sleep", "Cats"), ("VBP", "NNS"), (0, 1), ("root", "nsubj"), (1.0, 1.0))
    usual, unusual = model.score([toy_parses()[0], strange])
    assert usual.structure > unusual.structure
    assert (usual.rare_attachments, unusual.rare_attachments) == ((), (2,))


def test_empty_tree_and_neighbours() -> None:
    model = counted(toy_parses())
    empty = Parse((), (), (), (), ())
    first, nothing, last = model.score([toy_parses()[0], empty, toy_parses()[3]])
    assert nothing.words == nothing.unigrams == 0
    assert [first] == model.score([toy_parses()[0]])
    assert [last] == model.score([toy_parses()[3]])
    assert model.score([]) == []


def test_counts_are_right_to_three_per_cent() -> None:
    counts = np.unique(np.geomspace(1, 1e6, 500).astype(np.int64))
    assert head_driven.decoded(head_driven.encoded(counts)) == pytest.approx(counts, rel=0.032)


def test_embedded_tree_model_prefers_order(parser: Parser) -> None:
    folder = weights.EMBEDDED / "head_driven"
    model = head_driven.load(folder)
    sentences = [gold(annotated)[0] for annotated in GOLD]
    orderly = model.score(parser.parse(sentences))
    disorderly = model.score(parser.parse([sentence[::-1] for sentence in sentences]))
    assert all(a.joint > b.joint for a, b in zip(orderly, disorderly, strict=True))
    assert (folder / "model.safetensors").stat().st_size < 6 * 1024**2
