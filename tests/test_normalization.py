"""Tokenised text becomes natural; natural text stays as it is."""

import doctest
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from textfluency import aggregation, inputs, language_model, normalization, sentences
from textfluency.normalization import is_tokenized, normalize
from textfluency.sentences import words

SENTENCES = (Path(__file__).parent / "golden" / "sentences.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    ("tokenized", "natural"),
    [
        ("revenues .", "revenues."),
        ("I do n't know , do you ?", "I don't know, do you?"),
        ("It 's theirs , and we 're late .", "It's theirs, and we're late."),
        ("-LRB- 22,500 kilometers -RRB-", "(22,500 kilometers)"),
        ("He said , `` Come in , '' and left .", 'He said, "Come in," and left.'),
        ('The " Outlander " novels , he said .', 'The "Outlander" novels, he said.'),
        ("It cost $ 5 ( or 10 % more ) .", "It cost $5 (or 10% more)."),
        ("a well @-@ known man &apos;s house .", "a well-known man's house."),
        ("The boys ' books , all of them .", "The boys' books, all of them."),
        ("he said -lrb- twice -rrb- no .", "he said (twice) no."),
        ("It cost 1 @,@ 000 euros and 2 @.@ 5 cents .", "It cost 1,000 euros and 2.5 cents."),
    ],
)
def test_tokenised_text_becomes_natural(tokenized, natural):
    assert is_tokenized(tokenized)
    assert normalize(tokenized) == natural
    assert normalize(tokenized, "off") == tokenized


@pytest.mark.parametrize(
    "natural",
    [
        *SENTENCES[:50],
        "",
        "  leading and trailing  ",
        "Two  spaces, kept.",
        "Wait... what?! No: it's 3:30 p.m. (really).",
        'He said "yes" and left.',
        "no punctuation at all",
        "日本語の文です。",
        "See http://example.org/a,b and e.g. this.",
        "Use ``x`` in code; it is 6'' tall, R&amp;D says.",
    ],
)
def test_natural_text_is_left_alone_byte_for_byte(natural):
    assert normalize(natural) == natural


@given(st.text(max_size=80))
def test_normalizing_twice_is_normalizing_once_for_our_own_sentences(noise):
    normalize(noise)  # never raises
    for sentence in SENTENCES[:20]:
        once = normalize(" ".join(words(sentence)))
        assert once == sentence
        assert normalize(once) == once


def test_a_long_run_of_spaces_takes_no_time():
    assert normalize("a , b" + " " * 200_000 + "c .") == "a, b" + " " * 200_000 + "c."


def test_a_wrong_mode_names_the_right_ones():
    with pytest.raises(ValueError, match="`normalize` must be one of 'auto', 'off', got 'yes'"):
        normalize("text", "yes")


@pytest.mark.parametrize("module", [aggregation, inputs, language_model, normalization, sentences])
def test_the_examples_in_the_docstrings_hold(module):
    result = doctest.testmod(module)
    assert result.failed == 0
    assert result.attempted > 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("don't can't won't", ["do", "n't", "ca", "n't", "wo", "n't"]),
        ("O'Brien's o'clock", ["O'Brien", "'s", "o'clock"]),
        ("well-known", ["well", "-", "known"]),
        ("$1,234.50 at 3:30", ["$", "1,234.50", "at", "3:30"]),
        ("Mr. Brown, the U.S. envoy", ["Mr.", "Brown", ",", "the", "U.S.", "envoy"]),
        ("中文字", ["中", "文", "字"]),
        ("wait... no--yes", ["wait", "...", "no", "--", "yes"]),
        ("", []),
        (" \t\n ", []),
    ],
)
def test_words(text, expected):
    assert words(text) == expected


@given(st.text())
def test_words_lose_nothing_but_white_space(text):
    assert "".join(words(text)) == "".join(sentences.WORD.findall(text))
    assert "".join("".join(words(text)).split()) == "".join(text.split())


def test_sentences_keep_their_positions():
    text = "Dr. Smith arrived at 5 p.m. today.  He was late! Was he? Yes."
    spans = sentences.sentence_spans(text)
    assert [span.text for span in spans] == ["Dr. Smith arrived at 5 p.m. today.", "He was late!", "Was he?", "Yes."]
    assert all(text[span.start : span.end] == span.text for span in spans)
    assert sentences.sentences("") == []
