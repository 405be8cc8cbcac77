"""Trains wpslor's word-piece language model: `python -m training.wpslor --corpus FILES --out FOLDER`.

First sentencepiece learns 16,000 pieces, then the LSTM learns to predict them. The folder gets model.safetensors,
tokenizer.model, unigrams.safetensors, config.json and report.json, and can be used at once: TEXTFLUENCY_WEIGHTS names a
folder that holds it as `wpslor`.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Iterable
from pathlib import Path

import torch

from textfluency import lstm, unigrams
from textfluency.tokenizers import END, START, PieceTokenizer
from training import language_model
from training.corpora import paragraphs

VOCABULARY = 16_000  # Kann, Rothe & Filippova 2018, section 4
WIDTH = 384  # of the embedding
STEPS = 12_000
SAMPLE = 4_096
SENTENCEPIECE_PARAGRAPHS = 200_000  # a random sample of so many is plenty for 16,000 pieces


def train_pieces(source: Iterable[str], folder: Path) -> None:
    import sentencepiece

    dice = random.Random(language_model.SEED)
    reservoir: list[str] = []
    for number, paragraph in enumerate(source):
        if number < SENTENCEPIECE_PARAGRAPHS:
            reservoir.append(paragraph)
        elif (slot := dice.randrange(number + 1)) < SENTENCEPIECE_PARAGRAPHS:
            reservoir[slot] = paragraph
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(reservoir),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=VOCABULARY,
        hard_vocab_limit=False,  # a small corpus may not have so many pieces
        character_coverage=0.9998,
        max_sentence_length=100_000,
        num_threads=2,
        minloglevel=2,
    )
    (folder / "tokenizer.vocab").unlink()


def make_encoder(folder: Path) -> language_model.Encoder:
    return PieceTokenizer.load(folder).encode


def main() -> None:
    options = language_model.arguments(__doc__, steps=STEPS, sample=SAMPLE, out=Path("weights/wpslor"))
    if not (options.resume and (options.out / PieceTokenizer.FILE).exists()):
        train_pieces(paragraphs(options.corpus, options.dataset), options.out)
    size = len(PieceTokenizer.load(options.out).vocabulary)
    corpus = language_model.encoded(options, functools.partial(make_encoder, options.out), END)
    counts = corpus.counts(size)
    torch.manual_seed(language_model.SEED)
    network = lstm.LstmNetwork(size, WIDTH)
    report = language_model.train(corpus, counts, network, start=START, options=options)
    lstm.save(network, options.out)
    unigrams.save(counts, options.out)
    language_model.write_report(options.out, {"name": "wpslor", "vocabulary": size, **report})


if __name__ == "__main__":
    main()
