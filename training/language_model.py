"""How the language models of slor and wpslor are trained: on two CPU cores, in about an hour each.

A paragraph is cut into texts of one to three sentences, because that is what people score. A text is predicted token by
token, from a start sign to an end sign. What makes it quick: texts of like length share a batch, so hardly anything is
padding; matrices multiply in bfloat16; and the output layer looks at a sample of the vocabulary instead of all of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor
from tqdm import tqdm

from textfluency.lstm import LstmNetwork
from textfluency.sentences import sentences
from textfluency.tokenizers import PieceTokenizer
from training.corpora import paragraphs

SENTENCES_PER_TEXT = (1, 1, 1, 1, 1, 1, 1, 2, 2, 3)  # drawn at random: mostly one, as in the papers' data
LONGEST_TEXT = 96  # tokens; what goes beyond is cut off and gets no end sign
HELD_OUT_EVERY = 1000  # one text in so many measures the perplexity and is never trained on
TOKENS_PER_BATCH = 3072
BATCHES_SORTED_TOGETHER = 100
LEARNING_RATE = 2e-3
WARM_UP_STEPS = 300
COOL_DOWN_SHARE = 0.3  # of all steps: the learning rate falls linearly to zero
LARGEST_GRADIENT_NORM = 1.0
SAMPLE_EXPONENT = 0.75  # flattens the frequencies by which the output layer is sampled (Mikolov et al. 2013)
STEPS_PER_CHECKPOINT = 1000
SEED = 2018
TOKENIZER_FILES = ("vocabulary.txt", PieceTokenizer.FILE)
DEFAULT_DATASET = "Salesforce/wikitext:wikitext-103-raw-v1"

Encoder = Callable[[str], list[int]]
MakeEncoder = Callable[[], Encoder]


# --- text to token ids ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Corpus:
    """Encoded texts end to end: text i is tokens[offsets[i]:offsets[i + 1]]; it ends in the end sign, unless cut."""

    tokens: NDArray[np.uint16]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def text(self, index: int) -> NDArray[np.uint16]:
        return self.tokens[self.offsets[index] : self.offsets[index + 1]]

    def counts(self, vocabulary: int) -> NDArray[np.int64]:
        """How often each token id occurs."""
        return np.bincount(self.tokens, minlength=vocabulary).astype(np.int64)

    def save(self, folder: Path) -> None:
        np.save(folder / "tokens.npy", self.tokens)
        np.save(folder / "new.npy", self.offsets)
        os.replace(folder / "new.npy", folder / "offsets.npy")  # last and at once: where it is, the corpus is whole

    @classmethod
    def load(cls, folder: Path) -> Corpus:
        return cls(np.load(folder / "tokens.npy"), np.load(folder / "offsets.npy"))


def texts_of(numbered_paragraph: tuple[int, str]) -> list[str]:
    """Cuts a paragraph into texts of one to three sentences; the number makes the cut repeatable."""
    number, paragraph = numbered_paragraph
    dice = random.Random(number)
    remaining = iter(sentences(paragraph))
    texts = []
    while group := list(islice(remaining, dice.choice(SENTENCES_PER_TEXT))):
        texts.append(" ".join(group))
    return texts


_encode: Encoder  # in worker processes


def _start_worker(make_encoder: MakeEncoder) -> None:
    global _encode
    _encode = make_encoder()


def _encode_paragraph(numbered_paragraph: tuple[int, str]) -> list[list[int]]:
    return [_encode(text) for text in texts_of(numbered_paragraph)]


def encode_corpus(make_encoder: MakeEncoder, source: Iterable[str], end: int) -> Corpus:
    """Encodes all paragraphs in worker processes, in order."""
    tokens: list[NDArray[np.uint16]] = []
    lengths: list[int] = []
    with multiprocessing.Pool(os.cpu_count(), _start_worker, [make_encoder]) as pool:
        encoded = pool.imap(_encode_paragraph, enumerate(source), chunksize=500)
        for texts in tqdm(encoded, desc="encoding", unit=" paragraphs"):
            for text in texts:
                if text:
                    kept = np.array([*text, end][:LONGEST_TEXT], dtype=np.uint16)
                    tokens.append(kept)
                    lengths.append(len(kept))
    return Corpus(np.concatenate(tokens), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]))


def batches(corpus: Corpus, members: NDArray[np.int64], start: int, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Inputs and targets, texts of like length together, in an order that the seed decides. Padding's target is -1."""
    order = np.random.default_rng(seed).permutation(members)
    lengths = np.diff(corpus.offsets)[order]
    pool = TOKENS_PER_BATCH * BATCHES_SORTED_TOGETHER // max(1, int(lengths.mean()))
    for first in range(0, len(order), pool):
        by_length = order[first : first + pool][np.argsort(lengths[first : first + pool], kind="stable")]
        groups: list[list[int]] = [[]]
        for index in by_length:
            length = corpus.offsets[index + 1] - corpus.offsets[index]
            if (len(groups[-1]) + 1) * length > TOKENS_PER_BATCH:
                groups.append([])
            groups[-1].append(index)
        random.Random(f"{seed} {first}").shuffle(groups)
        for group in filter(None, groups):
            longest = max(corpus.offsets[index + 1] - corpus.offsets[index] for index in group)
            targets = torch.full((len(group), longest), -1)
            for row, index in enumerate(group):
                text = torch.from_numpy(corpus.text(index).astype(np.int64))
                targets[row, : len(text)] = text
            inputs = torch.cat([torch.full((len(group), 1), start), targets[:, :-1].clamp(min=0)], dim=1)
            yield inputs, targets


