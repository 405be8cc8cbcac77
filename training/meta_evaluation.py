"""Measures metrics against people: `python -m training.meta_evaluation --data FOLDER [--metrics ...] [--sets ...]`.

FOLDER holds human judgements, one JSON object per line: `dataset, id, system, text, human {dimension: number}` and,
where there are any, `references` and `document`. Every metric of the table METRICS scores every text: ours, and the
peers that a user would pick instead; a new one is one more line there. The out folder gets

    results.json   every correlation with its interval, n, the signatures, the versions and the date
    *.md           one table per question
    cache/         the scores of each text, written as they come: an interrupted run goes on where it stopped

Whatever is better when it is lower (LOWER_IS_BETTER) is negated first, so everywhere a higher correlation is better.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib
import importlib.metadata
import inspect
import json
import math
import platform
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from textfluency import aggregation, statistics
from textfluency.sentences import words

TEXTS_AT_A_TIME = 128  # between two writes to the cache
SMALLEST_SYSTEM = 10  # texts; cnndm has one that is two systems' at once
SENTENCE_SETS = ("bagel", "gug", "lau_enwiki", "sfres", "simplicity_da")  # short texts, for what is slow
LOWER_IS_BETTER = {"ppl", "post_edits"}
FLUENCY = {  # the dimension of each set that asks for fluency; Novikova et al.'s "quality" is "grammatical and fluent"
    "cnndm": "grammar",
    "bagel": "quality",
    "sfres": "quality",
    "summeval": "fluency",
    "lau_enwiki": "acceptability",
    "gug": "grammaticality",
    "simplicity_da": "fluency",
}
PACKAGES = ("textfluency", "numpy", "scipy", "torch", "transformers", "rapidfuzz", "rouge_score", "sacrebleu")

Scores = dict[str, list[float]]  # key -> one value per text
Scorer = Callable[[list[str], list[list[str]]], Scores]
Record = dict[str, Any]


# --- the human judgements --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """One text that people rated."""

    text: str
    human: dict[str, float]
    references: tuple[str, ...] = ()
    system: str | None = None
    document: str | None = None


def read_sets(data: Sequence[Path], names: Sequence[str] | None = None) -> dict[str, list[Row]]:
    """The sets of the given .jsonl files, and of all .jsonl files in the given folders, by file name."""
    files = [file for path in data for file in (sorted(path.glob("*.jsonl")) if path.is_dir() else [path])]
    found = {file.stem: file for file in files}
    if unknown := set(names or ()) - set(found):
        raise SystemExit(
            f"There is no set {', '.join(sorted(unknown))}. There are: {', '.join(sorted(found)) or 'none'}."
        )
    return {name: _read_rows(file) for name, file in found.items() if not names or name in names}


def _read_rows(file: Path) -> list[Row]:
    rows = []
    for line in file.read_text(encoding="utf-8").split("\n"):
        if line.strip():
            row = json.loads(line)
            references = tuple(row.get("references") or ())
            rows.append(Row(row["text"], row["human"], references, row.get("system"), row.get("document")))
    return rows


def ratings(rows: Sequence[Row], dimension: str) -> NDArray[np.float64]:
    """What people said, higher is better; NaN where a text was not rated."""
    values = np.array([row.human.get(dimension, math.nan) for row in rows], dtype=np.float64)
    return _higher_is_better(dimension, values)


def standardized(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """In standard deviations from the mean: brings the ratings of different sets to one scale."""
    result: NDArray[np.float64] = (values - np.nanmean(values)) / np.nanstd(values)
    return result


def _higher_is_better(key: str, values: NDArray[np.float64]) -> NDArray[np.float64]:
    return -values if key in LOWER_IS_BETTER else values


# --- the metrics -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opened:
    """A metric ready to score; the signature names everything that its scores depend on."""

    score: Scorer
    signature: str


@dataclass(frozen=True)
class Metric:
    """How to open a metric, which of its keys the tables show, and whether it needs references. The first key is it.

    `sets` limits a slow metric to some sets.
    """

    open: Callable[[], Opened]
    keys: tuple[str, ...]
    references: bool = False
    sets: tuple[str, ...] | None = None


def ours(name: str, config: str = "default", *, references: bool = False) -> Callable[[], Opened]:
    """A module of textfluency with one of its configs."""

    def open_metric() -> Opened:
        module = importlib.import_module(f"textfluency.{name}")
        models = module.load(config)

        def score(texts: list[str], references_of_texts: list[list[str]]) -> Scores:
            given = (texts, references_of_texts) if references else (texts,)
            features = module.extract(*given, models)
            parameters = inspect.signature(module.score).parameters
            more = [
                {"models": models, "classifier": getattr(models, "classifier", None)}[name]
                for name in ("models", "classifier")
                if name in parameters
            ]
            return aggregation.columns([module.score(item, *more) for item in features])

        return Opened(score, module.signature(models))

    return open_metric


def peer(make_scorer: Callable[[], Scorer], package: str = "textfluency") -> Callable[[], Opened]:
    """Somebody else's metric, or a baseline, at the installed version of its package."""

    def open_metric() -> Opened:
        name = getattr(make_scorer, "__name__", "peer")
        return Opened(make_scorer(), f"{name}|{package}:{importlib.metadata.version(package)}")

    return open_metric


