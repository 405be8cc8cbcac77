"""Fits rouge_lm to rated system outputs: `python -m training.rouge_lm --data FOLDER_OR_FILES [--svr] --out FOLDER`.

Two things come out of texts with references and human ratings (the format is that of training.meta_evaluation):

    statistics.json              mean and standard deviation of ROUGE-L and WPSLOR over all system outputs, each scored
                                 against its references; one entry per language model
    svr.json, svr.safetensors    with --svr: a support vector regression from the two scores to human fluency
    report.json                  what it was fitted on, the licences, and cross-validated correlations

Each set's ratings are brought to one scale: standardised within the set and then laid over the paper's, 1 to 3, as
2 + 0.574 z. Raters of different studies use their scales differently, so only order and distances within a study are
kept; 0.574 is the standard deviation of the paper's ratings, so that epsilon = 0.1 is as wide as it was there.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from textfluency import rouge_l, rouge_lm, statistics, wpslor
from training.meta_evaluation import FLUENCY, Row, asks_for_fluency, compared, ratings, read_sets, standardized

C, EPSILON = 1.0, 0.1  # scikit-learn's defaults, in 2018 as today
GAMMA = 0.5  # 1 / number of features: gamma="auto", the default of 2018; today's is "scale"
SCALE_MIDDLE, SCALE_SD = 2.0, 0.574  # of ratings from 1 to 3; Kann et al.'s Table 3 implies a variance of 0.329
FOLDS = 10
LICENCES = {
    "cnndm": "MIT (Chaganty et al. 2018)",
    "bagel": "MIT (Novikova et al. 2017)",
    "sfres": "MIT (Novikova et al. 2017)",
    "summeval": "MIT (Fabbri et al. 2021)",
}

Numbers = NDArray[np.float64]


def halves(features: Sequence[rouge_lm.Features]) -> Numbers:
    """One row (WPSLOR, ROUGE-L) per text, the paper's two features."""
    rows = [(wpslor.score(item.wpslor)[wpslor.NAME], rouge_l.score(item.rouge_l)[rouge_l.NAME]) for item in features]
    return np.array(rows, dtype=np.float64).reshape(-1, 2)


def targets(sets: dict[str, list[Row]]) -> Numbers:
    """Human fluency of all texts on the paper's scale."""
    return np.concatenate(
        [SCALE_MIDDLE + SCALE_SD * standardized(ratings(rows, FLUENCY[name])) for name, rows in sets.items()]
    )


def fit_svr(inputs: Numbers, outputs: Numbers, language_model: str) -> tuple[rouge_lm.Regression, Any]:
    """The regression in plain numbers, and scikit-learn's object that it must agree with."""
    from sklearn.svm import SVR

    fitted = SVR(kernel="rbf", C=C, epsilon=EPSILON, gamma=GAMMA).fit(inputs, outputs)
    regression = rouge_lm.Regression(
        support_vectors=np.asarray(fitted.support_vectors_, dtype=np.float64),
        coefficients=np.asarray(fitted.dual_coef_[0], dtype=np.float64),
        intercept=float(fitted.intercept_[0]),
        gamma=GAMMA,
        language_model=language_model,
    )
    return regression, fitted


def cross_validated(inputs: Numbers, outputs: Numbers, groups: Sequence[int]) -> Numbers:
    """Each text's prediction by a regression that saw no text with the same references."""
    from sklearn.model_selection import GroupKFold

    predictions = np.full(len(outputs), math.nan)
    folds = GroupKFold(n_splits=min(FOLDS, len(set(groups))), shuffle=True, random_state=statistics.SEED)
    for train, test in folds.split(inputs, outputs, groups):
        _, fitted = fit_svr(inputs[train], outputs[train], "")
        predictions[test] = fitted.predict(inputs[test])
    return predictions


def left_out_sets(inputs: Numbers, outputs: Numbers, set_of_text: NDArray[np.str_]) -> Numbers:
    """Each text's prediction by a regression that saw no text of the same set: how well does it carry over?"""
    predictions = np.full(len(outputs), math.nan)
    for name in np.unique(set_of_text):
        here = set_of_text == name
        if not here.all():
            _, fitted = fit_svr(inputs[~here], outputs[~here], "")
            predictions[here] = fitted.predict(inputs[here])
    return predictions


