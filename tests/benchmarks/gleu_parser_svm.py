"""How many sentences per second the parsers of gleu_parser_svm judge.

    python -m tests.benchmarks.gleu_parser_svm [FILE]

FILE holds plain text; without it a few sentences are repeated. Link Grammar runs in this process and in one and two
workers; two should do 1.8 times the work of one where two cores are free.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from textfluency import gleu_parser_svm as gleu
from textfluency.parsing import link_grammar
from textfluency.sentences import sentences, words

SENTENCES = 200
SAMPLE = (
    "The central bank said on Tuesday that it had bought government bonds worth two billion dollars to calm markets. "
    "Analysts who had expected a rise in interest rates were surprised, and shares of most companies fell a little. "
    "The minister told reporters in Paris that no decision would be taken before the end of the year, officials said. "
)


def rate(run: Callable[[], object], count: int) -> float:
    """Per second of the clock, after a first run that fills caches and starts workers."""
    run()
    start = time.perf_counter()
    run()
    return count / (time.perf_counter() - start)


def main(file: str | None = None) -> None:
    torch.set_num_threads(2)
    texts = sentences(Path(file).read_text(encoding="utf-8") if file else SAMPLE * SENTENCES)[:SENTENCES]
    tokens = [words(text) for text in texts]
    length = sum(map(len, tokens)) / len(tokens)
    models = gleu.load("default")
    parses = models.parser.parse(tokens)
    print(f"{len(texts)} sentences of {length:.1f} words{'sentences/s':>24}")
    parsing = rate(partial(models.parser.parse, tokens), len(texts))
    print(f"{'dependency parser':<38}{parsing:12.0f}   {parsing * length:.0f} words/s")
    print(f"{'head-driven model':<38}{rate(partial(models.tree_model.score, parses), len(texts)):12.0f}")
    for workers in (0, 1, 2):
        grammar = link_grammar.load(workers=workers)
        name = f"Link Grammar, {workers or 'no'} workers"
        print(f"{name:<38}{rate(partial(grammar.parse, texts), len(texts)):12.0f}")
        grammar.close()
    for config in gleu.CONFIGS:
        whole = gleu.load(config)
        print(f"{'all, ' + config:<38}{rate(partial(gleu.extract, texts, whole), len(texts)):12.0f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