# --- the loss ------------------------------------------------------------------------------------------------------


class SampledCrossEntropy(torch.autograd.Function):
    """-log p(target) with the sum over the vocabulary estimated from a sample (Bengio & Senécal 2003).

    Token j is in the sample with probability q_j and then counts 1/q_j times, so the estimated sum is unbiased (Horvitz
    & Thompson 1952); frequent tokens have q_j = 1 and are always in. The target itself is always counted exactly once.
    The gradient is computed with the loss, a few rows at a time, so that the large matrix of scores stays in the cache.
    """

    ROWS_AT_A_TIME = 512

    @staticmethod
    def forward(
        context: Any, states: Tensor, sampled: Tensor, sampled_bias: Tensor, target: Tensor, target_bias: Tensor,
        target_column: Tensor,
    ) -> Tensor:  # fmt: skip
        states, sampled, target = states.bfloat16(), sampled.bfloat16(), target.bfloat16()
        rows = len(states)
        loss = torch.zeros(())
        d_states, d_target = torch.empty_like(states), torch.empty_like(target)
        d_target_bias = torch.empty(rows)
        d_sampled, d_sampled_bias = torch.zeros(sampled.shape), torch.zeros(len(sampled))
        for first in range(0, rows, SampledCrossEntropy.ROWS_AT_A_TIME):
            part = slice(first, first + SampledCrossEntropy.ROWS_AT_A_TIME)
            scores = (states[part] @ sampled.T).float().add_(sampled_bias)
            hit = (target_column[part] >= 0).nonzero().squeeze(1)
            scores[hit, target_column[part][hit]] = -torch.inf
            target_score = (states[part].float() * target[part].float()).sum(1) + target_bias[part]
            log_sum = torch.logaddexp(scores.logsumexp(1), target_score)
            loss += (log_sum - target_score).sum()
            p_sampled = scores.sub_(log_sum[:, None]).exp_()
            d_score = (target_score - log_sum).exp() - 1
            d_target_bias[part] = d_score
            d_sampled_bias += p_sampled.sum(0)
            p_sampled = p_sampled.bfloat16()
            d_states[part] = p_sampled @ sampled + d_score[:, None].bfloat16() * target[part]
            d_target[part] = d_score[:, None].bfloat16() * states[part]
            d_sampled += p_sampled.T @ states[part]
        context.save_for_backward(d_states, d_sampled, d_sampled_bias, d_target, d_target_bias)
        return loss / rows

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        saved: tuple[Tensor, ...] = context.saved_tensors
        scale = gradient / len(saved[0])
        return (*(part * scale for part in saved), None)


