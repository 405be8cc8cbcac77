"""Speed of slor's primitive: `python -m tests.benchmarks.slor`.

One causal model of random weights, one thousand sentences, one run: our batches against one text at a time, against
minicons at the same batch size, and against the bare forward passes of our own batches.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from pathlib import Path

import torch

from textfluency import language_model

SENTENCES = 1_000
BATCH = 32
LAYERS, WIDTH, VOCABULARY = 4, 256, 8_000


def make_model(folder):
    """A small GPT-2 over whole words: large enough that arithmetic, not overhead, is what is measured."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast

    from textfluency import unigrams

    words = {"<|endoftext|>": 0, "<unk>": 1} | {f"w{index}": index for index in range(2, VOCABULARY)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>", unk_token="<unk>")
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=VOCABULARY, n_embd=WIDTH, n_layer=LAYERS, n_head=4, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(folder)
    fast.save_pretrained(folder)
    import numpy as np

    unigrams.save(np.ones(VOCABULARY, dtype=np.int64), folder)


def seconds(work, rounds=3):
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def main():
    torch.set_num_threads(1)
    dice = random.Random(0)
    texts = [
        " ".join(f"w{dice.randrange(2, VOCABULARY)}" for _ in range(dice.randrange(5, 45))) for _ in range(SENTENCES)
    ]
    tokens = sum(len(text.split()) for text in texts)
    with tempfile.TemporaryDirectory() as folder:
        make_model(Path(folder))
        model = language_model.load(folder)
        sequences = [[0, *model.tokenizer.encode(text)] for text in texts]
        batches = []
        for group in language_model._by_length([len(sequence) for sequence in sequences]):
            longest = max(len(sequences[index]) for index in group)
            batches.append(torch.tensor([sequences[i] + [0] * (longest - len(sequences[i])) for i in group]))

        from transformers import AutoModelForCausalLM

        network = AutoModelForCausalLM.from_pretrained(folder).eval()

        @torch.inference_mode()
        def bare():
            for batch in batches:
                network(batch[:, :-1], use_cache=False)

        def ours():
            return language_model.score_tokens(texts, model, include_end=False)

        def one_by_one():
            return [language_model.score_tokens([text], model, include_end=False)[0] for text in texts]

        rows = [
            ("bare forward passes of our batches", seconds(bare)),
            ("textfluency, all texts at once", seconds(ours)),
            ("one text at a time", seconds(one_by_one, rounds=1)),
        ]
        together, apart = ours(), one_by_one()
        drift = max(
            abs(a.log_probabilities.sum() - b.log_probabilities.sum()) for a, b in zip(together, apart, strict=True)
        )
        try:
            from minicons import scorer

            peer = scorer.IncrementalLMScorer(network, "cpu", tokenizer=model.tokenizer._tokenizer)
            peer.tokenizer.pad_token = peer.tokenizer.eos_token

            def minicons():
                return [peer.token_score(texts[i : i + BATCH], bos_token=True) for i in range(0, len(texts), BATCH)]

            rows.append((f"minicons, batches of {BATCH}", seconds(minicons, rounds=2)))
        except Exception as error:  # the peer's trouble is a result too
            print(f"minicons did not run: {type(error).__name__}: {error}", file=sys.stderr)
    mine = rows[1][1]
    print(f"\n{SENTENCES} sentences, {tokens} tokens, GPT-2 of {LAYERS} layers and {WIDTH} units, one thread")
    print("| | seconds | tokens/s | textfluency is |\n|---|---|---|---|")
    for name, taken in rows:
        print(f"| {name} | {taken:.2f} | {tokens / taken:,.0f} | {taken / mine:.2f} x as fast |")
    print(f"\nlargest difference of a text's log-probability, together against alone: {drift:.1e}")


if __name__ == "__main__":
    main()
