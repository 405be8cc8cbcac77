"""The meta-evaluation on a made-up folder: what it reads, remembers, computes and writes."""

from __future__ import annotations

import json
import math
import random

import pytest
from scipy import stats

from training import meta_evaluation
from training.meta_evaluation import Metric, Opened, Row, evaluate, read_sets, score_texts

VOCABULARY = ["the", "police", "killed", "gunman", "a", "man", "in", "town", "last", "night", "fled", "and", "he"]


def made_up_set(name: str, dimension: str, count: int, *, references: bool) -> list[dict[str, object]]:
    dice = random.Random(name)
    rows: list[dict[str, object]] = []
    for index in range(count):
        reference = dice.choices(VOCABULARY, k=dice.randint(5, 12))
        kept = [word for word in reference if dice.random() < 0.8]
        human = {dimension: len(kept) + dice.random(), "post_edits": len(reference) - len(kept)}
        row = {
            "dataset": name,
            "id": str(index),
            "system": f"system {index % 4}",
            "text": " ".join(kept),
            "human": human,
        }
        if references:
            row |= {"references": [" ".join(reference)], "document": str(index // 4)}
        rows.append(row)
    return rows


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "human"
    folder.mkdir()
    for name, dimension, references in (
        ("bagel", "quality", True),
        ("sfres", "quality", True),
        ("gug", "grammar", False),
    ):
        lines = [json.dumps(row) for row in made_up_set(name, dimension, 40, references=references)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def length_metric(log: list[str], *, fail_after: int | None = None, signature: str = "toy|version:1") -> Metric:
    """Counts words, writes down what it was asked for, and is interrupted after so many texts."""

    def score(texts, references):
        for _ in texts:
            if fail_after is not None and len(log) >= fail_after:
                raise KeyboardInterrupt
        log.extend(texts)
        return {"length": [float(len(text.split())) if text else math.nan for text in texts]}

    return Metric(lambda: Opened(score, signature), ("length",))


# --- reading ---------------------------------------------------------------------------------------------------------


def test_reads_folders_and_files(data):
    sets = read_sets([data])
    assert list(sets) == ["bagel", "gug", "sfres"]
    assert list(read_sets([data], ["gug"])) == list(read_sets([data / "gug.jsonl"])) == ["gug"]
    row = sets["bagel"][5]
    assert (row.system, row.document, len(row.references)) == ("system 1", "1", 1)
    assert sets["gug"][0].references == ()
    with pytest.raises(SystemExit, match=r"no set nowhere\. There are: bagel, gug, sfres"):
        read_sets([data], ["nowhere"])


def test_ratings_point_upwards_and_may_be_missing():
    rows = [Row("a", {"post_edits": 2.0}), Row("b", {})]
    found = meta_evaluation.ratings(rows, "post_edits")
    assert found[0] == -2
    assert math.isnan(found[1])


# --- remembering -----------------------------------------------------------------------------------------------------

ROWS = [Row(f"{'word ' * (index + 1)}", {}) for index in range(10)]


@pytest.fixture
def small_portions(monkeypatch):
    monkeypatch.setattr(meta_evaluation, "TEXTS_AT_A_TIME", 3)


def score_rows(metric: Metric, cache, rows=ROWS):
    return [scores["length"] for scores in score_texts("toy/config", metric, metric.open(), rows, cache)]


@pytest.mark.usefixtures("small_portions")
def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    first, second, third = [], [], []
    with pytest.raises(KeyboardInterrupt):
        score_rows(length_metric(first, fail_after=6), tmp_path)
    assert len(first) == 6
    expected = [float(index + 1) for index in range(10)]
    assert score_rows(length_metric(second), tmp_path) == expected
    assert second == [row.text for row in ROWS[6:]]
    assert score_rows(length_metric(third), tmp_path) == expected
    assert third == []


@pytest.mark.usefixtures("small_portions")
def test_a_line_cut_short_costs_one_text(tmp_path):
    score_rows(length_metric([]), tmp_path)
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-20])
    log: list[str] = []
    assert score_rows(length_metric(log), tmp_path) == [float(index + 1) for index in range(10)]
    assert log == [ROWS[-1].text]
    again: list[str] = []
    score_rows(length_metric(again), tmp_path)
    assert again == []


def test_another_signature_another_memory(tmp_path):
    first, second = [], []
    score_rows(length_metric(first), tmp_path)
    score_rows(length_metric(second, signature="toy|version:2"), tmp_path)
    assert len(second) == len(ROWS)
    assert len(list(tmp_path.iterdir())) == 2


def test_equal_texts_are_scored_once_and_nan_survives(tmp_path):
    log: list[str] = []
    rows = [ROWS[1], Row("", {}), ROWS[1]]
    for _ in range(2):
        found = score_rows(length_metric(log), tmp_path, rows)
        assert (found[0], found[2]) == (2, 2)
        assert math.isnan(found[1])
    assert log == [ROWS[1].text, ""]


def test_references_are_part_of_the_content_where_they_matter():
    with_one, with_other = Row("text", {}, ("one",)), Row("text", {}, ("other",))
    assert meta_evaluation.fingerprint(with_one, True) != meta_evaluation.fingerprint(with_other, True)
    assert meta_evaluation.fingerprint(with_one, False) == meta_evaluation.fingerprint(with_other, False)


# --- the whole run ---------------------------------------------------------------------------------------------------


def missing_module() -> Opened:
    raise ImportError("No module named 'textfluency.tomorrow'")


def fluent_half(texts, references):
    """Stands for rouge_lm: its two halves are length and overlap."""
    overlap = [len(set(text.split()) & set(group[0].split())) for text, group in zip(texts, references, strict=True)]
    lengths = [float(len(text.split())) for text in texts]
    total = [first + second for first, second in zip(overlap, lengths, strict=True)]
    return {"rouge_lm": total, "rouge_l": list(map(float, overlap)), "wpslor": lengths}


@pytest.fixture
def metrics(monkeypatch):
    table = {
        name: meta_evaluation.METRICS[name] for name in ("length", "type_token_ratio", "rouge_score", "bleu", "chrf")
    }
    table["rouge_lm"] = Metric(lambda: Opened(fluent_half, "toy"), ("rouge_lm", "rouge_l", "wpslor"), references=True)
    table["slor"] = Metric(
        lambda: Opened(
            lambda texts, _: {
                "slor": [float(len(text)) for text in texts],
                "nce": [float(len(set(text))) for text in texts],
                "ppl": [-float(len(text.split())) for text in texts],
            },
            "toy",
        ),
        ("slor", "nce", "ppl"),
    )
    table["wpslor"] = Metric(missing_module, ("wpslor", "nce", "ppl"))
    for name, metric in table.items():
        monkeypatch.setitem(meta_evaluation.METRICS, name, metric)
    return table


@pytest.fixture
def results(data, metrics, tmp_path):
    evaluate(read_sets([data]), metrics, tmp_path / "out", resamples=30)
    return json.loads((tmp_path / "out" / "results.json").read_text())


def found(results, **wanted):
    (record,) = [row for row in results["against_people"] if all(row[key] == value for key, value in wanted.items())]
    return record


def test_correlations_are_those_of_scipy(results):
    rows = made_up_set("gug", "grammar", 40, references=False)
    lengths = [len(str(row["text"]).split()) for row in rows]
    human = [row["human"]["grammar"] for row in rows]  # type: ignore[index]
    record = found(results, set="gug", dimension="grammar", metric="length", method="spearman", unit="texts")
    assert record["value"] == pytest.approx(-stats.spearmanr(lengths, human).statistic)
    assert record["low"] < record["value"] < record["high"]
    assert record["n"] == 40


def test_lower_is_better_is_turned_round(results):
    as_given = [row["human"]["post_edits"] for row in made_up_set("bagel", "quality", 40, references=True)]  # type: ignore[index]
    lengths = [len(str(row["text"]).split()) for row in made_up_set("bagel", "quality", 40, references=True)]
    record = found(results, set="bagel", dimension="post_edits", metric="slor: ppl", method="pearson", unit="texts")
    assert record["value"] == pytest.approx(-stats.pearsonr(lengths, as_given).statistic)


def test_levels_and_sets_without_references(results):
    assert found(results, set="bagel", dimension="quality", metric="bleu", method="kendall", unit="systems")["n"] == 4
    assert (
        found(results, set="sfres", dimension="quality", metric="chrf", method="pearson", unit="documents")["n"] == 10
    )
    assert not [row for row in results["against_people"] if row["set"] == "gug" and row["metric"] == "bleu"]
    assert not [row for row in results["against_people"] if row["set"] == "gug" and row["unit"] == "documents"]


def test_what_is_missing_is_left_out_with_a_sentence(results):
    assert results["left_out"] == {"wpslor": "wpslor is left out: No module named 'textfluency.tomorrow'"}
    assert "wpslor" not in results["signatures"]
    assert results["signatures"]["bleu"].startswith("bleu|sacrebleu:")
    assert {"python", "textfluency", "sacrebleu"} <= set(results["versions"])


def test_the_combination_is_compared_with_its_halves(results):
    combination = results["combination"]
    assert combination["sets"] == {"bagel": "quality", "sfres": "quality"}
    for view in ("pooled", "within sets"):
        compared = combination[view]
        assert compared["metrics"]["rouge_lm"]["pearson"]["n"] == 80
        pairs = {(test["first"], test["second"]) for test in compared["williams"]}
        assert ("rouge_lm: rouge_l", "rouge_lm") in pairs
        assert ("rouge_lm: wpslor", "rouge_lm") in pairs


def test_likelihoods_are_compared_on_the_fluency_dimension(results):
    assert set(results["likelihoods"]) == {"slor"}
    assert set(results["likelihoods"]["slor"]) == {"bagel", "sfres"}  # the made-up gug has no grammaticality
    assert list(results["likelihoods"]["slor"]["bagel"]["metrics"]) == ["slor", "nce", "ppl"]


def test_a_table_per_question(results, tmp_path):
    pages = {file.stem: file.read_text(encoding="utf-8") for file in (tmp_path / "out").glob("*.md")}
    assert set(pages) == {"texts", "systems", "documents", "combination", "likelihoods"}
    record = found(results, set="bagel", dimension="quality", metric="bleu", method="pearson", unit="texts")
    (line,) = [
        line for line in pages["texts"].split("### bagel")[1].split("###")[0].split("\n") if line.startswith("| bleu")
    ]
    assert f"| {record['value']:.3f} / " in line
    assert "| rouge_lm: rouge_l against rouge_lm |" in pages["combination"]
    assert "NaN" not in (tmp_path / "out" / "results.json").read_text()


def test_the_same_run_gives_the_same_numbers(data, metrics, results, tmp_path):
    again = evaluate(read_sets([data]), metrics, tmp_path / "elsewhere", resamples=30)
    assert (
        json.loads((tmp_path / "elsewhere" / "results.json").read_text())["against_people"] == results["against_people"]
    )
    assert again["resamples"] == 30


def test_command_line(data, metrics, tmp_path, capsys):
    arguments = ["--data", str(data), "--metrics", "length,bleu", "--sets", "bagel", "--out", str(tmp_path / "out")]
    meta_evaluation.main([*arguments, "--resamples", "5"])
    stored = json.loads((tmp_path / "out" / "results.json").read_text())
    assert list(stored["signatures"]) == ["length", "bleu"]
    assert stored["combination"] is None
    assert "--metrics length,bleu --sets bagel" in stored["command"]
    with pytest.raises(SystemExit):
        meta_evaluation.main([*arguments, "--metrics", "nonsense"])
    assert "there is no metric nonsense; there are length," in capsys.readouterr().err


def test_our_metrics_are_called_by_their_shape(monkeypatch):
    """load, extract and score of any module of ours, with and without references."""
    import sys
    from types import SimpleNamespace

    module = SimpleNamespace(
        load=lambda config: config,
        extract=lambda texts, *rest: [(text, *rest) for text in texts],
        score=lambda features, models: {"toy": float(len(features)) + 10 * (models == "small")},
        signature=lambda models: f"toy|{models}",
    )
    monkeypatch.setitem(sys.modules, "textfluency.toy", module)
    opened = meta_evaluation.ours("toy", "small")()
    assert opened.signature == "toy|small"
    assert opened.score(["a"], [[]]) == {"toy": [12.0]}
    assert meta_evaluation.ours("toy", references=True)().score(["a"], [["b"]]) == {"toy": [3.0]}


def test_the_tables_in_readme_and_cards_are_those_of_the_stored_results() -> None:
    from training import cards

    for page, text in cards.pages().items():
        assert page.read_text(encoding="utf-8") == text, f"{page.name}: run `python -m training.cards`"