class OutputSampler:
    """Draws the part of the vocabulary that one batch's output layer looks at."""

    def __init__(self, counts: NDArray[np.int64], expected_size: int) -> None:
        flattened = torch.from_numpy((counts + 1.0) ** SAMPLE_EXPONENT)
        low, high = 0.0, 1e12
        for _ in range(100):  # bisection: the factor at which sum(min(1, factor * f)) is the expected size
            factor = (low + high) / 2
            low, high = (factor, high) if (factor * flattened).clamp(max=1).sum() < expected_size else (low, factor)
        self.inclusion = (high * flattened).clamp(max=1).float()

    def loss(self, network: LstmNetwork, states: Tensor, targets: Tensor) -> Tensor:
        sample = (torch.rand(len(self.inclusion)) < self.inclusion).nonzero().squeeze(1)
        column = torch.full((len(self.inclusion),), -1)
        column[sample] = torch.arange(len(sample))
        return SampledCrossEntropy.apply(  # type: ignore[no-any-return, no-untyped-call]
            states,
            network.embedding.weight[sample],
            network.bias[sample] - self.inclusion[sample].log(),
            network.embedding.weight[targets],
            network.bias[targets],
            column[targets],
        )


@torch.no_grad()
def held_out_perplexity(network: LstmNetwork, corpus: Corpus, members: NDArray[np.int64], start: int) -> float:
    """Exact: the whole vocabulary, in full precision."""
    total, count = 0.0, 0
    for inputs, targets in batches(corpus, members, start, seed=0):
        real = targets >= 0
        logits = network.logits(network(inputs)[real])
        total += float(torch.nn.functional.cross_entropy(logits, targets[real], reduction="sum"))
        count += int(real.sum())
    return float(np.exp(total / count))


# --- the run -------------------------------------------------------------------------------------------------------


