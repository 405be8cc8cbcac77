"""How long tree_accuracy takes beside jiwer, on the same pairs in the same run.

    python -m tests.benchmarks.tree_accuracy [pairs [rounds]]

The sentences are made up: about 20 syllable words each, drawn by the law of Zipf and Mandelbrot, with its two constants
set so that 15% of the tokens are repetitions, as they were in stretches of 20 tokens of technical English (the
descriptions of scikit-learn's datasets). Predictions are edited, partly shuffled copies. jiwer splits at white space,
so the rows to compare with it do the same.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
from collections.abc import Callable

import jiwer

from textfluency import tree_accuracy

PAIRS = 5_000
ROUNDS = 7
VOCABULARY = 700
MANDELBROT = 0.5  # flattens the head of Zipf's law


def main(pairs: int = PAIRS, rounds: int = ROUNDS) -> None:
    predictions, references, trees = make(pairs)
    strings, parsed = tree_accuracy.load("string"), tree_accuracy.Models()

    def string_scores() -> None:
        tree_accuracy.aggregate(tree_accuracy.extract(predictions, references, strings, tokenizer=str.split))

    def all_scores() -> None:
        features = tree_accuracy.extract(predictions, references, parsed, trees=trees, tokenizer=str.split)
        tree_accuracy.aggregate(features)

    def default_tokenizer() -> None:
        tree_accuracy.aggregate(tree_accuracy.extract(predictions, references, strings))

    contestants: dict[str, Callable[[], object]] = {
        "jiwer.process_words": lambda: jiwer.process_words(references, predictions),
        "config 'string', str.split": string_scores,
        "config 'string', default tokenizer": default_tokenizer,
        "all scores, trees given, str.split": all_scores,
    }
    times = dict.fromkeys(contestants, float("inf"))
    for name, run in itertools.chain.from_iterable(itertools.repeat(list(contestants.items()), rounds)):
        # Processor time, and the best of interleaved rounds: other programs run on this machine too.
        start = time.process_time()
        run()
        times[name] = min(times[name], time.process_time() - start)

    tokens = [reference.split() for reference in references]
    repeated = sum(len(sentence) - len(set(sentence)) for sentence in tokens) / sum(map(len, tokens))
    print(f"{pairs} pairs of {sum(map(len, tokens)) / pairs:.1f} tokens, {repeated:.0%} of them repetitions\n")
    print(f"{'':36}microseconds per pair   times jiwer")
    base = times["jiwer.process_words"]
    for name, seconds in times.items():
        print(f"{name:36}{seconds / pairs * 1e6:21.1f}{seconds / base:14.2f}")


def make(pairs: int) -> tuple[list[str], list[str], list[list[int]]]:
    """Predictions, references and the trees of the references; the same in every run."""
    generator = random.Random(2000)
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    vocabulary = list(dict.fromkeys("".join(generator.choices(syllables, k=1 + n // 70)) for n in range(140)))
    while len(vocabulary) < VOCABULARY:
        vocabulary.append("".join(generator.choices(syllables, k=3)) + str(len(vocabulary)))
    frequencies = [1 / (rank + MANDELBROT) for rank in range(1, len(vocabulary) + 1)]
    predictions, references, trees = [], [], []
    for _ in range(pairs):
        sentence = generator.choices(vocabulary, frequencies, k=generator.randint(14, 26))
        references.append(" ".join(sentence))
        trees.append(projective_tree(len(sentence), generator))
        predictions.append(" ".join(edited(sentence, vocabulary, frequencies, generator)))
    return predictions, references, trees


def edited(sentence: list[str], vocabulary: list[str], frequencies: list[float], generator: random.Random) -> list[str]:
    """One to five edits: words dropped, added, replaced, and stretches of words moved."""
    result = list(sentence)
    for _ in range(generator.randint(1, 5)):
        place = generator.randrange(len(result))
        kind = generator.randrange(5)
        new = generator.choices(vocabulary, frequencies)
        if kind == 0:
            del result[place]
        elif kind == 1:
            result[place:place] = new
        elif kind == 2:
            result[place : place + 1] = new
        else:
            stretch = result[place : place + 4]
            del result[place : place + 4]
            target = generator.randint(0, len(result))
            result[target:target] = stretch
    return result


def projective_tree(size: int, generator: random.Random) -> list[int]:
    """Random heads without crossing edges: a word, and left and right of it subtrees that hang from it."""
    heads = [0] * size
    waiting = [(0, size, 0)]
    while waiting:
        start, end, head = waiting.pop()
        word = generator.randrange(start, end)
        heads[word] = head
        for left, right in ((start, word), (word + 1, end)):
            while left < right:
                stop = generator.randint(left + 1, right)
                waiting.append((left, stop, word + 1))
                left = stop
    return heads


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
