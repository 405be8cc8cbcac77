"""Writes the tables of correlations into README.md and the cards: `python -m training.cards`.

They come from training/results.json, which `python -m training.meta_evaluation` made; nobody types them.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from training.meta_evaluation import FLUENCY

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "training" / "results.json"
BEGIN, END = "<!-- correlations, written by training.cards -->\n", "<!-- end of correlations -->"
BASELINES = ("length", "type_token_ratio", "rouge_score", "bleu", "chrf")


def summary(results: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    """metric -> set -> Pearson with the set's fluency-like dimension, text by text."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for record in results["against_people"]:
        of_interest = record["dimension"] == FLUENCY[record["set"]]
        if of_interest and record["method"] == "pearson" and record["unit"] == "texts":
            found.setdefault(record["metric"], {})[record["set"]] = record
    return found


def table(results: dict[str, Any], metrics: list[str]) -> str:
    """One row per metric, one column per human data set."""
    found = summary(results)
    sets = sorted({name for row in found.values() for name in row})
    names = [name for name in found if name in metrics or name.split(" ")[0] in metrics or name in BASELINES]
    size = {name: max(row[name]["n"] for row in found.values() if name in row) for name in sets}
    lines = [
        "| Pearson with people | " + " | ".join(f"{name} ({FLUENCY[name]}, n={size[name]})" for name in sets) + " |",
        "|---|" + "---|" * len(sets),
    ]
    for metric in sorted(names, key=lambda name: name in BASELINES):
        cells = [f"{found[metric][name]['value']:.3f}" if name in found[metric] else "" for name in sets]
        lines.append(f"| {metric} | " + " | ".join(cells) + " |")
    made = f"Made on {results['date'][:10]} by `python -m training.meta_evaluation --data FOLDER`, version "
    blank = "A blank: the set has no references, or the metric is slow and was not run on it."
    return "\n".join(lines) + f"\n\n{made}{results['versions']['textfluency']}. {blank}\n"


def filled(page: str, text: str) -> str:
    if BEGIN not in page:
        return page
    before, rest = page.split(BEGIN, 1)
    return before + BEGIN + text + END + rest.split(END, 1)[1]


def pages() -> dict[Path, str]:
    """Each page with its table as the stored results would have it."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    ours = {metric for metric in summary(results) if metric not in BASELINES}
    wanted = {ROOT / "README.md": sorted(ours)}
    for card in sorted((ROOT / "metrics").glob("*/README.md")):
        name = card.parent.name
        wanted[card] = sorted(metric for metric in ours if re.split(r"[/: ]", metric)[0] == name)
    return {page: filled(page.read_text(encoding="utf-8"), table(results, names)) for page, names in wanted.items()}


def main() -> None:
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
