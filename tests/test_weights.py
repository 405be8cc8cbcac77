"""Where weights come from, and what happens when they are not what was published."""

import shutil
import threading
import time

import pytest

from textfluency import weights


@pytest.fixture(autouse=True)
def _forget():
    weights.free_models()
    yield
    weights.free_models()


@pytest.fixture
def published(monkeypatch, tmp_path):
    """One small weight, embedded in a folder of the test's own."""
    folder = tmp_path / "embedded" / "small"
    folder.mkdir(parents=True)
    (folder / "model.json").write_text("{}")
    digest = weights.sha256(folder / "model.json")
    monkeypatch.setattr(weights, "EMBEDDED", folder.parent)
    monkeypatch.setattr(weights, "WEIGHTS", {"small": weights.Weight("somebody/small", "v1", {"model.json": digest})})
    return folder


def test_embedded_weights_are_found(published):
    assert weights.resolve("small") == published


def test_a_folder_that_is_named_wins(published, tmp_path):
    own = tmp_path / "own"
    own.mkdir()
    assert weights.resolve(own) == own
    assert weights.resolve(str(own)) == own


def test_the_variable_wins_over_embedded_weights(published, tmp_path, monkeypatch):
    own = tmp_path / "trained" / "small"
    own.mkdir(parents=True)
    monkeypatch.setenv(weights.VARIABLE, str(own.parent))
    with pytest.raises(weights.WeightsError, match=r"lacks model\.json: finish its training"):
        weights.resolve("small")
    (own / "model.json").write_text("mine")
    assert weights.resolve("small") == own
    monkeypatch.setenv(weights.VARIABLE, str(own / "nowhere"))
    with pytest.raises(weights.WeightsError, match="is not a folder"):
        weights.resolve("small")


def test_a_changed_file_is_refused_with_a_remedy(published):
    (published / "model.json").write_text("changed")
    with pytest.raises(weights.WeightsError, match=r"sha256 differs. Delete it and load again"):
        weights.resolve("small")


def test_a_missing_file_is_named(published):
    (published / "model.json").unlink()
    with pytest.raises(weights.WeightsError, match=r"lack model\.json"):
        weights.resolve("small")


def test_without_embedded_weights_and_hub_there_is_one_sentence(published):
    shutil.rmtree(published)
    with pytest.raises(weights.WeightsError, match=r"could not be fetched from the Hub \(somebody/small, v1\)"):
        weights.resolve("small")


def test_weights_come_from_the_hubs_cache(published, tmp_path, monkeypatch):
    cached = shutil.copytree(published, tmp_path / "snapshot")
    shutil.rmtree(published)
    asked = []

    def hf_hub_download(repo, file, revision):
        asked.append((repo, file, revision))
        return str(cached / file)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", hf_hub_download)
    assert weights.resolve("small") == cached
    assert weights.resolve("small") == cached
    assert asked == [("somebody/small", "model.json", "v1")]
    weights.free_models()
    (cached / "model.json").write_text("corrupted on the way")
    with pytest.raises(weights.WeightsError, match="sha256 differs"):
        weights.resolve("small")


def test_an_unknown_name_lists_the_known_ones(published):
    with pytest.raises(weights.WeightsError, match=r"no weights named 'large'\. Published: small"):
        weights.resolve("large")


def test_models_are_built_once_whatever_the_threads():
    built = []

    def build():
        time.sleep(0.05)
        built.append(object())
        return built[-1]

    found = []
    threads = [threading.Thread(target=lambda: found.append(weights.load_once("key", build))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert found == built * 20
    weights.free_models()
    assert weights.load_once("key", build) is built[1]
