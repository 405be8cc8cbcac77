"""rouge_l and rouge_lm: the spec's numbers, google's rouge_score, scikit-learn, invariants, a toy language model."""

from __future__ import annotations

import json
import math
import random
import warnings
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from textfluency import aggregation, rouge_l, rouge_lm, wpslor
from textfluency.language_model import LanguageModel
from textfluency.rouge_lm import Normalization
from training import rouge_lm as training
from training.meta_evaluation import Row

WORDS = st.lists(st.sampled_from(["the", "police", "kill", "killed", "gunman", ",", "."]), max_size=12).map(" ".join)


def rouge(prediction: str, *references: str, beta: float = 1.0, tokenizer: rouge_l.TokenizerName = "words") -> float:
    (features,) = rouge_l.extract([prediction], [references], tokenizer=tokenizer)
    return rouge_l.score(features, beta)["rouge_l"]


def slow_common_length(first: list[str], second: list[str]) -> int:
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, word in enumerate(first):
        for j, other in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if word == other else max(table[i][j + 1], table[i + 1][j])
    return table[-1][-1]


# --- ROUGE-L ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tokenizer", ["words", "rouge_score"])
def test_the_specs_check_values(tokenizer):
    text = "police killed the gunman"
    assert rouge(text, "police kill the gunman", tokenizer=tokenizer) == 0.75
    assert rouge(text, "the gunman kill police", tokenizer=tokenizer) == 0.5


def test_the_best_reference_counts_and_the_first_of_equals():
    references = ["the gunman kill police", "police kill the gunman", "Police kill the gunman"]
    (features,) = rouge_l.extract(["police killed the gunman"], [references])
    assert rouge_l.score(features) == {"rouge_l": 0.75, "precision": 0.75, "recall": 0.75, "best_reference": 1.0}


@given(WORDS, WORDS, st.sampled_from([0.5, 1.0, 1.2, 3.0]))
def test_the_short_formula_is_the_papers(prediction, reference, beta):
    common = slow_common_length(prediction.split(), reference.split())
    expected = 0.0
    if common:
        precision, recall = common / len(prediction.split()), common / len(reference.split())
        expected = (1 + beta**2) * precision * recall / (recall + beta**2 * precision)
    assert rouge(prediction, reference, beta=beta) == pytest.approx(expected, abs=1e-12)


def test_the_best_reference_depends_on_beta():
    """A long reference that holds the whole text has precision 1; a short one that the text holds has recall 1."""
    (features,) = rouge_l.extract(["a b c d"], [["a b c d e f g h", "a b"]])
    assert rouge_l.score(features, beta=0.1)["best_reference"] == 0
    assert rouge_l.score(features, beta=10)["best_reference"] == 1


@given(st.text(min_size=1).filter(rouge_l.words), WORDS)
def test_identity_is_one_and_bounds_hold(text, other):
    assert rouge(text, text) == 1
    assert rouge(text, other, text) == 1
    assert 0 <= rouge(text, other) <= 1


@given(WORDS, WORDS)
def test_f1_is_symmetric_and_more_references_never_hurt(first, second):
    assert rouge(first, second) == rouge(second, first)
    assert rouge(first, second, "police") >= rouge(first, second)


@pytest.mark.parametrize(
    "text",
    ["ตำรวจยิงคนร้าย", "警察击毙了枪手。", "警官が犯人を射殺した", "Полиция убила стрелка", "경찰이 총격범을 사살했다"],
)
def test_every_script_counts(text):
    assert rouge(text, text) == 1
    assert rouge(text, text, tokenizer="rouge_score") == 0  # what google's tokenizer makes of it


def test_chinese_is_compared_by_characters():
    assert rouge("警察击毙了枪手", "警察打死了枪手") == pytest.approx(5 / 7)


@pytest.mark.parametrize(("prediction", "references"), [("", ["a b"]), ("  ", ["a b"]), ("a b", [""]), ("", [""])])
def test_nothing_in_common_is_zero(prediction, references):
    assert rouge(prediction, *references) == 0


