"""How the head-driven model is estimated: by counting, on treebanks and on plain text that our parser has parsed.

    python -m training.head_driven_model --treebanks ud_ewt_train.conllu.xz gum_dep_train.conllu.xz \
        --corpus reuters.txt.xz wikipedia.txt.xz --minutes 10 --out metrics/textfluency/weights/head_driven

A treebank's trees are right but few; parsed text has the words. Contexts and outcomes that are rare are left out until
the table is small enough: first those with the longest contexts, of which most are seen once and never again.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from tqdm import tqdm

from textfluency.parsing import dependency, head_driven
from textfluency.parsing.dependency import Parse
from textfluency.parsing.head_driven import (
    COUNT,
    KINDS,
    OUTCOME,
    STRUCTURE_CONTEXTS,
    TOTAL,
    WORD_CONTEXTS,
    HeadDrivenModel,
    Integers,
    encoded,
    entry,
    events_of,
    mixed,
)
from textfluency.sentences import sentences, words
from training.corpora import paragraphs
from training.parser import read_treebank

LARGEST_TABLE = 1_180_000  # entries of five bytes: just below 6 MB
FEWEST_WORDS, MOST_WORDS = 4, 60  # per sentence of plain text; headings and lists teach little
SENTENCES_AT_A_TIME = 1000
HELD_OUT_EVERY = 50  # one parsed sentence in so many measures the model and is not counted
RESERVED_FIFTHS = 3  # of all paragraphs are not counted: training.gleu_parser_svm takes its sentences from them
NOISE = "LOL"  # Reuters-21578 as we have it has lines garbled by this


class Counts:
    """Events by context length, gathered in pieces and counted at the end."""

    def __init__(self, contexts: Sequence[tuple[int, ...]]) -> None:
        self.contexts = contexts
        self.pieces: list[Integers] = []

    def add(self, events: Integers) -> None:
        self.pieces.append(events)

    def entries(self, fewest: Sequence[int]) -> Iterator[tuple[NDArray[np.uint32], NDArray[np.int64]]]:
        """Keys and counts of the table, without outcomes seen less than `fewest` times, given per context length."""
        events = np.concatenate(self.pieces)
        for columns, smallest in zip(self.contexts, fewest, strict=True):
            outcomes, first, counts = np.unique(
                mixed(events, (*columns, OUTCOME)), return_index=True, return_counts=True
            )
            kept = counts >= smallest
            owners, contexts = np.unique(mixed(events[first[kept]], columns), return_inverse=True)
            totals = np.bincount(contexts, weights=counts[kept], minlength=len(owners)).astype(np.int64)
            kinds = np.bincount(contexts, minlength=len(owners))
            yield entry(outcomes[kept], COUNT), counts[kept]
            yield entry(owners, TOTAL), totals
            yield entry(owners, KINDS), kinds


def table(structure: Counts, word: Counts, fewest: int = 2) -> HeadDrivenModel:
    """The model from all counts, without rare outcomes, the more of them left out the more its size demands."""
    while True:
        parts = [
            *structure.entries([fewest, fewest // 2, 1, 1]),
            *word.entries([fewest, fewest // 2, fewest // 4, min(fewest, 2)]),
        ]
        keys = np.concatenate([keys for keys, _ in parts])
        if len(keys) <= LARGEST_TABLE:
            keys, first = np.unique(keys, return_index=True)
            return HeadDrivenModel("untold", keys, encoded(np.concatenate([counts for _, counts in parts])[first]))
        fewest += 1


def plain_sentences(files: Sequence[str]) -> Iterator[list[str]]:
    """Sentences of the files, by turns one paragraph from each."""
    streams = [paragraphs([file]) for file in files]
    while streams:
        for stream in list(streams):
            paragraph = next(stream, None)
            if paragraph is None:
                streams.remove(stream)
            elif NOISE not in paragraph and not is_reserved(paragraph):
                for sentence in sentences(paragraph):
                    if FEWEST_WORDS <= len(tokens := words(sentence)) <= MOST_WORDS:
                        yield tokens


def is_reserved(paragraph: str) -> bool:
    """Whether a paragraph is kept for experiments, which must not meet a model that has seen their sentences."""
    return zlib.crc32(paragraph.encode()) % 5 < RESERVED_FIFTHS


def per_word(model: HeadDrivenModel, parses: Sequence[Parse]) -> dict[str, float]:
    """Mean logarithms per word: what the report tells, lower in size is better."""
    count = sum(len(parse.words) for parse in parses)
    scores = model.score(parses)
    return {
        part: round(sum(getattr(score, part) for score in scores) / max(count, 1), 4)
        for part in ("structure", "words", "unigrams")
    }


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--treebanks", nargs="+", required=True, metavar="FILE", help="CoNLL-U; .xz, .gz too")
    command.add_argument("--corpus", nargs="*", default=[], metavar="FILE", help="plain text, one paragraph per line")
    command.add_argument("--minutes", type=float, default=10, help="of parsing plain text (default: %(default)s)")
    command.add_argument("--sentences", type=int, help="of plain text at most")
    command.add_argument("--parser", help="folder or spacy:PIPELINE (default: the embedded one)")
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the weights go")
    options = command.parse_args()
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    parser = dependency.load(options.parser)
    structure, word = Counts(STRUCTURE_CONTEXTS), Counts(WORD_CONTEXTS)
    held_out: list[Parse] = []
    counted = {"sentences": 0, "words": 0}

    def count(parses: Sequence[Parse]) -> None:
        events = events_of(parses)
        structure.add(events.structure)
        word.add(events.words)
        counted["sentences"] += len(parses)
        counted["words"] += len(events.words)

    for file in options.treebanks:
        gold = [
            Parse(tuple(tree.words), tuple(tree.tags), tuple(tree.heads), tuple(tree.labels), (1.0,) * len(tree.words))
            for tree in read_treebank(file)
        ]
        count(gold)
    end = time.monotonic() + 60 * options.minutes
    stream = islice(plain_sentences(options.corpus), options.sentences)
    bar = tqdm(desc="parsing", unit=" sentences")
    while time.monotonic() < end and (batch := list(islice(stream, SENTENCES_AT_A_TIME))):
        parses = parser.parse(batch)
        held_out += parses[::HELD_OUT_EVERY]
        count([parse for index, parse in enumerate(parses) if index % HELD_OUT_EVERY])
        bar.update(len(batch))
    bar.close()

    model = table(structure, word)
    save_file({"keys": model.keys, "codes": model.codes}, options.out / "model.safetensors")
    report: dict[str, Any] = {
        "parser": parser.name,
        "counted": counted,
        "entries": len(model.keys),
        "held_out_sentences": len(held_out),
        "held_out_log_probability_per_word": per_word(head_driven.load(options.out), held_out),
    }
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
