"""One small Gradio page for any of the metrics: a text, its references, the score and the evidence."""

from __future__ import annotations

import importlib
import math
from typing import Any

LONGEST_TEXT = 5_000  # characters
NEED_REFERENCES = ("rouge_lm", "tree_accuracy")


def build(names: list[str]) -> Any:
    """The page for these metrics; call `.launch()` on it."""
    import gradio

    with gradio.Blocks(title="textfluency") as page:
        gradio.Markdown("# textfluency\nHow fluent is this text, and why?")
        text = gradio.Textbox(label="Text", lines=3, max_length=LONGEST_TEXT, value="He is citizen a France of.")
        references = gradio.Textbox(
            label="References, one per line",
            lines=2,
            max_length=LONGEST_TEXT,
            value="He is a citizen of France.",
            visible=any(name in NEED_REFERENCES for name in names),
        )
        button = gradio.Button("Score", variant="primary")
        table = gradio.Dataframe(headers=["metric", "score"], label="Scores", interactive=False)
        evidence = gradio.Textbox(label="Why", lines=20, interactive=False)
        button.click(
            lambda text, lines: judge(names, text, lines), [text, references], [table, evidence], api_name="score"
        )
    return page


def judge(names: list[str], text: str, reference_lines: str) -> tuple[list[list[str]], str]:
    """Rows of scores, and the evidence of each metric as text."""
    references = [line.strip() for line in reference_lines.splitlines() if line.strip()]
    rows, evidence = [], []
    for name in names:
        if name in NEED_REFERENCES and not references:
            rows.append([name, "needs a reference"])
            continue
        metric = importlib.import_module(f"textfluency.{name}")
        models = metric.load()
        if name == "rouge_lm":
            explanation = metric.explain(text, references, models)
        elif name == "tree_accuracy":
            best = metric.extract([text], [references], models)[0].reference_index
            explanation = metric.explain(text, references[best], models)
        else:
            explanation = metric.explain(text, models)
        value = explanation.score[name]
        rows.append([name, "nothing to score" if math.isnan(value) else f"{value:.3f}"])
        evidence.append(f"{name}\n{explanation}")
    return rows, "\n\n".join(evidence)