def random_texts(count: int) -> list[str]:
    dice = random.Random(1)
    pool = [
        "police",
        "Killed",
        "the",
        "THE",
        "gunman",
        "don't",
        "U.S.",
        "1,234.5",
        "naïve",
        "Łódź",
        "co-op",
        "x_y",
        "警察",
    ]
    pool += ["ß", "İstanbul", "K", "—", "...", "\n", "\t", "a", "b2b", "E=mc²", "😀"]
    return [dice.choice(" \n").join(dice.choices(pool, k=dice.randrange(25))) for _ in range(count)]


def test_equals_googles_rouge_score():
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    predictions, references = random_texts(2000)[:1000], random_texts(2000)[1000:]
    found = rouge_l.extract(predictions, [[reference] for reference in references], tokenizer="rouge_score")
    for features, prediction, reference in zip(found, predictions, references, strict=True):
        expected, score = scorer.score(reference, prediction)["rougeL"], rouge_l.score(features)
        assert score["rouge_l"] == pytest.approx(expected.fmeasure, abs=1e-9)
        assert score["precision"] == pytest.approx(expected.precision, abs=1e-9)
        assert score["recall"] == pytest.approx(expected.recall, abs=1e-9)
    several = rouge_l.extract(predictions[:200], [references[i : i + 4] for i in range(200)], tokenizer="rouge_score")
    for i, features in enumerate(several):
        expected = scorer.score_multi(references[i : i + 4], predictions[i])["rougeL"].fmeasure
        assert rouge_l.score(features)["rouge_l"] == pytest.approx(expected, abs=1e-9)


@given(WORDS, WORDS)
def test_alignment_is_a_longest_common_subsequence(prediction, reference):
    found = rouge_l.align(prediction, reference)
    assert len(found.matches) == slow_common_length(prediction.split(), reference.split())
    assert all(found.prediction[i] == found.reference[j] for i, j in found.matches)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(found.matches))
    upper, under, lower = str(found).split("\n")
    assert upper.split()[1:] == prediction.split()
    assert lower.split()[1:] == reference.split()
    assert len(under.split()) == len(found.matches)


def test_alignment_as_drawn():
    assert str(rouge_l.align("He said the gunman fled .", "the masked gunman had fled , police said .")).split(
        "\n"
    ) == [
        "prediction  he said the        gunman     fled               .",
        "                    ---        ------     ----               -",
        "reference           the masked gunman had fled , police said .",
    ]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="'words', 'rouge_score', got 'moses'"):
        rouge("a", "a", tokenizer="moses")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shorter"):
        rouge_l.extract(["a", "b"], [["a"]])


# --- normalization ---------------------------------------------------------------------------------------------------


def test_the_specs_test_vector():
    found = Normalization.of([0.2, 0.4, 0.6], [1, 3, 2])
    scores = [found.z_scores(*pair) for pair in zip([0.2, 0.4, 0.6], [1, 3, 2], strict=True)]
    np.testing.assert_allclose(np.array(scores).T, [[-1.2247, 0, 1.2247], [-1.2247, 1.2247, 0]], atol=5e-5)
    assert [sum(pair) for pair in scores] == pytest.approx([-2.4495, 1.2247, 1.2247], abs=5e-5)


def test_a_constant_half_counts_nothing_and_warns():
    with pytest.warns(UserWarning, match="ROUGE-L of all 3 texts is the same"):
        found = Normalization.of([0.1 + 0.2] * 3, [1, 3, 2])
    assert found.z_scores(0.3, 2) == (0.0, 0.0)
    assert found.z_scores(0.9, 3) == (0.0, pytest.approx(1.2247, abs=5e-5))
    assert math.isnan(found.z_scores(math.nan, 3)[0])


def test_empty_texts_are_left_out_of_the_fit():
    assert Normalization.of([0.2, 0.0, 0.4, 0.6], [1, math.nan, 3, 2]) == Normalization.of([0.2, 0.4, 0.6], [1, 3, 2])


def test_normalization_is_kept_as_json_with_a_fingerprint(tmp_path):
    found = Normalization.of([0.2, 0.4, 0.6], [1, 3, 2], "toy")
    found.save(tmp_path / "statistics.json")
    assert Normalization.load(tmp_path / "statistics.json") == found
    assert json.loads((tmp_path / "statistics.json").read_text())["texts"] == 3
    assert found.fingerprint == replace(found).fingerprint != replace(found, rouge_sd=0.5).fingerprint


