"""How the dependency parser is trained: on one CPU core, in about half an hour.

    python -m training.parser --train ud_ewt_train.conllu.xz gum_dep_train.conllu.xz --dev ud_ewt_dev.conllu.xz \
        --test ud_ewt_test.conllu.xz --corpus wikipedia.txt.xz --out metrics/textfluency/weights/parser

Treebanks are CoNLL-U files. A treebank knows few words, so the vectors of words come from plain text: words that have
the same neighbours get like vectors (positive pointwise mutual information and a singular value decomposition, Levy &
Goldberg 2014). They stay as they are; what the treebank teaches about a word is added to its vector, and often left out
in training, so that the parser copes with words that only the plain text knows.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from textfluency.parsing import biaffine
from textfluency.parsing.biaffine import FORM_WIDTH, UNKNOWN, BiaffineNetwork, BiaffineParser, form
from textfluency.parsing.dependency import Parser
from textfluency.sentences import words
from training.corpora import paragraphs

EPOCHS = 14
WORDS_PER_BATCH = 1500
LEARNING_RATE = 2e-3
WARM_UP_STEPS = 300
ADAM_BETAS = (0.9, 0.95)  # a shorter memory than usual, as Dozat & Manning 2017 found
LARGEST_GRADIENT_NORM = 5.0
LEFT_OUT = 0.3  # how often what the treebank teaches about a word is left out
LONGEST_SENTENCE = 150  # words; a handful are longer and would make the batches uneven
KNOWN_WORDS = 24_000  # rows of the table of forms: the treebank's repeated words and then the corpus' most frequent
CORPUS_WORDS = 10_000_000  # of plain text that word vectors are drawn from
CONTEXT_WORDS = 2000  # most frequent words, whose presence next to a word describes it
CONTEXT_OFFSETS = (-2, -1, 1, 2)
CONTEXT_EXPONENT = 0.75  # flattens the contexts' frequencies (Levy, Goldberg & Dagan 2015)
VECTOR_SPREAD = 0.5  # standard deviation of a form's vector
EPOCHS_PER_EVALUATION = 7
SEED = 2017


# --- treebanks -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GoldTree:
    words: list[str]
    tags: list[str]
    heads: list[int]
    labels: list[str]


def read_treebank(file: str) -> Iterator[GoldTree]:
    """The trees of a CoNLL-U file, over syntactic words: neither multi-word tokens nor empty nodes."""
    rows: list[list[str]] = []
    for line in chain(paragraphs([file]), ["1"]):
        fields = line.split("\t")
        if fields[0] == "1" and rows:
            forms, tags, heads, labels = ([row[column] for row in rows] for column in (1, 4, 6, 7))
            yield GoldTree(forms, tags, [int(head) for head in heads], labels)
            rows = []
        if fields[0].isdigit():
            rows.append(fields)


def attachment(parser: Parser, trees: Sequence[GoldTree]) -> dict[str, float]:
    """Per cent of words with the right head (UAS), head and full label (LAS), and tag; punctuation counts."""
    right = Counter[str]()
    for parse, gold in zip(parser.parse([tree.words for tree in trees]), trees, strict=True):
        for index in range(len(gold.words)):
            head = parse.heads[index] == gold.heads[index]
            right["uas"] += head
            right["las"] += head and parse.labels[index] == gold.labels[index]
            right["tags"] += parse.tags[index] == gold.tags[index]
    total = sum(len(tree.words) for tree in trees)
    return {measure: round(100 * right[measure] / total, 2) for measure in ("uas", "las", "tags")}


# --- word vectors from plain text ------------------------------------------------------------------------------------


def known_words(trees: Sequence[GoldTree], corpus: Sequence[str]) -> list[str]:
    """The forms that get a row of their own; the row of UNKNOWN comes first and is written as the empty word."""
    in_treebank = Counter(form(word) for tree in trees for word in tree.words)
    repeated = [word for word, count in in_treebank.most_common() if count > 1]
    frequent = [word for word, count in Counter(corpus).most_common(KNOWN_WORDS) if re.search(r"\w", word)]
    return list(dict.fromkeys(["", *repeated, *frequent]))[:KNOWN_WORDS]


def word_vectors(vocabulary: Sequence[str], corpus: Sequence[str]) -> NDArray[np.float32]:
    """A vector for each word from its neighbours in the corpus. A word not seen there gets that of UNKNOWN, zero."""
    from scipy.sparse import coo_matrix, hstack
    from sklearn.utils.extmath import randomized_svd

    vectors = np.zeros((len(vocabulary), FORM_WIDTH), dtype=np.float32)
    if not corpus:
        return vectors
    row_of = {word: row for row, word in enumerate(vocabulary)}
    rows = np.array([row_of.get(word, UNKNOWN) for word in corpus])
    column_of_row = np.full(len(vocabulary), -1)
    most_frequent = np.argsort(-np.bincount(rows, minlength=len(vocabulary)), kind="stable")[:CONTEXT_WORDS]
    column_of_row[most_frequent] = np.arange(len(most_frequent))
    columns = column_of_row[rows]
    blocks = []
    for offset in CONTEXT_OFFSETS:
        centre, neighbour = (rows[-offset:], columns[:offset]) if offset < 0 else (rows[:-offset], columns[offset:])
        present = neighbour >= 0
        ones = np.ones(present.sum(), dtype=np.float32)
        shape = (len(vocabulary), CONTEXT_WORDS)
        blocks.append(coo_matrix((ones, (centre[present], neighbour[present])), shape=shape).tocsr())
    counts = hstack(blocks).tocoo()
    of_word = np.asarray(counts.sum(axis=1)).ravel()
    of_context = np.asarray(counts.sum(axis=0)).ravel() ** CONTEXT_EXPONENT
    information = np.log(counts.data * of_context.sum() / (of_word[counts.row] * of_context[counts.col]))
    positive = coo_matrix((information.clip(min=0), (counts.row, counts.col)), shape=counts.shape).tocsr()
    left, singular, _ = randomized_svd(positive, FORM_WIDTH, random_state=SEED)
    vectors[:, : len(singular)] = left * np.sqrt(singular)  # a tiny corpus has fewer dimensions
    vectors[UNKNOWN] = 0
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors *= VECTOR_SPREAD * FORM_WIDTH**0.5 / length.clip(min=1e-9)
    return vectors


# --- the run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    features: Tensor
    lengths: Tensor
    tags: Tensor  # -1 where there is padding, in the next two as well
    heads: Tensor
    labels: Tensor


def batches(parser: BiaffineParser, trees: Sequence[GoldTree], seed: int) -> list[Batch]:
    """Sentences of like length together, in an order that the seed decides."""
    dice = random.Random(seed)
    by_length = sorted(trees, key=lambda tree: (len(tree.words), dice.random()))
    groups: list[list[GoldTree]] = [[]]
    for tree in by_length:
        if (len(groups[-1]) + 1) * len(tree.words) > WORDS_PER_BATCH and groups[-1]:
            groups.append([])
        groups[-1].append(tree)
    dice.shuffle(groups)
    tags = {tag: index for index, tag in enumerate(parser.tags)}
    labels = {label: index for index, label in enumerate(parser.labels)}
    return [
        Batch(
            *parser.features([tree.words for tree in group]),
            padded([[tags[tag] for tag in tree.tags] for tree in group]),
            padded([tree.heads for tree in group]),
            padded([[labels[label] for label in tree.labels] for tree in group]),
        )
        for group in groups
    ]


def padded(rows: list[list[int]]) -> Tensor:
    return nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=-1)


def loss_of(network: BiaffineNetwork, learned: nn.Embedding, batch: Batch) -> Tensor:
    """How surprised the network is by tags, heads and labels, per word. Multiplies in bfloat16, twice as quick here."""
    vectors = network.embed(batch.features)
    kept = torch.rand(batch.features.shape[:2]) >= LEFT_OUT
    lesson = learned(batch.features[..., 0]) * kept[..., None]
    vectors = torch.cat([vectors[..., :FORM_WIDTH] + lesson, vectors[..., FORM_WIDTH:]], dim=2)
    with torch.autocast("cpu", torch.bfloat16):
        states = network.encode(vectors, batch.lengths)
        tags = network.tag_scores(states), batch.tags
        arcs = network.arc_scores(states, batch.lengths), batch.heads
        labels = network.label_scores(states, batch.heads.clamp(min=0)), batch.labels
    losses = [
        cross_entropy(scores.float().flatten(0, 1), truth.flatten(), ignore_index=-1)
        for scores, truth in (tags, arcs, labels)
    ]
    return torch.stack(losses).sum()


def finished(parser: BiaffineParser, learned: nn.Embedding) -> BiaffineParser:
    """The parser with what was learned about each word added to its vector."""
    network = BiaffineNetwork(len(parser.forms), len(parser.tags), len(parser.labels))
    network.load_state_dict(parser.network.state_dict())
    network.forms.weight.data += learned.weight.data
    return BiaffineParser(network.eval(), parser.forms, parser.tags, parser.labels)


def learning_rate(step: int, steps: int) -> float:
    """Warm up, then fall linearly to zero."""
    return LEARNING_RATE * min((step + 1) / WARM_UP_STEPS, 1 - step / steps)


def train(
    parser: BiaffineParser, trees: Sequence[GoldTree], dev: Sequence[GoldTree], *, epochs: int, work: Path, resume: bool
) -> tuple[BiaffineParser, dict[str, Any]]:
    """The trained parser and what the report tells about the run."""
    network = parser.network
    network.forms.weight.requires_grad = False
    learned = nn.Embedding(len(parser.forms), FORM_WIDTH)
    nn.init.zeros_(learned.weight)
    module = nn.ModuleDict({"network": network, "learned": learned})
    trained = {name: value for name, value in module.named_parameters() if value.requires_grad}
    optimizer = torch.optim.Adam(trained.values(), lr=LEARNING_RATE, betas=ADAM_BETAS, fused=True)
    progress: dict[str, Any] = {"epoch": 0, "seconds": 0.0, "curve": []}
    if resume and (work / "checkpoint.safetensors").exists():
        progress = load_checkpoint(work, trained, optimizer)
    clock = time.monotonic()
    for epoch in tqdm(range(progress["epoch"], epochs), initial=progress["epoch"], total=epochs, unit=" epochs"):
        torch.manual_seed(SEED + epoch)  # an interrupted run goes on as a whole one would
        network.train()
        total = 0.0
        stream = batches(parser, trees, SEED + epoch)
        for index, batch in enumerate(stream):
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(epoch * len(stream) + index, epochs * len(stream))
            loss = loss_of(network, learned, batch)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(trained.values(), LARGEST_GRADIENT_NORM)
            optimizer.step()
            total += loss.item()
        network.eval()
        point: dict[str, Any] = {"epoch": epoch + 1, "training_loss": round(total / len(stream), 4)}
        if (epoch + 1) % EPOCHS_PER_EVALUATION == 0 or epoch + 1 == epochs:
            point |= attachment(Parser("training", finished(parser, learned).parse_batch), dev)
        progress["curve"].append(point)
        progress["epoch"] = epoch + 1
        progress["seconds"] += time.monotonic() - clock
        clock = time.monotonic()
        save_checkpoint(work, trained, optimizer, progress)
        tqdm.write(json.dumps(point))
    report = {"epochs": progress["epoch"], "minutes": round(progress["seconds"] / 60, 1), "curve": progress["curve"]}
    return finished(parser, learned), report


def save_checkpoint(
    folder: Path, trained: dict[str, nn.Parameter], optimizer: torch.optim.Adam, progress: dict[str, Any]
) -> None:
    """Written beside and then renamed, so a checkpoint is whole or not there."""
    tensors = {f"parameter.{name}": value.detach() for name, value in trained.items()}
    for name, parameter in trained.items():
        tensors |= {f"{key}.{name}": value for key, value in optimizer.state[parameter].items()}
    save_file(tensors, folder / "checkpoint.new", metadata={"progress": json.dumps(progress)})
    os.replace(folder / "checkpoint.new", folder / "checkpoint.safetensors")


def load_checkpoint(folder: Path, trained: dict[str, nn.Parameter], optimizer: torch.optim.Adam) -> dict[str, Any]:
    from safetensors import safe_open

    file = folder / "checkpoint.safetensors"
    tensors = load_file(file)
    for name, parameter in trained.items():
        parameter.data.copy_(tensors[f"parameter.{name}"])
        optimizer.state[parameter] = {key: tensors[f"{key}.{name}"] for key in ("step", "exp_avg", "exp_avg_sq")}
    with safe_open(file, framework="pt") as opened:
        progress: dict[str, Any] = json.loads(opened.metadata()["progress"])
    return progress


def untrained(trees: Sequence[GoldTree], corpus: Sequence[str]) -> BiaffineParser:
    """A parser that has its vocabulary and word vectors and is otherwise blank."""
    torch.manual_seed(SEED)
    vocabulary = known_words(trees, corpus)
    tags = sorted({tag for tree in trees for tag in tree.tags})
    labels = sorted({label for tree in trees for label in tree.labels})
    network = BiaffineNetwork(len(vocabulary), len(tags), len(labels))
    network.forms.weight.data = torch.from_numpy(word_vectors(vocabulary, corpus))
    for table in (network.prefixes, network.suffixes, network.longer_suffixes, network.shapes):
        nn.init.normal_(table.weight, std=VECTOR_SPREAD)
    for bilinear in (network.arc, network.label):
        nn.init.normal_(bilinear, std=0.01)
    return BiaffineParser(network, {word: row for row, word in enumerate(vocabulary)}, tags, labels)


def main() -> None:
    command = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    command.add_argument("--train", nargs="+", required=True, metavar="FILE", help="treebanks in CoNLL-U; .xz, .gz too")
    command.add_argument("--dev", nargs="+", required=True, metavar="FILE", help="measured every few epochs")
    command.add_argument("--test", nargs="*", default=[], metavar="FILE", help="measured once, at the end, one by one")
    command.add_argument("--corpus", nargs="*", default=[], metavar="FILE", help="plain text for word vectors")
    command.add_argument("--out", type=Path, required=True, metavar="FOLDER", help="where the weights go")
    command.add_argument("--work", type=Path, metavar="FOLDER", help="checkpoints (default: OUT/work)")
    command.add_argument("--epochs", type=int, default=EPOCHS)
    command.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    command.add_argument("--threads", type=int, default=1, help="torch threads (default: %(default)s)")
    options = command.parse_args()
    torch.set_num_threads(options.threads)
    work = options.work or options.out / "work"
    options.out.mkdir(parents=True, exist_ok=True)
    work.mkdir(parents=True, exist_ok=True)

    trees = [tree for file in options.train for tree in read_treebank(file) if len(tree.words) <= LONGEST_SENTENCE]
    dev = [tree for file in options.dev for tree in read_treebank(file)]
    corpus = [word for file in options.corpus for word in corpus_words(file, CORPUS_WORDS // len(options.corpus))]
    blank = untrained(trees, corpus)
    trained, report = train(blank, trees, dev, epochs=options.epochs, work=work, resume=options.resume)
    biaffine.save(trained, options.out)

    stored = Parser("stored", biaffine.load(options.out).parse_batch)
    tests = {Path(file).name.split(".")[0]: list(read_treebank(file)) for file in options.test}
    clock = time.monotonic()
    results = {name: attachment(stored, gold) for name, gold in tests.items()}
    seconds = time.monotonic() - clock
    report |= {
        "training_sentences": len(trees),
        "corpus_words": len(corpus),
        "known_words": len(blank.forms),
        "parameters": sum(value.numel() for value in trained.network.parameters()),
        "bytes": sum(file.stat().st_size for file in options.out.glob("*.*") if file.name != "report.json"),
        "test": results,
    }
    if tests:
        report["threads"] = torch.get_num_threads()
        report["words_per_second"] = round(sum(len(t.words) for gold in tests.values() for t in gold) / seconds)
    (options.out / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(report["test"]))


def corpus_words(file: str, limit: int) -> Iterator[str]:
    """The first words of a text file, as forms."""
    return islice((form(word) for paragraph in paragraphs([file]) for word in words(paragraph)), limit)


if __name__ == "__main__":
    main()
