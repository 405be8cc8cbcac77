"""What every metric folder promises, checked over all of them."""

import ast
import doctest
import importlib.util
import inspect
import json
import pickle
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import datasets
import evaluate
import numpy as np
import pandas as pd
import pytest

from textfluency import installation, weights

ROOT = Path(__file__).parents[1]
FOLDERS = installation.metric_folders()
NAMES = [folder.name for folder in FOLDERS]
CARD_SECTIONS = (
    "Metric Description",
    "How to Use",
    "Inputs",
    "Output Values",
    "Values from Popular Papers",
    "Examples",
    "Limitations and Bias",
    "Citation",
    "Further References",
)
TEXTS = ["The committee approved the new budget.", "budget new the approved committee The", "It rained."]
REFERENCES = ["The committee approved the new budget.", "The committee approved the new budget.", "It was raining."]


@pytest.fixture(scope="module", autouse=True)
def _installed():
    installation.install()


@pytest.fixture(params=FOLDERS, ids=NAMES)
def folder(request):
    return request.param


@pytest.fixture
def metric(folder):
    return evaluate.load(str(folder), keep_in_memory=True)


def takes_references(metric):
    return "references" in metric._feature_names()


def arguments(metric, predictions=TEXTS, references=REFERENCES):
    return {"predictions": predictions, **({"references": references} if takes_references(metric) else {})}


def script(folder):
    specification = importlib.util.spec_from_file_location(folder.name, folder / f"{folder.name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def run(code, *, cwd, home, **variables):
    """A python of its own, as a user would start it."""
    import os

    environment = {**os.environ, "HF_HOME": str(home), "OMP_NUM_THREADS": "1", **variables}
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        cwd=cwd,
        env={key: value for key, value in environment.items() if value is not None},
        capture_output=True,
        text=True,
        timeout=240,
    )


# --- loading -------------------------------------------------------------------------------------------------------


def test_loads_by_path_by_file_and_by_name(folder):
    expected = "".join(part.capitalize() for part in folder.name.split("_"))
    for where in (str(folder), str(folder / f"{folder.name}.py"), folder.name, f"textfluency/{folder.name}"):
        loaded = evaluate.load(where, keep_in_memory=True)
        assert type(loaded).__name__ == expected
        assert loaded.name == folder.name
        assert loaded.module_type == "metric"


