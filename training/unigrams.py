"""Counts how frequent a model's tokens are: `python -m training.unigrams --model MODEL --corpus FILES --out FOLDER`.

slor divides a language model's probability by the probability of the tokens by themselves. A model from the Hub does
not say how frequent its tokens were in training, so we count them in a corpus, cut into the same short texts that our
own models see.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from textfluency import unigrams
from textfluency.language_model import tokenizer_of
from training.corpora import paragraphs
from training.language_model import DEFAULT_DATASET, texts_of

TEXTS_AT_A_TIME = 1_000


def count(tokenizer: Any, texts: Iterator[str]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Counts over the whole vocabulary; the end sign once per text."""
    counts = np.zeros(len(tokenizer), dtype=np.int64)
    with tqdm(desc="counting", unit=" texts", unit_scale=True) as bar:
        while group := list(islice(texts, TEXTS_AT_A_TIME)):
            encoded = tokenizer(group, add_special_tokens=False, verbose=False)["input_ids"]
            np.add.at(counts, np.concatenate([np.array(ids, dtype=np.int64) for ids in encoded]), 1)
            counts[end_signs(tokenizer)] += len(group)
            bar.update(len(group))
    return counts


def end_signs(tokenizer: Any) -> list[int]:
    """The sign that ends a text; SmolLM2 has one as base, another as instruct model, and one table serves both."""
    signs = {tokenizer.eos_token_id, tokenizer.get_vocab().get("<|endoftext|>")}
    return sorted(sign for sign in signs if sign is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="`smollm2`, a folder or a Hub id")
    parser.add_argument("--corpus", nargs="+", default=[], metavar="FILE", help="text, one paragraph per line")
    parser.add_argument("--dataset", default=DEFAULT_DATASET, help="Hub dataset where no --corpus is given")
    parser.add_argument("--paragraphs", type=int, help="count at most so many paragraphs of each file")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    options = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "true"
    sources = [[file] for file in options.corpus] or [[]]
    read = functools.partial(paragraphs, dataset=options.dataset)
    numbered = enumerate(paragraph for source in sources for paragraph in islice(read(source), options.paragraphs))
    counts = count(tokenizer_of(options.model), (text for item in numbered for text in texts_of(item)))
    options.out.mkdir(parents=True, exist_ok=True)
    unigrams.save(counts, options.out)
    report = {
        "name": options.out.name,
        "model": options.model,
        "corpus": [Path(file).name for file in options.corpus] or options.dataset,
        "tokens": int(counts.sum()),
        "token_types": int((counts > 0).sum()),
        "vocabulary": len(counts),
    }
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