def length() -> Scorer:
    """The shorter the better: what a metric must beat."""
    return lambda texts, _: {"length": [-float(len(words(text))) for text in texts]}


def type_token_ratio() -> Scorer:
    """Different words over words: the other baseline."""

    def ratio(text: str) -> float:
        tokens = words(text.lower())
        return len(set(tokens)) / len(tokens) if tokens else math.nan

    return lambda texts, _: {"type_token_ratio": [ratio(text) for text in texts]}


def rouge_score() -> Scorer:
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer(["rougeL"])
    return lambda texts, references: {
        "rouge_score": [
            scorer.score_multi(group, text)["rougeL"].fmeasure for text, group in zip(texts, references, strict=True)
        ]
    }


def bleu() -> Scorer:
    from sacrebleu import sentence_bleu

    return lambda texts, references: {
        "bleu": [sentence_bleu(text, group).score for text, group in zip(texts, references, strict=True)]
    }


def chrf() -> Scorer:
    from sacrebleu import sentence_chrf

    return lambda texts, references: {
        "chrf": [sentence_chrf(text, group).score for text, group in zip(texts, references, strict=True)]
    }


METRICS: dict[str, Metric] = {
    "length": Metric(peer(length), ("length",)),
    "type_token_ratio": Metric(peer(type_token_ratio), ("type_token_ratio",)),
    "rouge_score": Metric(peer(rouge_score, "rouge_score"), ("rouge_score",), references=True),
    "bleu": Metric(peer(bleu, "sacrebleu"), ("bleu",), references=True),
    "chrf": Metric(peer(chrf, "sacrebleu"), ("chrf",), references=True),
    "slor": Metric(ours("slor"), ("slor", "nce", "ppl")),
    "wpslor": Metric(ours("wpslor"), ("wpslor", "nce", "ppl")),
    "slor/smollm2": Metric(ours("slor", "smollm2"), ("slor", "nce", "ppl"), sets=SENTENCE_SETS),
    "gleu_parser_svm": Metric(ours("gleu_parser_svm"), ("gleu_parser_svm",), sets=(*SENTENCE_SETS, "cnndm")),
    "tree_accuracy": Metric(ours("tree_accuracy", references=True), ("tree_accuracy",), references=True),
    "rouge_lm": Metric(ours("rouge_lm", references=True), ("rouge_lm", "rouge_l", "wpslor"), references=True),
    "rouge_lm/svr": Metric(ours("rouge_lm", "svr", references=True), ("rouge_lm",), references=True),
}
UNAVAILABLE = (ImportError, OSError)  # a package, a module or weights that are not there


def label(name: str, key: str) -> str:
    """How tables name a score: by the metric where it is the metric's own, else by both."""
    return name if key == METRICS[name].keys[0] else f"{name}: {key}"


# --- scoring, with a memory ------------------------------------------------------------------------------------------


def fingerprint(row: Row, references: bool) -> str:
    """What a score depends on besides the metric: the text, and the references where the metric looks at them."""
    content = json.dumps([row.text, row.references if references else None])
    return hashlib.sha256(content.encode()).hexdigest()[:24]