@pytest.mark.parametrize("status", [None, 404, 500])
def test_bare_names_load_from_an_empty_directory(tmp_path, status, broken_hub):
    """With no network at all, and with a Hub that answers nothing useful."""
    offline = {"HF_EVALUATE_OFFLINE": "1"} if status is None else {
        "HF_EVALUATE_OFFLINE": "0", "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": broken_hub(status),
    }  # fmt: skip
    done = run(
        f"""
        from textfluency.cli import main
        assert main(["install"]) == 0
        import evaluate
        for name in {NAMES!r}:
            print(evaluate.load(name).name)
        result = evaluate.load("tree_accuracy").compute(
            predictions=["There was estimate for phase the second no cost"],
            references=["There was no cost estimate for the second phase"],
            trees=[[[5, 5, 5, 5, 0, 5, 9, 9, 6]]],
        )
        print(*(round(result[key + "_accuracy"], 4) for key in
                ("simple_string", "generation_string", "simple_tree", "generation_tree")))
        """,
        cwd=tmp_path,
        home=tmp_path / "home",
        **offline,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "0.4444 0.5556 0.3333 0.6667"
    assert set(NAMES) <= set(done.stdout.split())


@pytest.fixture
def broken_hub():
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
    from threading import Thread

    servers = []

    def start(status):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_HEAD = do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        Thread(target=server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()


def test_install_is_idempotent_checked_and_removable(tmp_path, monkeypatch, capsys):
    from textfluency.cli import main

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", tmp_path)
    assert main(["install", "--check"]) == 1
    assert main(["install", "--org", "somebody"]) == 0
    before = {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.py") if file.name != "__init__.py"}
    assert main(["install", "--org", "somebody"]) == 0
    assert before == {file: file.stat().st_mtime_ns for file in tmp_path.rglob("*.py") if file.name != "__init__.py"}
    assert main(["install", "--check", "--org", "somebody"]) == 0
    assert any(path.name == "somebody--slor" for path in tmp_path.rglob("*"))
    stale = tmp_path / "evaluate_modules" / "metrics" / "evaluate-metric--slor" / ("0" * 64)
    stale.mkdir()
    (stale / "slor.py").write_text("")
    assert main(["install", "--check", "--org", "somebody"]) == 1
    assert "outdated  slor" in capsys.readouterr().out
    assert main(["install", "--org", "somebody"]) == 0
    assert main(["install", "--check", "--org", "somebody"]) == 0
    script = next(tmp_path.glob("evaluate_modules/metrics/somebody--slor/*/slor.py"))
    script.write_text("damaged")
    assert main(["install", "--check", "--org", "somebody"]) == 1
    assert main(["install", "--org", "somebody"]) == 0
    assert main(["install", "--check", "--org", "somebody"]) == 0
    assert main(["install", "--remove", "--org", "somebody"]) == 0
    assert main(["install", "--check", "--org", "somebody"]) == 1


def test_every_folder_is_in_the_wheel_and_complete(folder):
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert f"textfluency.adapters.{folder.name}" in listed["packages"]
    assert listed["package-dir"][f"textfluency.adapters.{folder.name}"] == f"metrics/{folder.name}"
    assert {"README.md", "app.py", "requirements.txt"} <= {file.name for file in folder.iterdir()}


def test_names_the_command_when_the_library_is_missing(folder, tmp_path):
    code = f"""
        import sys
        sys.modules["textfluency"] = None
        sys.path.insert(0, {str(folder)!r})
        import {folder.name}
    """
    done = run(code, cwd=tmp_path, home=tmp_path)
    assert f"{folder.name} needs its library: pip install textfluency" in done.stderr


# --- the card and the script ---------------------------------------------------------------------------------------


def test_card_has_the_canonical_sections_and_documents_everything(folder, metric):
    card = (folder / "README.md").read_text(encoding="utf-8")
    for section in CARD_SECTIONS:
        assert re.search(rf"^#+ {section}", card, re.MULTILINE), section
    keys = set(metric.compute(**arguments(metric))) | set(metric.compute(**arguments(metric), use_aggregator=False))
    parameters = [name for name in inspect.signature(metric._compute).parameters if name != "references"]
    for name in (*keys, *parameters):
        assert f"`{name}`" in card, f"the card does not document `{name}`"
        assert re.search(rf"^ +{name} \(", metric.inputs_description, re.MULTILINE), (
            f"the script does not document {name}"
        )
    header = card.split("---")[1]
    for line in ("sdk: gradio", "app_file: app.py", 'python_version: "3.11"', "- metric"):
        assert line in header


def test_doctests_of_the_script_pass(folder):
    module = script(folder)
    parsed = doctest.DocTestParser().get_doctest(
        module._KWARGS_DESCRIPTION, {"evaluate": evaluate}, folder.name, None, 0
    )
    assert parsed.examples
    result = doctest.DocTestRunner().run(parsed)
    assert result.failed == 0


def test_examples_of_the_card_hold(folder):
    """The first block's numbers to the digits it shows, and every `>>>` example to the letter."""
    card = (folder / "README.md").read_text(encoding="utf-8")
    first = re.search(r"```python\n(.*?)```", card, re.DOTALL).group(1)
    code, _, comment = first.partition("\n# ")
    *statements, last = ast.parse(code).body
    names = {}
    exec(compile(ast.Module(statements, []), folder.name, "exec"), names)
    result = eval(compile(ast.Expression(last.value), folder.name, "eval"), names)
    values = result if isinstance(result, list) else [result[key] for key in re.findall(r"([a-z_]+) +[-0-9]", comment)]
    shown = re.findall(r"-?\d+\.\d+", comment)
    assert len(shown) == len(values) > 0
    for value, text in zip(values, shown, strict=True):
        assert f"{value:.{len(text.split('.')[1])}f}" == text
    parsed = doctest.DocTestParser().get_doctest(card.replace("```", ""), names, folder.name, None, 0)
    assert parsed.examples
    assert doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(parsed).failed == 0


def test_compute_takes_no_open_keywords(metric):
    kinds = {parameter.kind for parameter in inspect.signature(metric._compute).parameters.values()}
    assert inspect.Parameter.VAR_KEYWORD not in kinds


# --- results -------------------------------------------------------------------------------------------------------


def test_default_result_is_plain_floats_under_the_metrics_name(metric):
    result = metric.compute(**arguments(metric))
    assert metric.name in result
    assert all(type(value) is float for value in result.values()), result
    json.dumps(result)


def test_without_aggregator_there_is_one_value_per_text(metric):
    result = metric.compute(**arguments(metric), use_aggregator=False)
    assert metric.name in result
    for values in result.values():
        assert len(values) == len(TEXTS)
        assert all(type(value) in (float, int) for value in values)


def test_scores_do_not_depend_on_neighbours_or_order(metric):
    together = metric.compute(**arguments(metric), use_aggregator=False)[metric.name]
    backwards = metric.compute(**arguments(metric, TEXTS[::-1], REFERENCES[::-1]), use_aggregator=False)[metric.name]
    alone = [
        metric.compute(**arguments(metric, [text], [reference]), use_aggregator=False)[metric.name][0]
        for text, reference in zip(TEXTS, REFERENCES, strict=True)
    ]
    np.testing.assert_allclose(together, backwards[::-1], atol=1e-5)
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_empty_predictions_never_raise(metric):
    texts = ["", "   ", TEXTS[0]]
    result = metric.compute(**arguments(metric, texts, [TEXTS[0]] * 3), use_aggregator=False)[metric.name]
    assert len(result) == 3
    assert not result[0] > result[2]
    assert not np.isnan(result[2])
    only_empty = metric.compute(**arguments(metric, ["", "\n"], [TEXTS[0]] * 2))
    assert all(type(value) is float for value in only_empty.values())


def test_signature_is_stable_and_names_metric_and_version(metric):
    from textfluency import __version__

    assert metric.signature() == metric.signature()
    assert metric.signature().startswith(metric.name + "|")
    assert metric.signature().endswith(f"version:{__version__}")


# --- ways of calling -----------------------------------------------------------------------------------------------


def test_add_and_add_batch(metric):
    expected = metric.compute(**arguments(metric))
    for text, reference in zip(TEXTS, REFERENCES, strict=True):
        metric.add(prediction=text, **({"reference": reference} if takes_references(metric) else {}))
    assert metric.compute() == pytest.approx(expected, nan_ok=True)
    metric.add_batch(**arguments(metric, TEXTS[:2], REFERENCES[:2]))
    metric.add_batch(**arguments(metric, TEXTS[2:], REFERENCES[2:]))
    assert metric.compute() == pytest.approx(expected, nan_ok=True)


def test_combine():
    result = evaluate.combine(NAMES).compute(predictions=TEXTS, references=REFERENCES)
    for name in NAMES:
        assert any(key == name or key.endswith(f"_{name}") for key in result)


def test_pickling(metric):
    expected = metric.compute(**arguments(metric))
    copy = pickle.loads(pickle.dumps(metric))
    assert copy.compute(**arguments(metric)) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    "wrap",
    [
        tuple,
        np.array,
        iter,
        lambda values: pd.Series(values, index=range(7, 7 + len(values))),
        lambda values: datasets.Dataset.from_dict({"text": values})["text"],
    ],
    ids=["tuple", "array", "generator", "series", "column"],
)
def test_any_sequence_of_texts_is_welcome(metric, wrap):
    expected = metric.compute(**arguments(metric))
    assert metric.compute(**arguments(metric, wrap(TEXTS), wrap(REFERENCES))) == pytest.approx(expected, nan_ok=True)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("a single string", "`predictions` must be a list of strings, got a single str"),
        (None, "`predictions` is missing"),
        ([TEXTS[0], None, TEXTS[1]], r"`predictions\[1\]` must be a string, got NoneType"),
        ([TEXTS[0], TEXTS[1], 3], r"`predictions\[2\]` must be a string, got int 3"),
        ([], "`predictions` is an empty list"),
    ],
    ids=["string", "missing", "none", "int", "empty"],
)
def test_wrong_predictions_get_one_clear_error(metric, wrong, message):
    with pytest.raises((TypeError, ValueError), match=message):
        metric.compute(**arguments(metric, wrong))
    assert metric.compute(**arguments(metric))  # and the instance still works


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (REFERENCES[:2], "`references` has 2 entries but `predictions` has 3"),
        (None, "`references` is missing"),
        ([*REFERENCES[:2], None], r"`references\[2\]` must be a string or a list of strings, got NoneType"),
        ([*REFERENCES[:2], []], r"`references\[2\]` is an empty list"),
        ([*REFERENCES[:2], ["fine", 4]], r"`references\[2\]\[1\]` must be a string, got int 4"),
    ],
    ids=["length", "missing", "none", "empty", "nested"],
)
def test_wrong_references_get_one_clear_error(metric, wrong, message):
    if takes_references(metric):
        with pytest.raises((TypeError, ValueError), match=message):
            metric.compute(predictions=TEXTS, references=wrong)


