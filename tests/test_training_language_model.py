"""The trainers, end to end on ten sentences, and the sampled loss against the exact one."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from textfluency import lstm, slor, wpslor
from training import language_model

ROOT = Path(__file__).parents[1]
TEN = (Path(__file__).parent / "golden" / "sentences.txt").read_text(encoding="utf-8").splitlines()[:10]


def train(name, corpus, out, *options):
    command = [sys.executable, "-m", f"training.{name}", "--corpus", str(corpus), "--out", str(out), *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((out / "report.json").read_text())


@pytest.mark.parametrize(("name", "module"), [("slor", slor), ("wpslor", wpslor)])
def test_a_tiny_model_learns_is_used_at_once_and_beats_the_untrained_one(name, module, tmp_path, monkeypatch):
    corpus = tmp_path / "ten.txt"
    corpus.write_text("\n".join(TEN * 3), encoding="utf-8")
    untrained = train(name, corpus, tmp_path / "untrained" / name, "--steps", "1", "--threads", "1")
    trained = train(name, corpus, tmp_path / "trained" / name, "--steps", "60", "--threads", "1")
    assert trained["loss_curve"][-1]["training_loss"] < untrained["loss_curve"][-1]["training_loss"]
    assert trained["tokens_seen"] > 0
    assert trained["steps"] == 60
    found = {}
    for which in ("untrained", "trained"):
        monkeypatch.setenv("TEXTFLUENCY_WEIGHTS", str(tmp_path / which))
        features = module.extract(TEN, module.load())
        found[which] = np.mean([module.score(text)["nce"] for text in features])
    assert found["trained"] > found["untrained"] + 0.5


def test_an_interrupted_run_goes_on_where_it_stopped(tmp_path):
    corpus = tmp_path / "ten.txt"
    corpus.write_text("\n".join(TEN * 3), encoding="utf-8")
    out = tmp_path / "parts"
    train("slor", corpus, out, "--steps", "20", "--threads", "1")
    report = train("slor", corpus, out, "--steps", "40", "--resume", "--threads", "1")
    other = subprocess.run(
        [sys.executable, "-m", "training.slor", "--corpus", __file__, "--out", str(out), "--resume"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert "was made from another corpus" in other.stderr
    assert [point["tokens"] for point in report["loss_curve"]] == [report["tokens_seen"] // 2, report["tokens_seen"]]
    assert not list(out.rglob("*.new"))
    first, second = (point["held_out_perplexity"] for point in report["loss_curve"])
    again = train("slor", corpus, out, "--steps", "20", "--threads", "1")
    assert again["loss_curve"][0]["held_out_perplexity"] == pytest.approx(first, rel=0.01)  # seeded, from the beginning
    assert second < 0.9 * first  # and the second half went on from the first


def test_the_sampled_loss_estimates_the_exact_one_and_its_gradient():
    torch.manual_seed(0)
    network = lstm.LstmNetwork(vocabulary=500, width=16, hidden=8, layers=1)
    counts = np.random.default_rng(0).zipf(1.5, 500).clip(max=10_000)
    states, targets = torch.randn(200, 16, requires_grad=True), torch.randint(0, 500, (200,))

    def gradients(loss):
        return torch.autograd.grad(loss, [states, network.embedding.weight, network.bias])

    exact = torch.nn.functional.cross_entropy(network.logits(states), targets)
    expected = gradients(exact)
    everything = language_model.OutputSampler(counts, expected_size=500)
    full = everything.loss(network, states, targets)
    assert full.item() == pytest.approx(exact.item(), abs=0.02)  # bfloat16
    for found, wanted in zip(gradients(full), expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-4, rtol=0.05)
    half = language_model.OutputSampler(counts, expected_size=250)
    assert half.inclusion.sum() == pytest.approx(250, abs=1)
    losses = [half.loss(network, states, targets).item() for _ in range(40)]
    assert np.mean(losses) == pytest.approx(exact.item(), abs=0.03)


def test_batches_hold_every_text_once_and_little_padding():
    dice = np.random.default_rng(0)
    lengths = dice.integers(1, 90, 3000)
    corpus = language_model.Corpus(
        dice.integers(3, 50, lengths.sum()).astype(np.uint16), np.concatenate([[0], np.cumsum(lengths)])
    )
    targets = [target for _, target in language_model.batches(corpus, np.arange(3000), start=1, seed=5)]
    assert sum(int((target >= 0).sum()) for target in targets) == lengths.sum()
    assert sum(target.numel() for target in targets) < 1.1 * lengths.sum()
    assert max(target.numel() for target in targets) <= language_model.TOKENS_PER_BATCH
    for inputs, target in language_model.batches(corpus, np.arange(10), start=1, seed=5):
        assert (inputs[:, 0] == 1).all()
        assert (inputs[:, 1:] == target[:, :-1].clamp(min=0)).all()


def test_stored_weights_differ_little_from_trained_ones(tmp_path):
    torch.manual_seed(0)
    network = lstm.LstmNetwork(vocabulary=300, width=32).eval()
    lstm.save(network, tmp_path)
    loaded = lstm.load(tmp_path)
    ids = torch.randint(0, 300, (4, 12))
    with torch.no_grad():
        difference = (network.logits(network(ids).flatten(0, 1)) - loaded.logits(loaded(ids).flatten(0, 1))).abs().max()
    assert difference < 0.02
    assert os.path.getsize(tmp_path / "model.safetensors") < 1.1 * sum(p.numel() for p in network.parameters())


def test_unigrams_are_counted_for_a_folder(tmp_path):
    from tests.models import save_tiny_gpt2

    model = save_tiny_gpt2(tmp_path / "gpt2")
    (model / "unigrams.safetensors").unlink()
    (tmp_path / "ten.txt").write_text("\n".join(TEN), encoding="utf-8")
    command = [sys.executable, "-m", "training.unigrams", "--model", str(model), "--corpus", str(tmp_path / "ten.txt")]
    done = subprocess.run([*command, "--out", str(tmp_path / "table")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    features = slor.extract(["The cat sat."], slor.load(str(model), unigrams=tmp_path / "table"))
    assert np.isfinite(slor.score(features[0])["slor"])