def learning_rate(step: int, steps: int) -> float:
    """Warm up, hold, cool down."""
    warm_up = min(WARM_UP_STEPS, steps // 10 + 1)
    return LEARNING_RATE * min(1.0, (step + 1) / warm_up, (1 - step / steps) / COOL_DOWN_SHARE)


def save_checkpoint(folder: Path, network: LstmNetwork, optimizer: torch.optim.Adam, progress: dict[str, Any]) -> None:
    """Written beside and then renamed, so a checkpoint is whole or not there."""
    tensors = {f"parameter.{name}": value.detach() for name, value in network.named_parameters()}
    for name, parameter in network.named_parameters():
        for key, value in optimizer.state[parameter].items():
            tensors[f"{key}.{name}"] = value
    save_file(tensors, folder / "checkpoint.new", metadata={"progress": json.dumps(progress)})
    os.replace(folder / "checkpoint.new", folder / "checkpoint.safetensors")


def load_checkpoint(folder: Path, network: LstmNetwork, optimizer: torch.optim.Adam) -> dict[str, Any]:
    from safetensors import safe_open

    file = folder / "checkpoint.safetensors"
    tensors = load_file(file)
    for name, parameter in network.named_parameters():
        parameter.data.copy_(tensors[f"parameter.{name}"])
        optimizer.state[parameter] = {key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
    with safe_open(file, framework="pt") as opened:
        progress: dict[str, Any] = json.loads(opened.metadata()["progress"])
    return progress


def train(
    corpus: Corpus, counts: NDArray[np.int64], network: LstmNetwork, *, start: int, options: argparse.Namespace
) -> dict[str, Any]:
    """Trains for `options.steps` batches; returns what the report tells about the run."""
    everything = np.arange(len(corpus))
    held_out, training = everything[::HELD_OUT_EVERY], np.delete(everything, np.s_[::HELD_OUT_EVERY])
    if not len(training):
        raise SystemExit(
            f"--corpus holds {len(corpus)} texts, which is too few: one is held out, so give two at least."
        )
    network.bias.data = torch.from_numpy(np.log((counts + 1.0) / (counts + 1.0).sum())).float()
    optimizer = torch.optim.Adam(network.parameters(), lr=LEARNING_RATE, fused=True)
    progress: dict[str, Any] = {"step": 0, "tokens": 0, "epoch": 0, "step_of_epoch": 0, "seconds": 0.0, "curve": []}
    if options.resume and (options.work / "checkpoint.safetensors").exists():
        progress = load_checkpoint(options.work, network, optimizer)
    sampler = OutputSampler(counts, options.sample)
    clock, recent = time.monotonic(), 0.0
    bar = tqdm(total=options.steps, initial=progress["step"], desc="training", unit=" steps")
    while progress["step"] < options.steps:
        stream = batches(corpus, training, start, seed=SEED + progress["epoch"])
        for inputs, targets in islice(stream, progress["step_of_epoch"], None):
            torch.manual_seed(SEED + progress["step"])  # an interrupted run draws the same samples as a whole one
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(progress["step"], options.steps)
            real = targets >= 0
            with torch.autocast("cpu", torch.bfloat16):
                states = network(inputs)[real]
            loss = sampler.loss(network, states, targets[real])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(network.parameters(), LARGEST_GRADIENT_NORM)
            optimizer.step()
            recent = 0.98 * recent + 0.02 * loss.item() if recent else loss.item()
            progress["step"] += 1
            progress["step_of_epoch"] += 1
            progress["tokens"] += int(real.sum())
            bar.update()
            if progress["step"] % STEPS_PER_CHECKPOINT == 0 or progress["step"] == options.steps:
                progress["seconds"] += time.monotonic() - clock
                perplexity = held_out_perplexity(network, corpus, held_out, start)
                progress["curve"].append(
                    {
                        "tokens": progress["tokens"],
                        "training_loss": round(recent, 4),
                        "held_out_perplexity": round(perplexity, 2),
                    }
                )
                save_checkpoint(options.work, network, optimizer, progress)
                bar.set_postfix(held_out_perplexity=f"{perplexity:.1f}", loss=f"{recent:.3f}")
                clock = time.monotonic()
            if progress["step"] == options.steps:
                break
        else:
            progress["epoch"] += 1
            progress["step_of_epoch"] = 0
    bar.close()
    return {
        "corpus": [Path(file).name for file in options.corpus] or options.dataset,
        "seed": SEED,
        "tokens_in_corpus": len(corpus.tokens),
        "tokens_seen": progress["tokens"],
        "steps": progress["step"],
        "minutes": round(progress["seconds"] / 60, 1),
        "tokens_per_second": round(progress["tokens"] / progress["seconds"]),
        "threads": torch.get_num_threads(),
        "held_out_texts": len(held_out),
        "held_out_perplexity": progress["curve"][-1]["held_out_perplexity"],
        "loss_curve": progress["curve"],
    }


def arguments(description: str | None, *, steps: int, sample: int, out: Path) -> argparse.Namespace:
    """The command line that both trainers share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--corpus", nargs="+", default=[], metavar="FILE", help="text, one paragraph per line; .xz, .gz too"
    )
    parser.add_argument(
        "--dataset", default=DEFAULT_DATASET, help="Hub dataset where no --corpus is given: id or id:config"
    )
    parser.add_argument(
        "--out", type=Path, default=out, metavar="FOLDER", help="where the weights go (default: %(default)s)"
    )
    parser.add_argument(
        "--work", type=Path, metavar="FOLDER", help="encoded corpus and checkpoints (default: OUT/work)"
    )
    parser.add_argument("--steps", type=int, default=steps, help="batches of about 3,000 tokens (default: %(default)s)")
    parser.add_argument("--sample", type=int, default=sample, help="tokens the output layer looks at per batch")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint, to more steps if asked")
    parser.add_argument("--threads", type=int, help="torch threads (default: all cores)")
    options = parser.parse_args()
    options.work = options.work or options.out / "work"
    options.work.mkdir(parents=True, exist_ok=True)
    source, wanted = options.work / "source.json", json.dumps([options.corpus, options.dataset])
    if not options.resume:
        for old in (*options.work.glob("*.*"), *(options.out / name for name in TOKENIZER_FILES)):
            old.unlink(missing_ok=True)
        source.write_text(wanted, encoding="utf-8")
    elif source.exists() and source.read_text(encoding="utf-8") != wanted:
        parser.error(f"--resume: {options.work} was made from another corpus. Name that one, or leave out --resume.")
    if options.threads:
        torch.set_num_threads(options.threads)
    return options


def encoded(options: argparse.Namespace, make_encoder: MakeEncoder, end: int) -> Corpus:
    """The corpus in token ids, from the work folder when a resumed run finds it there."""
    if not (options.resume and (options.work / "offsets.npy").exists()):
        encode_corpus(make_encoder, paragraphs(options.corpus, options.dataset), end).save(options.work)
    return Corpus.load(options.work)


def write_report(folder: Path, report: dict[str, Any]) -> None:
    (folder / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
