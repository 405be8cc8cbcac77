"""Tokenised text back to natural text, so that a model judges the writing and not the spacing.

System outputs often come tokenised: `He does n't , -LRB- she said -RRB- .` A language model of natural text has never
seen that. Text that is natural already is returned as it is, byte for byte.

>>> normalize("He does n't know , -LRB- she said -RRB- .")
"He doesn't know, (she said)."
>>> normalize("already natural, isn't it?")
"already natural, isn't it?"
"""

from __future__ import annotations

from typing import Literal, get_args

import regex

Mode = Literal["auto", "off"]

SPACED_MARK = regex.compile(r"\s(?:[.,;:?!]|n['’]t|['’](?:s|re|ve|ll|d|m))(?=\s|$)", regex.IGNORECASE)
ATTACHED_MARK = regex.compile(
    r"(?<=[\p{L}\p{N}])(?:[.,;:?!](?=\s|$)|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)", regex.IGNORECASE
)
TOKENIZER_SIGN = regex.compile(
    r"-[LR][RSC]B-|(?<=^|\s)(?:``|'')(?=\s|$)|\s@[-,.]@\s|&(?:apos|quot|#91|#93);", regex.IGNORECASE
)

REPLACEMENTS = {  # what the Penn Treebank's and Moses' tokenisers write, in lower case
    "-lrb-": "(", "-rrb-": ")", "-lsb-": "[", "-rsb-": "]", "-lcb-": "{", "-rcb-": "}", "``": '"', "''": '"',
    " @-@ ": "-", " @,@ ": ",", " @.@ ": ".", "&apos;": "'", "&quot;": '"', "&#91;": "[", "&#93;": "]",
    "&lt;": "<", "&gt;": ">", "&amp;": "&",
}  # fmt: skip
REPLACED = regex.compile("|".join(map(regex.escape, REPLACEMENTS)), regex.IGNORECASE)
NO_SPACE_BEFORE = regex.compile(r"(?<!\s)\s++(?=[.,;:?!%)\]}]|n['’]t\b|['’](?:s|re|ve|ll|d|m)\b)", regex.IGNORECASE)
NO_SPACE_AFTER = regex.compile(r"(?<=(?:^|\s)[(\[{$£€#])\s+")
LONE_QUOTE = regex.compile(r"(?<=^|\s)([\"'])(?=\s|$|[.,;:?!])")


def normalize(text: str, mode: Mode = "auto") -> str:
    """Restores natural spacing, brackets and quotes where a text is tokenised; `off` leaves every text alone."""
    if mode not in get_args(Mode):
        raise ValueError(f"`normalize` must be one of {', '.join(map(repr, get_args(Mode)))}, got {mode!r}.")
    return restore(text) if mode == "auto" and is_tokenized(text) else text


def is_tokenized(text: str) -> bool:
    """Whether marks stand apart from their words at least as often as they are attached to them."""
    if TOKENIZER_SIGN.search(text):
        return True
    spaced = len(SPACED_MARK.findall(text))
    return spaced > 0 and spaced >= len(ATTACHED_MARK.findall(text))


def restore(text: str) -> str:
    """Undoes the tokenisation of English text as far as that can be told."""
    text = REPLACED.sub(lambda match: REPLACEMENTS[match.group().lower()], text)
    text = _attach_quotes(text)
    text = NO_SPACE_BEFORE.sub("", text)
    text = NO_SPACE_AFTER.sub("", text)
    return text.strip()


def _attach_quotes(text: str) -> str:
    """Quotes that stand alone: the first opens, the second closes, and so on; a single odd ' is a genitive's."""
    for mark in ('"', "'"):
        alone = [match.start() for match in LONE_QUOTE.finditer(text) if match.group(1) == mark]
        characters = list(text)
        for number, position in enumerate(alone):
            opens = number % 2 == 0 and not (mark == "'" and number == len(alone) - 1)
            neighbour = position + 1 if opens else position - 1
            if 0 <= neighbour < len(characters) and characters[neighbour].isspace():
                characters[neighbour] = ""
        text = "".join(characters)
    return text