def test_three_processes_give_one_result(tmp_path):
    code = f"""
        import sys
        from multiprocessing import get_context
        TEXTS, REFERENCES = {TEXTS!r}, {REFERENCES!r}

        def work(rank, queue):
            import evaluate
            for folder in {[str(folder) for folder in FOLDERS]!r}:
                metric = evaluate.load(folder, num_process=3, process_id=rank, experiment_id="contract")
                references = "references" in metric._feature_names()
                result = metric.compute(
                    predictions=TEXTS[rank:rank + 1],
                    **({{"references": REFERENCES[rank:rank + 1]}} if references else {{}}),
                )
                queue.put((metric.name, rank, result))

        if True:
            context = get_context("fork")
            queue = context.Queue()
            processes = [context.Process(target=work, args=(rank, queue)) for rank in range(3)]
            for process in processes:
                process.start()
            import json
            found = [queue.get(timeout=200) for _ in range(3 * {len(FOLDERS)})]
            for process in processes:
                process.join()
            print(json.dumps([result for result in found if result[1] == 0]))
            assert all(result[2] is None for result in found if result[1] != 0)
    """
    done = run(code, cwd=tmp_path, home=tmp_path / "home")
    assert done.returncode == 0, done.stderr[-2000:]
    for name, _, result in json.loads(done.stdout.splitlines()[-1]):
        expected = evaluate.load(name, keep_in_memory=True)
        assert result == pytest.approx(expected.compute(**arguments(expected)), nan_ok=True)


def test_the_weights_that_come_with_the_package_are_those_of_the_table():
    embedded = {folder.name for folder in weights.EMBEDDED.iterdir() if folder.is_dir()}
    assert embedded == set(weights.WEIGHTS)
    for name, weight in weights.WEIGHTS.items():
        found = {file.name: weights.sha256(file) for file in (weights.EMBEDDED / name).iterdir()}
        assert found == weight.files, f"run `python -m training.checksums` after changing {name}"