def score_texts(name: str, metric: Metric, opened: Opened, rows: Sequence[Row], cache: Path) -> list[dict[str, float]]:
    """The scores of each text, from the cache as far as it goes; what is new is added to it in small portions."""
    cache.mkdir(parents=True, exist_ok=True)
    version = hashlib.sha256(opened.signature.encode()).hexdigest()[:12]
    file = cache / f"{name.replace('/', '-')}.{version}.jsonl"
    known = dict(_read_cache(file))
    wanted = {fingerprint(row, metric.references): row for row in rows}
    missing = iter([(key, row) for key, row in wanted.items() if key not in known])
    with file.open("a", encoding="utf-8") as stream, tqdm(total=len(wanted), desc=name, unit=" texts") as bar:
        bar.update(len(wanted.keys() & known.keys()))
        while portion := list(islice(missing, TEXTS_AT_A_TIME)):
            texts, references = [row.text for _, row in portion], [list(row.references) for _, row in portion]
            columns = opened.score(texts, references)
            for index, (key, _) in enumerate(portion):
                known[key] = {column: float(values[index]) for column, values in columns.items()}
                # A line starts with its newline: a line that an interruption cut short spoils no other.
                stream.write("\n" + json.dumps([key, {column: _plain(value) for column, value in known[key].items()}]))
            stream.flush()
            bar.update(len(portion))
    return [known[fingerprint(row, metric.references)] for row in rows]


def _read_cache(file: Path) -> Iterator[tuple[str, dict[str, float]]]:
    for line in file.read_text(encoding="utf-8").split("\n") if file.exists() else ():
        try:
            key, scores = json.loads(line)
        except ValueError:  # empty, or cut short when a run was interrupted
            continue
        yield key, {column: math.nan if value is None else value for column, value in scores.items()}