def test_negative_deviations_are_refused():
    with pytest.raises(ValueError, match="cannot be negative"):
        Normalization(0, -1, 0, 1)


# --- with a toy language model ---------------------------------------------------------------------------------------


class ToyTokenizer:
    def tokenize(self, text: str) -> list[str]:
        return text.split()

    def encode(self, text: str) -> list[int]:
        return [3 + sum(map(ord, word)) % 47 for word in text.split()]


def toy(name: str = "toy@1", sharpness: float = 0.05) -> wpslor.Models:
    """ln p of a token depends on the token and the one before it, by a formula."""
    return wpslor.Models(
        LanguageModel(
            name=name,
            tokenizer=ToyTokenizer(),
            next_token_log_probabilities=lambda ids, targets: -1.0 - sharpness * ((7 * ids + 3 * targets) % 50).float(),
            start=1,
            end=2,
            unknown=0,
            window=64,
            unigram_log_probabilities=np.full(50, -math.log(50)),
            device="cpu",
        )
    )


def made_up_rows(count: int, seed: int = 0) -> list[Row]:
    dice = random.Random(seed)
    vocabulary = ["the", "police", "killed", "gunman", "a", "man", "in", "town", "last", "night", "fled", "and"]
    rows = []
    for _ in range(count):
        reference = dice.choices(vocabulary, k=dice.randint(4, 12))
        kept = [word for word in reference if dice.random() < 0.8] + dice.choices(vocabulary, k=2)
        share = len(kept) / (len(reference) + 2)
        rows.append(Row(" ".join(kept), {"quality": 1 + 5 * share + dice.random()}, (" ".join(reference),)))
    return rows


ROWS = made_up_rows(60)
TEXTS, REFERENCES = [row.text for row in ROWS], [list(row.references) for row in ROWS]


@pytest.fixture
def models():
    return rouge_lm.Models(toy(), Normalization(0.5, 0.2, 1.0, 0.5, 100, "toy@1"))


def test_score_is_the_sum_of_the_z_scores_of_both_halves(models):
    features = rouge_lm.extract(TEXTS, REFERENCES, models)
    fluency = [wpslor.score(item)["wpslor"] for item in wpslor.extract(TEXTS, models.wpslor)]
    for item, text, references, expected in zip(features, TEXTS, REFERENCES, fluency, strict=True):
        found = rouge_lm.score(item, models)
        assert found["rouge_l"] == rouge(text, *references)
        assert found["wpslor"] == expected
        assert found["z_rouge"] == pytest.approx((found["rouge_l"] - 0.5) / 0.2)
        assert found["z_wpslor"] == pytest.approx((expected - 1.0) / 0.5)
        assert found["rouge_lm"] == found["z_rouge"] + found["z_wpslor"]


def test_stored_statistics_score_one_text_alone_as_among_others(models):
    together = [rouge_lm.score(item, models) for item in rouge_lm.extract(TEXTS, REFERENCES, models)]
    for index in (0, 17):
        (alone,) = rouge_lm.extract(TEXTS[index : index + 1], REFERENCES[index : index + 1], models)
        assert rouge_lm.score(alone, models) == pytest.approx(together[index])


def test_empty_text_has_no_score_and_is_counted(models):
    features = rouge_lm.extract(["", "the police"], [["the police"], ["the police"]], models)
    scores = [rouge_lm.score(item, models) for item in features]
    assert scores[0]["rouge_l"] == 0
    assert math.isnan(scores[0]["rouge_lm"])
    found = rouge_lm.aggregate(scores, models)
    assert set(found) == {"rouge_lm", "rouge_l", "wpslor", "empty"}
    assert (found["rouge_lm"], found["rouge_l"], found["empty"]) == (scores[1]["rouge_lm"], 0.5, 1.0)


