"""gleu_parser_svm: the formula by hand, the way of a text through the parsers, the generators, the embedded weights."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
import pytest

from textfluency import gleu_parser_svm as gleu
from textfluency import weights
from textfluency.gleu_parser_svm import Classifier, Dimension, Features, Models, Sentence
from textfluency.parsing.dependency import Parse
from textfluency.parsing.head_driven import TreeProbability
from textfluency.parsing.link_grammar import Judgement

EXTRACTED = (  # Mutton et al. 2007, figure 1, sequence size 24
    "Ginebra face Formula Shell in a sudden-death playoff on Sunday to decide who will face Alaska in a best-of-seven "
    "series for the title."
)
GLUED = (  # ibid., sequence size 1
    "The war we're here in a spokesman Jeff Sluman 86 percent jump that Spain to what was booked, express also said."
)

SENTENCE = Sentence(
    text="Cats sleep do",
    parse=Parse(("Cats", "sleep", "do"), ("NNS", "VBP", "VBP"), (2, 0, 2), ("nsubj", "root", "dep"), (0.9, 1.0, 0.3)),
    probability=TreeProbability(structure=-12.0, words=-18.0, unigrams=-24.0, rare_attachments=(3,)),
    linkage=Judgement(("Cats", "sleep", "do"), ("do",), null_count=1, found=4, post_processed=4, valid=3),
    strict_linkage=None,
)
CLASSIFIER = Classifier(
    {
        "fragments": Dimension(low=0, high=10, missing=1, weight=-2),
        "parse_log_probability": Dimension(low=-100, high=0, missing=-50, weight=3),
        "null_tokens": Dimension(low=0, high=1, missing=0.1, weight=-1),
        "invalid_parses": Dimension(low=0, high=1, missing=0.5, weight=1),
    },
    bias=-0.5,
    link_grammar="link-grammar-5.12.0",
)


@pytest.fixture(scope="module", params=gleu.CONFIGS)
def models(request: pytest.FixtureRequest) -> Iterator[Models]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(weights.VARIABLE, str(weights.EMBEDDED))
        yield gleu.load(request.param)


def values(texts: list[str], models: Models) -> list[float]:
    return [gleu.score(features, models.classifier)[gleu.NAME] for features in gleu.extract(texts, models)]


# --- the formula -----------------------------------------------------------------------------------------------------


def test_formula_by_hand() -> None:
    scores = gleu.score(Features((SENTENCE,)), CLASSIFIER)
    assert scores["fragments"] == pytest.approx(0.2)  # "do" hangs where such words never do: two of at most ten
    assert scores["parse_log_probability"] == pytest.approx(0.7)  # 1 - 30 / 100
    assert scores["null_tokens"] == pytest.approx(1 / 3)
    assert scores["invalid_parses"] == pytest.approx(0.25)
    assert scores["gleu_parser_svm"] == pytest.approx(-2 * 0.2 + 3 * 0.7 - 1 / 3 + 0.25 - 0.5)
    assert scores["timeouts"] == 0


def test_default_counts_by_the_paper_s_length() -> None:
    judged = gleu.judgements(replace(SENTENCE, strict_linkage=replace(SENTENCE.linkage, disjunct_cost=1.5)))
    assert judged["fragments"] == 1 + 24 / 3  # one cut in three words
    assert judged["parse_log_probability"] == -30 * 24 / 3
    assert judged["words_given_tree"] == (-30 + 24) / 3
    assert judged["structure"] == -12 / 3
    assert judged["strict_disjunct_cost"] == 0.5


def test_contributions_sum_up_to_the_score() -> None:
    contributions = CLASSIFIER.contributions(gleu.judgements(SENTENCE))
    decision = gleu.score(Features((SENTENCE,)), CLASSIFIER)[gleu.NAME]
    assert sum(contributions.values()) + CLASSIFIER.bias == pytest.approx(decision)


def test_values_beyond_the_training_data_are_clipped() -> None:
    absurd = replace(SENTENCE, probability=replace(SENTENCE.probability, structure=-1e6))
    assert gleu.score(Features((absurd,)), CLASSIFIER)["parse_log_probability"] == 0


def test_time_out_counts_every_word_and_takes_the_mean_for_what_is_missing() -> None:
    late = replace(SENTENCE, linkage=Judgement(("a", "b"), ("a", "b"), 2, timed_out=True, problem="time limit"))
    scores = gleu.score(Features((late, SENTENCE)), CLASSIFIER)
    assert scores["null_tokens"] == pytest.approx((1 + 1 / 3) / 2)
    assert scores["invalid_parses"] == pytest.approx((0.5 + 0.25) / 2)
    assert scores["timeouts"] == 1


def test_several_sentences_are_averaged_and_none_is_nan() -> None:
    one, none = gleu.score(Features((SENTENCE,)), CLASSIFIER), gleu.score(Features(()), CLASSIFIER)
    assert gleu.score(Features((SENTENCE, SENTENCE)), CLASSIFIER) == pytest.approx(one)
    assert all(math.isnan(none[key]) for key in (gleu.NAME, *gleu.PAPER_JUDGEMENTS))
    assert gleu.aggregate([one, none]) == pytest.approx({**one, "empty": 1.0})


def test_data_set_normalisation_is_the_paper_s() -> None:
    worse = replace(SENTENCE, probability=replace(SENTENCE.probability, structure=-42.0))
    features = [Features((SENTENCE,)), Features((worse,)), Features(())]
    classifier = gleu.with_constants_of(features, CLASSIFIER)
    scores = [gleu.score(each, classifier) for each in features]
    assert [score["parse_log_probability"] for score in scores[:2]] == pytest.approx([1 - 30 / 60, 0])
    assert scores[0]["fragments"] == 1
    assert gleu.with_constants_of([], CLASSIFIER) == CLASSIFIER


def test_fragments_are_the_pieces_that_hold_together() -> None:
    assert SENTENCE.fragments == (("Cats", "sleep"), ("do",))
    usual = replace(SENTENCE, probability=replace(SENTENCE.probability, rare_attachments=()))
    assert usual.fragments == (("Cats", "sleep", "do"),)


def test_explanation_shows_the_evidence() -> None:
    shown = str(gleu.Explanation(gleu.score(Features((SENTENCE,)), CLASSIFIER), Features((SENTENCE,)), CLASSIFIER))
    for evidence in ("Cats sleep | do", "left out by Link Grammar: do", "nsubj", "null_tokens", "bias"):
        assert evidence in shown


def test_classifier_survives_its_file(tmp_path: Path) -> None:
    gleu.save_classifier(CLASSIFIER, tmp_path / "paper.json")
    assert gleu.load_classifier(tmp_path / "paper.json") == CLASSIFIER


# --- the embedded weights --------------------------------------------------------------------------------------------


def test_the_paper_s_sentences_are_ordered(models: Models) -> None:
    extracted, glued = values([EXTRACTED, GLUED], models)
    assert extracted > glued
    assert glued < 0


def test_order_of_words_matters(models: Models) -> None:
    orderly = "The committee approved the new budget after a long debate on Monday."
    scrambled = "Budget debate the a after approved Monday long committee new on the."
    first, second = values([orderly, scrambled], models)
    assert first > second


def test_neighbours_do_not_matter(models: Models) -> None:
    texts = [EXTRACTED, "Yes.", GLUED]
    assert values(texts, models) == pytest.approx([values([text], models)[0] for text in texts], abs=1e-5)


def test_odd_texts(models: Models) -> None:
    empty, blank, odd, long = values(["", " \n", "😀 \x00 !!! \ud800", "word " * 1500], models)
    assert math.isnan(empty)
    assert math.isnan(blank)
    assert math.isfinite(odd)
    assert math.isfinite(long)


def test_signature_tells_what_a_score_depends_on(models: Models) -> None:
    for part in (f"config:{models.config}", "parser:biaffine:", "link-grammar-5"):
        assert part in gleu.signature(models)


def test_explain_goes_all_the_way(models: Models) -> None:
    explanation = gleu.explain(GLUED, models)
    assert explanation.score[gleu.NAME] == pytest.approx(values([GLUED], models)[0])
    assert set(gleu.PAPER_JUDGEMENTS) <= set(explanation.classifier.dimensions)


def test_another_link_grammar_is_warned_of(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gleu, "load_classifier", lambda file: CLASSIFIER)
    monkeypatch.setattr(
        gleu, "load_parsers", lambda *_, **__: replace(models, grammar=type("", (), {"version": "6"})())
    )
    with pytest.warns(UserWarning, match=r"trained with link-grammar-5.12.0, but 6 is installed"):
        gleu.load(parser=f"another for {models.config}")


def test_unknown_config_names_the_known() -> None:
    with pytest.raises(ValueError, match="'default', 'paper'"):
        gleu.load("best")


def test_reproduction_is_reported() -> None:
    report = json.loads((weights.EMBEDDED / gleu.NAME / "report.json").read_text())
    default, published = report["default"], report["published"]
    assert default["accuracy_on_test"] > 0.78
    assert default["correlation_with_run_length"][gleu.NAME] > published["correlation_with_run_length"][gleu.NAME]
    assert default["means"]["24"] > default["means"]["8"] > default["means"]["1"]


# --- training --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def newspaper(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    from training import gleu_parser_svm as trainer

    file = tmp_path_factory.mktemp("news") / "news.txt"
    dice = trainer.Dice(1)
    nouns, verbs = ["bank", "firm", "state", "group", "union"], ["said", "saw", "bought", "sold", "left"]
    lines = []
    for _ in range(300):
        clauses = [f"the {dice.choice(nouns)} {dice.choice(verbs)} the {dice.choice(nouns)}" for _ in range(4)]
        lines.append(f"The {dice.choice(nouns)} {dice.choice(verbs)} {' '.join(clauses)}.\n")
    file.write_text("".join(lines) + "LOL the bank said.\n")
    return trainer.Newspaper([str(file)])


def test_runs_are_glued_by_bigrams(newspaper) -> None:  # type: ignore[no-untyped-def]
    from training import gleu_parser_svm as trainer

    assert len(newspaper.whole_sentences()) > 100
    known = {pair for sentence in newspaper.sentences for pair in pairwise(sentence)}
    for run_length in (1, 2, 8):
        for sentence in islice(newspaper.glued(run_length, trainer.Dice(2)), 5):
            tokens = trainer.tokens(sentence)
            assert trainer.is_presentable(tokens)
            assert sum(pair in known for pair in pairwise(tokens)) >= len(tokens) - 2
    assert "LOL" not in newspaper.places


def test_structures_are_filled_without_repeats(newspaper) -> None:  # type: ignore[no-untyped-def]
    from training import gleu_parser_svm as trainer

    words = [tuple(token.strip() for token in sentence) for sentence in newspaper.sentences]
    parses = [Parse(row, tuple(word[0] for word in row), (0,) * 24, ("dep",) * 24, (1.0,) * 24) for row in words]
    lexicon = trainer.Lexicon.of(parses, trainer.tags)
    filled = lexicon.fill(["T", "b", "s", "t", "f"], trainer.Dice(3))
    assert filled is not None
    assert len(set(filled)) == 5
    assert [word[0] for word in filled] == ["T", "b", "s", "t", "f"]
    assert lexicon.fill(["t"] * 3, trainer.Dice(3)) is None
    template = next(trainer.sequence_templates([parse.tags for parse in parses], trainer.Dice(4)))
    assert len(template) == trainer.LENGTH


def test_machine_learns_and_exports_its_numbers() -> None:
    from training import gleu_parser_svm as trainer

    dice = np.random.default_rng(5)
    fluent = np.repeat([True, False], 100)
    rows = [
        {"fragments": 2 + 3 * (not good) + noise, "parse_log_probability": -100 - 40 * (not good) + noise,
         "null_tokens": 0.0 if good else 0.3, "invalid_parses": math.nan if good else 0.5}
        for good, noise in zip(fluent, dice.normal(size=200), strict=True)
    ]  # fmt: skip
    classifier = trainer.fitted(rows, fluent, gleu.PAPER_JUDGEMENTS, "test")
    assert np.mean((trainer.decisions(classifier, rows) > 0) == fluent) > 0.95
    assert classifier.dimensions["fragments"].weight < 0 < classifier.dimensions["parse_log_probability"].weight
    by_hand = sum(classifier.contributions(rows[0]).values()) + classifier.bias
    assert trainer.decisions(classifier, rows[:1])[0] == pytest.approx(by_hand)
