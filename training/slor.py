"""Trains slor's word language model: `python -m training.slor --corpus FILES --out FOLDER`.

The vocabulary is the most frequent words; every other word is `<unk>`, which is thereby trained on rare words.
The folder gets model.safetensors, vocabulary.txt, unigrams.safetensors, config.json and report.json, and can be used at
once: TEXTFLUENCY_WEIGHTS names a folder that holds it as `slor`.
"""

from __future__ import annotations

import functools
import multiprocessing
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from textfluency import lstm, unigrams
from textfluency.sentences import words
from textfluency.tokenizers import END, SIGNS, START, WordTokenizer
from training import language_model
from training.corpora import paragraphs

VOCABULARY = 65_536
WIDTH = 192  # of the embedding: 65,536 rows of it in int8 fit the 20 MB that the weights may take
STEPS = 10_000
SAMPLE = 6_144


def count_words(texts: list[str]) -> Counter[str]:
    return Counter(word for text in texts for word in words(text))


def in_lists(items: Iterable[str], size: int = 2_000) -> Iterable[list[str]]:
    chunk: list[str] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    yield chunk


def build_vocabulary(source: Iterable[str]) -> WordTokenizer:
    """The most frequent words, frequent first, ties in alphabetical order."""
    counts: Counter[str] = Counter()
    with multiprocessing.Pool(os.cpu_count()) as pool:
        for part in pool.imap(count_words, in_lists(source)):
            counts.update(part)
    seen_twice = [(-count, word) for word, count in counts.items() if count > 1]  # count-1 words train <unk>
    return WordTokenizer([*SIGNS, *(word for _, word in sorted(seen_twice)[: VOCABULARY - len(SIGNS)])])


def make_encoder(folder: Path) -> language_model.Encoder:
    return WordTokenizer.load(folder).encode


def main() -> None:
    options = language_model.arguments(__doc__, steps=STEPS, sample=SAMPLE, out=Path("weights/slor"))
    if not (options.resume and (options.out / "vocabulary.txt").exists()):
        build_vocabulary(paragraphs(options.corpus, options.dataset)).save(options.out)
    size = len(WordTokenizer.load(options.out).vocabulary)
    corpus = language_model.encoded(options, functools.partial(make_encoder, options.out), END)
    counts = corpus.counts(size)
    torch.manual_seed(language_model.SEED)
    network = lstm.LstmNetwork(size, WIDTH)
    report = language_model.train(corpus, counts, network, start=START, options=options)
    lstm.save(network, options.out)
    unigrams.save(counts, options.out)
    language_model.write_report(options.out, {"name": "slor", "vocabulary": size, **report})


if __name__ == "__main__":
    main()
