"""How long ROUGE-L takes beside google's rouge_score, on the same pairs in the same run, with equal scores.

    python -m tests.benchmarks.rouge_lm [pairs [rounds]]

The sentences are those of tests.benchmarks.tree_accuracy: made up, about 20 words each, with English frequencies, no
two pairs alike. One process, no repeated texts to profit from.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from rouge_score.rouge_scorer import RougeScorer

from tests.benchmarks.tree_accuracy import make
from textfluency import rouge_l

PAIRS = 10_000
ROUNDS = 7
TARGET = 5  # times as fast as rouge_score


def main(pairs: int = PAIRS, rounds: int = ROUNDS) -> None:
    predictions, references, _ = make(pairs)
    lists = [[reference] for reference in references]
    scorer = RougeScorer(["rougeL"])

    def theirs() -> list[float]:
        texts = zip(references, predictions, strict=True)
        return [scorer.score(reference, prediction)["rougeL"].fmeasure for reference, prediction in texts]

    def ours(tokenizer: rouge_l.TokenizerName) -> Callable[[], list[float]]:
        return lambda: [
            rouge_l.score(features)["rouge_l"] for features in rouge_l.extract(predictions, lists, tokenizer=tokenizer)
        ]

    contestants = {"rouge_score": theirs, 'tokenizer="rouge_score"': ours("rouge_score"), "default": ours("words")}
    times, results = dict.fromkeys(contestants, float("inf")), {}
    for _ in range(rounds):
        for name, run in contestants.items():
            # Processor time, and the best of interleaved rounds: other programs run on this machine too.
            start = time.process_time()
            results[name] = run()
            times[name] = min(times[name], time.process_time() - start)

    pairs_of_scores = zip(results["rouge_score"], results['tokenizer="rouge_score"'], strict=True)
    difference = max(abs(first - second) for first, second in pairs_of_scores)
    words = sum(len(reference.split()) for reference in references) / pairs
    print(f"{pairs} pairs of {words:.1f} words; largest difference to rouge_score {difference:.1e}\n")
    print(f"{'':28}microseconds per pair   times as fast")
    for name, seconds in times.items():
        print(f"{name:28}{seconds / pairs * 1e6:21.1f}{times['rouge_score'] / seconds:16.1f}")
    if difference > 1e-9 or times["rouge_score"] / times['tokenizer="rouge_score"'] < TARGET:
        sys.exit(f"Not what was promised: equal scores, {TARGET} times as fast.")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
