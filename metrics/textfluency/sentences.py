"""Text to sentences to words.

Sentences: Punkt (Kiss & Strunk 2006) with parameters that we trained and ship as JSON, so nothing is downloaded.
Words: the conventions of the English treebanks: punctuation stands alone, clitics are split off (`do n't`, `it 's`),
hyphenated words fall into their parts, and scripts without spaces fall into characters.

>>> words("He doesn't live in the U.S., I'm sure.")
['He', 'does', "n't", 'live', 'in', 'the', 'U.S.', ',', 'I', "'m", 'sure', '.']
>>> sentences("Dr. Brown came at 3.30 p.m. on Monday. Nobody saw him.")
['Dr. Brown came at 3.30 p.m. on Monday.', 'Nobody saw him.']
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING, NamedTuple

import regex

from textfluency import weights

if TYPE_CHECKING:
    from nltk.tokenize.punkt import PunktSentenceTokenizer

WORD = regex.compile(
    r"""
      (?:\p{L}\.){2,}                                      # initials and abbreviations: U.S., p.m.
    | (?:Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr)\.(?=\s)               # titles keep their dot
    | [\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]\p{M}*  # no spaces: one character, one word
    | \d+(?:[.,:]\d+)+                                     # 1,234.5 and 3:30
    | \p{L}[\p{L}\p{M}]*?(?=n['’]t\b)                      # do|n't, ca|n't
    | n['’]t\b
    | ['’](?:s|re|ve|ll|d|m)\b                             # it|'s, we|'re
    | [\p{L}\p{N}_][\p{L}\p{M}\p{N}_]*(?:['’](?!(?:s|re|ve|ll|d|m|t)\b)\p{L}[\p{L}\p{M}]*)*   # word, o'clock, 1980s
    | \.{2,} | -{2,} | [^\s]                               # dots, dashes, any other sign alone
    """,
    regex.VERBOSE | regex.IGNORECASE,
)


LONGEST_REMEMBERED = 32  # characters between two spaces


class Sentence(NamedTuple):
    text: str
    start: int
    end: int


def words(text: str) -> list[str]:
    """The words and punctuation marks of a text, in order."""
    *chunks, last = text.split(" ")
    found: list[str] = []
    for chunk in chunks:
        found += _words_of(chunk + " ")
    return found + _words_of(last)


def _words_of(chunk: str) -> list[str]:
    return _remembered_words(chunk) if len(chunk) <= LONGEST_REMEMBERED else _find_words(chunk)


def _find_words(chunk: str) -> list[str]:
    found: list[str] = WORD.findall(chunk)
    return found


_remembered_words = functools.lru_cache(maxsize=2**16)(
    _find_words
)  # a text repeats its words; none reaches over a space


def sentences(text: str) -> list[str]:
    """The sentences of a text, without surrounding white space."""
    return [sentence.text for sentence in sentence_spans(text)]


def sentence_spans(text: str) -> list[Sentence]:
    """The sentences with their character positions in the text."""
    return [Sentence(text[start:end], start, end) for start, end in _punkt().span_tokenize(text)]


@functools.lru_cache(maxsize=1)
def _punkt() -> PunktSentenceTokenizer:
    from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer

    stored = json.loads((weights.resolve("sentences") / "punkt.json").read_text(encoding="utf-8"))
    parameters = PunktParameters()
    parameters.abbrev_types = set(stored["abbreviations"])
    parameters.collocations = {(first, second) for first, second in stored["collocations"]}
    parameters.sent_starters = set(stored["sentence_starters"])
    parameters.ortho_context.update(stored["orthographic_context"])
    return PunktSentenceTokenizer(parameters)