def _plain(value: Any) -> Any:
    """JSON knows no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


# --- the questions ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Evaluation:
    """The sets, and the scores of their texts: set -> label -> one value per row, higher is better."""

    sets: dict[str, list[Row]]
    scores: dict[str, dict[str, NDArray[np.float64]]]
    resamples: int = statistics.RESAMPLES


def against_people(evaluation: Evaluation) -> list[Record]:
    """Every metric against every human dimension of every set: over texts, over systems and within documents."""
    records = []
    work = [
        (name, dimension, metric)
        for name, rows in evaluation.sets.items()
        for dimension in dimensions(rows)
        for metric in evaluation.scores[name]
    ]
    for name, dimension, metric in tqdm(work, desc="correlations"):
        rows, values = evaluation.sets[name], evaluation.scores[name][metric]
        for result in _correlations(rows, values, ratings(rows, dimension), evaluation.resamples):
            records.append({"set": name, "dimension": dimension, "metric": metric, **asdict(result)})
    return records


def _correlations(
    rows: Sequence[Row], values: NDArray[np.float64], human: NDArray[np.float64], resamples: int
) -> Iterator[statistics.Correlation]:
    documents = [row.document for row in rows]
    sizes = Counter(row.system for row in rows)
    members = [index for index, row in enumerate(rows) if row.system and sizes[row.system] >= SMALLEST_SYSTEM]
    systems = [rows[index].system for index in members]
    for method in get_args(statistics.Method):
        yield statistics.correlation(values, human, method, resamples=resamples)
        if len(set(systems)) > 2:
            yield statistics.correlation_of_systems(
                values[members], human[members], systems, method, resamples=resamples
            )
        if 1 < len(set(documents)) < len(documents):
            yield statistics.correlation_within_documents(values, human, documents, method, resamples=resamples)


def dimensions(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(dimension for row in rows for dimension in row.human))


def asks_for_fluency(name: str, rows: Sequence[Row]) -> bool:
    return FLUENCY.get(name) in dimensions(rows)


def combination(evaluation: Evaluation) -> Record | None:
    """Is rouge_lm above both of its halves, on all sets with references pooled? Ratings are standardised per set.

    `pooled` takes the scores as they are, so that differences between the sets count too; `within sets` standardises
    the scores per set as well.
    """
    names = ("rouge_lm: rouge_l", "rouge_lm: wpslor", "rouge_lm", "rouge_lm/svr", "rouge_score", "bleu", "chrf")
    chosen = [
        name
        for name, rows in evaluation.sets.items()
        if asks_for_fluency(name, rows) and "rouge_lm" in evaluation.scores[name]
    ]
    if not chosen:
        return None
    metrics = [metric for metric in names if all(metric in evaluation.scores[name] for name in chosen)]
    human = np.concatenate([standardized(ratings(evaluation.sets[name], FLUENCY[name])) for name in chosen])
    pooled, within = (
        {metric: np.concatenate([change(evaluation.scores[name][metric]) for name in chosen]) for metric in metrics}
        for change in (np.asarray, standardized)
    )
    return {
        "sets": {name: FLUENCY[name] for name in chosen},
        "pooled": compared(human, pooled, evaluation.resamples),
        "within sets": compared(human, within, evaluation.resamples),
    }


def likelihoods(evaluation: Evaluation) -> Record:
    """slor, nce or ppl: what is the best use of a language model's probability? On each set's fluency dimension."""
    found: Record = {}
    for name, rows in evaluation.sets.items():
        for metric in ("slor", "wpslor", "slor/smollm2"):
            views = {view: evaluation.scores[name].get(label(metric, view)) for view in METRICS[metric].keys}
            present = {view: values for view, values in views.items() if values is not None}
            if asks_for_fluency(name, rows) and len(present) == len(views):
                human = ratings(rows, FLUENCY[name])
                found.setdefault(metric, {})[name] = compared(human, present, evaluation.resamples)
    return found


def compared(human: NDArray[np.float64], columns: Mapping[str, NDArray[np.float64]], resamples: int) -> Record:
    """Correlations of several metrics with the same ratings, the papers' error, and Williams' test for each two."""
    metrics = {}
    for name, values in columns.items():
        found = {
            method: asdict(statistics.correlation(values, human, method, resamples=resamples))
            for method in get_args(statistics.Method)
        }
        metrics[name] = {**found, "linear_fit_error": statistics.linear_fit_error(values, human)}
    tests = [
        {"first": first, "second": second, **asdict(statistics.williams(human, columns[first], columns[second]))}
        for first, second in combinations(columns, 2)
    ]
    return {"metrics": metrics, "williams": tests}


# --- the answers, in Markdown ----------------------------------------------------------------------------------------


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def number(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"


def with_interval(result: Record) -> str:
    return f"{number(result['value'])} [{number(result['low'])}, {number(result['high'])}]"


def people_tables(records: Sequence[Record], unit: str) -> str:
    """A table per set: metrics down, human dimensions across, Pearson / Spearman in each cell."""
    cells = {
        (record["set"], record["metric"], record["dimension"], record["method"]): record
        for record in records
        if record["unit"] == unit
    }
    parts = []
    for name in dict.fromkeys(key[0] for key in cells):
        here = [key for key in cells if key[0] == name]
        metrics, across = (list(dict.fromkeys(key[position] for key in here)) for position in (1, 2))
        lines = [
            [metric]
            + [
                " / ".join(
                    number(cells[name, metric, dimension, method]["value"]) for method in ("pearson", "spearman")
                )
                for dimension in across
            ]
            for metric in metrics
        ]
        count = max(cells[key]["n"] for key in here)
        parts.append(f"### {name} ({count} {unit})\n\n{table([name, *across], lines)}")
    return "\n".join(parts)


def compared_table(result: Record, title: str) -> str:
    lines = [
        [metric, with_interval(found["pearson"]), number(found["spearman"]["value"]), number(found["linear_fit_error"])]
        for metric, found in result["metrics"].items()
    ]
    n = max((found["pearson"]["n"] for found in result["metrics"].values()), default=0)
    tests = [
        [
            f"{test['first']} against {test['second']}",
            number(test["r_first"] - test["r_second"]),
            number(test["t"]),
            f"{test['p_value']:.2g}",
        ]
        for test in result["williams"]
    ]
    return (
        f"### {title} ({n} texts)\n\n{table(['metric', 'Pearson', 'Spearman', 'MSE'], lines)}\n"
        f"{table(['Williams', 'difference of Pearson', 't', 'p'], tests)}"
    )


def markdown(results: Record) -> dict[str, str]:
    """File name -> text, one per question."""
    how = f"{results['date'][:10]}, `{results['command']}`. In brackets: 95 % bootstrap intervals.\n"
    records = results["against_people"]
    pages = {
        "texts": f"## How well does each metric agree with people, text by text? Pearson / Spearman\n\n{how}\n"
        + people_tables(records, "texts"),
        "systems": f"## Does it rank systems as people do? Pearson / Spearman of the systems' means\n\n{how}\n"
        + people_tables(records, "systems"),
        "documents": "## Does it rank the answers to one input? Pearson / Spearman, averaged over documents\n\n"
        + f"{how}\n{people_tables(records, 'documents')}",
    }
    if found := results["combination"]:
        sets = ", ".join(f"{name} ({dimension})" for name, dimension in found["sets"].items())
        trained = (
            "rouge_lm/svr was trained on these ratings: its honest number is the cross-validated one in its report.\n"
        )
        pages["combination"] = (
            f"## Is rouge_lm better than its halves? {sets}; ratings standardised per set\n\n{how}\n"
            + compared_table(found["pooled"], "Pooled, scores as they are")
            + "\n"
            + compared_table(found["within sets"], "Pooled, scores standardised per set")
            + (f"\n{trained}" if "rouge_lm/svr" in found["pooled"]["metrics"] else "")
        )
    if found := results["likelihoods"]:
        parts = [
            compared_table(result, f"{metric} on {name}")
            for metric, sets in found.items()
            for name, result in sets.items()
        ]
        pages["likelihoods"] = "## slor, nce or ppl?\n\n" + f"{how}\n" + "\n".join(parts)
    return pages


# --- the run ---------------------------------------------------------------------------------------------------------


def score_sets(
    sets: dict[str, list[Row]], metrics: Mapping[str, Metric], cache: Path
) -> tuple[dict[str, dict[str, NDArray[np.float64]]], dict[str, str], dict[str, str]]:
    """The scores of all sets, the signatures of the metrics, and a sentence for each metric that could not be had."""
    scores: dict[str, dict[str, NDArray[np.float64]]] = {name: {} for name in sets}
    signatures, absent = {}, {}
    for name, metric in metrics.items():
        asked = {set_: rows for set_, rows in sets.items() if metric.sets is None or set_ in metric.sets}
        usable = [set_ for set_, rows in asked.items() if not metric.references or all(row.references for row in rows)]
        if not usable:
            absent[name] = f"{name} is left out: no set has references."
        else:
            try:
                opened = metric.open()
            except UNAVAILABLE as error:
                absent[name] = f"{name} is left out: {error}"
        if name in absent:
            tqdm.write(absent[name])
            continue
        signatures[name] = opened.signature
        found = iter(score_texts(name, metric, opened, [row for set_ in usable for row in sets[set_]], cache))
        for set_ in usable:
            rows = list(islice(found, len(sets[set_])))
            for key in metric.keys:
                values = np.array([row[key] for row in rows], dtype=np.float64)
                scores[set_][label(name, key)] = _higher_is_better(key, values)
    return scores, signatures, absent


def evaluate(
    sets: dict[str, list[Row]], metrics: Mapping[str, Metric], out: Path, *, resamples: int, command: str = ""
) -> Record:
    """Scores, compares and writes everything; returns what results.json holds."""
    scores, signatures, absent = score_sets(sets, metrics, out / "cache")
    evaluation = Evaluation(sets, scores, resamples)
    results = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": command,
        "versions": {"python": platform.python_version(), **_versions()},
        "resamples": resamples,
        "sets": {name: {"texts": len(rows), "dimensions": dimensions(rows)} for name, rows in sets.items()},
        "signatures": signatures,
        "left_out": absent,
        "against_people": against_people(evaluation),
        "combination": combination(evaluation),
        "likelihoods": likelihoods(evaluation),
    }
    (out / "results.json").write_text(json.dumps(_without_nan(results), indent=1) + "\n", encoding="utf-8")
    for name, text in markdown(results).items():
        (out / f"{name}.md").write_text(text, encoding="utf-8")
    return results


def _versions() -> dict[str, str]:
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    return found


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list) else _plain(value)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, nargs="+", required=True, metavar="FOLDER", help="or .jsonl files")
    parser.add_argument(
        "--metrics", type=_names, default=list(METRICS), help=f"some of {','.join(METRICS)} (default: all)"
    )
    parser.add_argument("--sets", type=_names, help="names of .jsonl files without their ending (default: all)")
    parser.add_argument("--out", type=Path, default=Path("results"), metavar="FOLDER", help="(default: %(default)s)")
    parser.add_argument("--resamples", type=int, default=statistics.RESAMPLES, help="of the bootstrap")
    options = parser.parse_args(arguments)
    if unknown := set(options.metrics) - set(METRICS):
        parser.error(f"there is no metric {', '.join(sorted(unknown))}; there are {', '.join(METRICS)}")
    given = list(arguments) if arguments is not None else sys.argv[1:]
    evaluate(
        read_sets(options.data, options.sets),
        {name: METRICS[name] for name in options.metrics},
        options.out,
        resamples=options.resamples,
        command=shlex.join(["python", "-m", "training.meta_evaluation", *given]),
    )


if __name__ == "__main__":
    main()