def agreement(columns: dict[str, Numbers], human: Numbers, set_of_text: NDArray[np.str_]) -> dict[str, Any]:
    """Each score's correlation with people, pooled with Williams' tests, and per set."""
    per_set = {
        str(part): {
            name: round(statistics.correlation(values[here], human[here], resamples=0).value, 4)
            for name, values in columns.items()
        }
        for part in np.unique(set_of_text)
        for here in (set_of_text == part,)
    }
    return {"pooled": compared(human, columns, statistics.RESAMPLES), "pearson_per_set": per_set}


def train(sets: dict[str, list[Row]], models: rouge_lm.Models, out: Path, svr: bool) -> dict[str, Any]:
    """Fits, writes the weights and returns the report."""
    rows = [row for members in sets.values() for row in members]
    set_of_text = np.array([name for name, members in sets.items() for _ in members])
    features = rouge_lm.extract([row.text for row in rows], [row.references for row in rows], models)
    normalization = rouge_lm.fit_features(features, models)
    out.mkdir(parents=True, exist_ok=True)
    file = out / rouge_lm.STATISTICS_FILE
    stored = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
    stored[models.language_model] = asdict(normalization)
    file.write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")

    inputs, outputs = halves(features), targets(sets)
    usable = ~np.isnan(inputs).any(axis=1) & ~np.isnan(outputs)
    inputs, outputs, set_of_text = inputs[usable], outputs[usable], set_of_text[usable]
    columns = {
        "rouge_l": inputs[:, 1],
        "wpslor": inputs[:, 0],
        "rouge_lm": np.array([sum(normalization.z_scores(rouge, fluency)) for fluency, rouge in inputs]),
    }
    report: dict[str, Any] = {
        "name": rouge_lm.NAME,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "language_model": models.language_model,
        "sets": {
            name: {
                "texts": len(members),
                "dimension": FLUENCY[name],
                "licence": LICENCES.get(name, "unknown"),
            }
            for name, members in sets.items()
        },
        "ratings": f"standardised per set, then {SCALE_MIDDLE:g} + {SCALE_SD} z",
        "normalization": asdict(normalization),
    }
    if svr:
        regression, _ = fit_svr(inputs, outputs, models.language_model)
        regression.save(out)
        numbers = {
            references: number for number, references in enumerate(dict.fromkeys(row.references for row in rows))
        }
        groups = [numbers[row.references] for row, kept in zip(rows, usable, strict=True) if kept]
        columns["svr, cross-validated"] = cross_validated(inputs, outputs, groups)
        if len(sets) > 1:
            columns["svr, trained on the other sets"] = left_out_sets(inputs, outputs, set_of_text)
        report["svr"] = {
            "kernel": "rbf",
            "C": C,
            "epsilon": EPSILON,
            "gamma": GAMMA,
            "features": ["wpslor", "rouge_l"],
            "support_vectors": len(regression.coefficients),
            "cross_validation": f"{FOLDS} folds; texts with the same references are in the same fold",
        }
    report["agreement"] = agreement(columns, outputs, set_of_text)
    (out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", default=[], metavar="PATH", help="folder or .jsonl files")
    parser.add_argument(
        "--svr", type=Path, nargs="*", metavar="PATH", help="fit the regression too (data here or above)"
    )
    parser.add_argument(
        "--language-model", default="default", metavar="CONFIG", help="of wpslor (default: %(default)s)"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("weights/rouge_lm"), metavar="FOLDER", help="(default: %(default)s)"
    )
    options = parser.parse_args()
    sets = {
        name: rows
        for name, rows in read_sets([*options.data, *(options.svr or [])]).items()
        if asks_for_fluency(name, rows) and all(row.references for row in rows)
    }
    if not sets:
        parser.error("no set has references and a dimension that FLUENCY names")
    report = train(sets, rouge_lm.Models(wpslor.load(options.language_model)), options.out, svr=options.svr is not None)
    for name, found in report["agreement"]["pooled"]["metrics"].items():
        print(f"{name:<32} Pearson {found['pearson']['value']:.3f}  Spearman {found['spearman']['value']:.3f}")


if __name__ == "__main__":
    main()