def test_batch_gives_the_means_of_the_halves_and_no_zero(models):
    features = rouge_lm.extract(TEXTS, REFERENCES, models)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        batch = rouge_lm.choose_normalization("batch", features, models)
    scores = [rouge_lm.score(item, models, normalization=batch) for item in features]
    assert aggregation.mean(scores, ["rouge_lm"])["rouge_lm"] == pytest.approx(0, abs=1e-9)
    found = rouge_lm.aggregate(scores, models, batch)
    assert math.isnan(found["rouge_lm"])
    assert found["rouge_l"] == pytest.approx(np.mean([rouge(t, *r) for t, r in zip(TEXTS, REFERENCES, strict=True)]))
    assert "normalization:batch" in rouge_lm.signature(models, normalization="batch")


def test_small_and_empty_batches_warn_and_do_not_raise(models):
    features = rouge_lm.extract(["", ""], [["a"], ["b"]], models)
    with pytest.warns(UserWarning, match="from 2 texts; fewer than 30"):
        batch = rouge_lm.choose_normalization("batch", features, models)
    scores = [rouge_lm.score(item, models, normalization=batch) for item in features]
    assert math.isnan(scores[0]["rouge_lm"])
    assert rouge_lm.aggregate(scores, models, batch)["empty"] == 2
    with pytest.warns(UserWarning, match="standard deviation is 0"), pytest.warns(UserWarning, match="from 1 texts"):
        rouge_lm.choose_normalization("batch", rouge_lm.extract(["the"], [["the"]], models), models)


def test_fit_on_the_pool_then_compare_two_systems(models, tmp_path):
    fitted = rouge_lm.fit(TEXTS, REFERENCES, models)
    assert (fitted.texts, fitted.language_model) == (60, "toy@1")
    fitted.save(tmp_path / "mine.json")
    system_means = []
    for part in (slice(0, 30), slice(30, 60)):
        features = rouge_lm.extract(TEXTS[part], REFERENCES[part], models)
        chosen = rouge_lm.choose_normalization(str(tmp_path / "mine.json"), features, models)
        scores = [rouge_lm.score(item, models, normalization=chosen) for item in features]
        system_means.append(rouge_lm.aggregate(scores, models, chosen)["rouge_lm"])
    assert sum(system_means) == pytest.approx(0, abs=1e-9)
    assert abs(system_means[0]) > 0.01
    assert fitted.fingerprint in rouge_lm.signature(models, normalization=fitted)
    with pytest.raises(ValueError, match="nothing to fit"):
        rouge_lm.fit([""], [["a"]], models)


def test_normalization_argument(models):
    numbers = {"rouge_mean": 0.0, "rouge_sd": 1.0, "wpslor_mean": 0.0, "wpslor_sd": 1.0}
    assert rouge_lm.choose_normalization(numbers, [], models) == Normalization(**numbers)
    assert rouge_lm.choose_normalization("stored", [], models) is models.normalization
    with pytest.raises(ValueError, match=r"got 'nowhere\.json'"):
        rouge_lm.choose_normalization("nowhere.json", [], models)
    with pytest.warns(UserWarning, match="fitted with the language model 'other'"):
        rouge_lm.choose_normalization(Normalization(0, 1, 0, 1, 5, "other"), [], models)
    without = rouge_lm.Models(toy("another@2"))
    with pytest.raises(ValueError, match="No statistics are stored for the language model 'another@2'"):
        rouge_lm.choose_normalization("stored", [], without)
    (features,) = rouge_lm.extract(["the"], [["the"]], without)
    with pytest.raises(ValueError, match='normalization="batch"'):
        rouge_lm.score(features, without)


def test_explanation_shows_what_is_shared_and_what_is_fluent(models):
    found = rouge_lm.explain("police killed the gunman", ["nobody fled", "police kill the gunman"], models)
    assert found.alignment.subsequence == ("police", "the", "gunman")
    assert found.score["best_reference"] == 1
    assert found.fluency.score["wpslor"] == found.score["wpslor"]
    shown = str(found)
    assert "reference   police kill   the gunman" in shown
    assert "ln p_M" in shown
    assert "rouge_lm" in shown


def test_signature_names_what_the_score_depends_on(models):
    found = rouge_lm.signature(models, beta=1.2, tokenizer="rouge_score")
    assert found.startswith("rouge_lm|combination:sum|")
    for part in (models.normalization.fingerprint, "beta:1.2", "tokenizer:rouge_score", "toy@1", "version:"):
        assert part in found


