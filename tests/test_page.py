"""The small page, through Gradio's own client."""

import pytest

from textfluency import installation, page

NAMES = [folder.name for folder in installation.metric_folders()]


@pytest.fixture(scope="module")
def client():
    from gradio_client import Client

    launched = page.build(NAMES)
    _, address, _ = launched.launch(prevent_thread_lock=True, quiet=True, server_name="127.0.0.1", ssr_mode=False)
    yield Client(address, verbose=False)
    launched.close()


def test_every_metric_answers_with_a_score_and_its_evidence(client):
    table, evidence = client.predict(
        "He is citizen a France of.", "He was French.\nHe is a citizen of France.", api_name="/score"
    )
    assert [row[0] for row in table["data"]] == NAMES
    assert all(float(row[1]) is not None for row in table["data"])
    assert all(name in evidence for name in NAMES)


def test_without_references_and_without_text_the_page_says_so(client):
    table, _ = client.predict("", "", api_name="/score")
    found = dict(table["data"])
    assert found["tree_accuracy"] == "needs a reference"
    assert found["slor"] == "nothing to score"
