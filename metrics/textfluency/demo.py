"""Scores a few real system outputs with every installed metric, through evaluate, and says what the numbers mean."""

from __future__ import annotations

import json
import os
import textwrap
from pathlib import Path
from typing import Any

from textfluency import installation

EXAMPLES = Path(__file__).parent / "examples.jsonl"

READINGS = {  # metric -> how to read it
    "slor": "language-model fluency per word; higher is better, word salad is near 0",
    "wpslor": "the same per word piece, so rare names do not count as unknown",
    "rouge_lm": "overlap with the references and fluency together; 0 is average, higher is better",
    "gleu_parser_svm": "how easily parsers cope; above 0 reads as a human sentence, below as a scrambled one",
    "gruen": "grammar, repetition, focus and coherence together; 0 to 1, higher is better",
    "tree_accuracy": "how well the words of a reference are kept and ordered along its tree; 1 is identical",
}


def run(file: Path | None = None) -> None:
    os.environ.setdefault("HF_EVALUATE_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    import evaluate

    installation.install()
    evaluate.logging.set_verbosity_error()
    lines = (file or EXAMPLES).read_text(encoding="utf-8").splitlines()
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines if line.strip()]
    texts = [row["text"] for row in rows]
    references = [row.get("references") for row in rows]
    names = [folder.name for folder in installation.metric_folders() if folder.name in READINGS]
    columns: dict[str, list[float]] = {}
    for name in sorted(names, key=list(READINGS).index):
        metric = evaluate.load(name, keep_in_memory=True)
        takes_references = "references" in metric._feature_names()
        if takes_references and not all(references):
            continue
        inputs = {"predictions": texts, **({"references": references} if takes_references else {})}
        try:
            columns[name] = metric.compute(**inputs, use_aggregator=False)[name]
        except RuntimeError as error:  # a program of the system that is missing
            print(f"{name} is left out: {error}")
    print("\n" + "  ".join(f"{name:>{_width(name)}}" for name in columns) + "  text")
    for number, text in enumerate(texts):
        values = [f"{values[number]:{_width(name)}.2f}" for name, values in columns.items()]
        print("  ".join(values) + "  " + textwrap.shorten(text, 70, placeholder=" …"))
    print()
    for name in columns:
        print(f"  {name:<16} {READINGS[name]}")
    print('\nIn Python: evaluate.load("slor").compute(predictions=["..."])')


def _width(name: str) -> int:
    return max(8, len(name))