# --- training, the stored weights and the SVR ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Weights as training writes them, from made-up ratings."""
    folder = tmp_path_factory.mktemp("weights")
    sets = {"bagel": made_up_rows(80, 1), "sfres": made_up_rows(80, 2)}
    report = training.train(sets, rouge_lm.Models(toy()), folder / "rouge_lm", svr=True)
    return SimpleNamespace(folder=folder, sets=sets, report=report)


def test_svr_equals_scikit_learn(trained):
    rows = [row for members in trained.sets.values() for row in members]
    features = rouge_lm.extract([row.text for row in rows], [row.references for row in rows], rouge_lm.Models(toy()))
    inputs = training.halves(features)
    _, expected = training.fit_svr(inputs, training.targets(trained.sets), "toy@1")
    stored = rouge_lm.Regression.load(trained.folder / "rouge_lm")
    elsewhere = np.random.default_rng(0).normal(1, 2, (200, 2))
    for points in (inputs, elsewhere):
        found = [stored.predict(fluency, overlap) for fluency, overlap in points]
        np.testing.assert_allclose(found, expected.predict(points), atol=1e-6)
    assert expected.get_params()["gamma"] == 1 / inputs.shape[1]
    assert not list(trained.folder.rglob("*.pkl"))


def test_stored_weights_are_found_by_language_model(trained, monkeypatch):
    monkeypatch.setenv("TEXTFLUENCY_WEIGHTS", str(trained.folder))
    models = rouge_lm.load(language_model=toy())
    assert models.regression is None
    assert models.normalization.texts == 160
    assert rouge_lm.load(language_model=toy("another@2")).normalization is None
    svr = rouge_lm.load("svr", language_model=toy())
    (features,) = rouge_lm.extract(["the police fled"], [["the police fled"]], svr)
    found = rouge_lm.score(features, svr)
    assert found["rouge_lm"] == svr.regression.predict(found["wpslor"], 1.0)
    assert found["z_rouge"] == rouge_lm.score(features, models)["z_rouge"]
    assert f"svr@{svr.regression.fingerprint}" in rouge_lm.signature(svr)
    with pytest.raises(ValueError, match="fitted with the language model 'toy@1' and knows nothing of 'another@2'"):
        rouge_lm.load("svr", language_model=toy("another@2"))


def test_svr_of_an_empty_text_is_nan_and_a_batch_has_a_mean(trained, monkeypatch):
    monkeypatch.setenv("TEXTFLUENCY_WEIGHTS", str(trained.folder))
    svr = rouge_lm.load("svr", language_model=toy())
    features = rouge_lm.extract(["", *TEXTS], [["a"], *REFERENCES], svr)
    batch = rouge_lm.choose_normalization("batch", features, svr)
    scores = [rouge_lm.score(item, svr, normalization=batch) for item in features]
    assert math.isnan(scores[0]["rouge_lm"])
    assert 1 < rouge_lm.aggregate(scores, svr, batch)["rouge_lm"] < 3


def test_report_says_what_it_was_fitted_on_and_how_well(trained):
    report = json.loads((trained.folder / "rouge_lm" / "report.json").read_text())
    assert report["sets"]["bagel"] == {"texts": 80, "dimension": "quality", "licence": "MIT (Novikova et al. 2017)"}
    pooled = report["agreement"]["pooled"]["metrics"]
    assert pooled["rouge_l"]["pearson"]["value"] > 0.3  # by construction of the made-up ratings
    assert {"svr, cross-validated", "svr, trained on the other sets", "rouge_lm", "wpslor"} <= set(pooled)
    assert report["svr"]["gamma"] == 0.5


def test_a_second_language_model_keeps_the_first(trained, tmp_path):
    for name in ("toy@1", "another@2"):
        training.train(trained.sets, rouge_lm.Models(toy(name)), tmp_path, svr=False)
    assert set(json.loads((tmp_path / "statistics.json").read_text())) == {"toy@1", "another@2"}


def test_targets_lie_on_the_papers_scale(trained):
    found = training.targets(trained.sets)
    assert found.mean() == pytest.approx(2)
    assert found.std() == pytest.approx(0.574)
    assert found[:80].mean() == pytest.approx(found[80:].mean())
