"""Our dependency parser: a bidirectional LSTM with biaffine attention (Dozat & Manning 2017), small enough to ship.

A word is its form (one of the known words, in lower case, digits all 0), its hashed prefix and suffixes, and its shape.
A sentence's scores do not depend on its neighbours in a batch: padding stands behind the words, and the backward LSTM
reads every sentence from its own last word. Stored as safetensors: every matrix as int8 with one half-precision scale
per row, every vector in half precision.
"""

from __future__ import annotations

import functools
import json
import zlib
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from textfluency.parsing.dependency import Parse, Sentence, best_tree

FORM_WIDTH = 100
AFFIX_ROWS = 4096  # hashed; English has fewer endings of three letters that matter
AFFIX_WIDTH = 32
SHAPE_ROWS = 256
SHAPE_WIDTH = 16
HIDDEN_UNITS = 256
LAYERS = 2  # Dozat & Manning 2017 have three; the third would cost a third of the speed
ARC_WIDTH = 256
LABEL_WIDTH = 64
DROPOUT = 0.33  # ibid.
ROOT = "root"  # a label of Universal Dependencies
UNKNOWN = 0  # the form of every word that is not among the known ones


# --- words to numbers ------------------------------------------------------------------------------------------------


def form(word: str) -> str:
    """What counts as the same word: case is left to the shape, and one number is as good as another."""
    return "".join("0" if character.isdigit() else character for character in word.lower())


def shape(word: str) -> str:
    """Capitals, small letters, digits and other signs, runs cut to two: `Xx`, `XX`, `00-xx`."""
    kinds = ("X" if c.isupper() else "x" if c.isalpha() else "0" if c.isdigit() else c for c in word)
    return "".join("".join(list(run)[:2]) for _, run in groupby(kinds))


@functools.lru_cache(maxsize=200_000)
def hashed_features(word: str) -> tuple[int, int, int, int]:
    """Table rows of the prefix of three letters, the suffixes of two and three, and the shape."""
    lower = form(word)
    affixes = (f"<{lower[:3]}", f"{lower[-2:]}>", f"{lower[-3:]}>>")
    prefix, suffix, longer_suffix = (_hash(affix, AFFIX_ROWS) for affix in affixes)
    return prefix, suffix, longer_suffix, _hash(shape(word), SHAPE_ROWS)


def _hash(text: str, rows: int) -> int:
    return zlib.crc32(text.encode("utf-8", "surrogatepass")) % rows


# --- the network -----------------------------------------------------------------------------------------------------


class BiaffineNetwork(nn.Module):
    """Word features in; out come, for every word, scores of its tag, of every possible head, and of each label."""

    def __init__(self, words: int, tags: int, labels: int) -> None:
        super().__init__()
        self.forms = nn.Embedding(words, FORM_WIDTH)
        self.prefixes = nn.Embedding(AFFIX_ROWS, AFFIX_WIDTH)
        self.suffixes = nn.Embedding(AFFIX_ROWS, AFFIX_WIDTH)
        self.longer_suffixes = nn.Embedding(AFFIX_ROWS, AFFIX_WIDTH)
        self.shapes = nn.Embedding(SHAPE_ROWS, SHAPE_WIDTH)
        widths = [FORM_WIDTH + 3 * AFFIX_WIDTH + SHAPE_WIDTH] + [2 * HIDDEN_UNITS] * (LAYERS - 1)
        self.forward_layers = nn.ModuleList(nn.LSTM(width, HIDDEN_UNITS, batch_first=True) for width in widths)
        self.backward_layers = nn.ModuleList(nn.LSTM(width, HIDDEN_UNITS, batch_first=True) for width in widths)
        self.root = nn.Parameter(torch.zeros(2 * HIDDEN_UNITS))
        self.tag = nn.Linear(2 * HIDDEN_UNITS, tags)
        self.arc_dependent = nn.Linear(2 * HIDDEN_UNITS, ARC_WIDTH)
        self.arc_head = nn.Linear(2 * HIDDEN_UNITS, ARC_WIDTH)
        self.arc = nn.Parameter(torch.zeros(ARC_WIDTH + 1, ARC_WIDTH))
        self.label_dependent = nn.Linear(2 * HIDDEN_UNITS, LABEL_WIDTH)
        self.label_head = nn.Linear(2 * HIDDEN_UNITS, LABEL_WIDTH)
        self.label = nn.Parameter(torch.zeros(labels, LABEL_WIDTH + 1, LABEL_WIDTH + 1))

    def embed(self, features: Tensor) -> Tensor:
        """(batch, words, 5) to (batch, words, width); the form comes first."""
        tables = (self.forms, self.prefixes, self.suffixes, self.longer_suffixes, self.shapes)
        return torch.cat([table(features[..., column]) for column, table in enumerate(tables)], dim=-1)

    def encode(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """States of all words, those of the root above them first."""
        positions = torch.arange(vectors.shape[1])
        mirror = torch.where(positions < lengths[:, None], lengths[:, None] - 1 - positions, positions)[..., None]
        for onward, backward in zip(self.forward_layers, self.backward_layers, strict=True):
            vectors = self.drop(vectors)
            left = onward(vectors)[0]
            right = backward(vectors.gather(1, mirror.expand_as(vectors)))[0]
            vectors = torch.cat([left, right.gather(1, mirror.expand_as(right))], dim=-1)
        root = self.root.to(vectors.dtype).expand(len(vectors), 1, -1)
        return self.drop(torch.cat([root, vectors], dim=1))

    def drop(self, vectors: Tensor) -> Tensor:
        """In training, hides the same units of every word of a sentence (Gal & Ghahramani 2016)."""
        if not self.training:
            return vectors
        kept = torch.rand(len(vectors), 1, vectors.shape[2]) >= DROPOUT
        return vectors * kept.to(vectors.dtype) / (1 - DROPOUT)

    def tag_scores(self, states: Tensor) -> Tensor:
        scores: Tensor = self.tag(states[:, 1:])
        return scores

    def arc_scores(self, states: Tensor, lengths: Tensor) -> Tensor:
        """(batch, dependents, heads); the root is head 0. Padding heads nothing, and no word heads itself."""
        dependents = with_one(self.drop(torch.relu(self.arc_dependent(states[:, 1:]))))
        heads = self.drop(torch.relu(self.arc_head(states)))
        scores = (dependents @ self.arc) @ heads.transpose(1, 2)
        positions = torch.arange(states.shape[1])
        impossible = (positions > lengths[:, None, None]) | (positions == positions[1:, None])
        return scores.masked_fill(impossible, -torch.inf)

    def label_scores(self, states: Tensor, heads: Tensor) -> Tensor:
        """(batch, dependents, labels), given each word's head."""
        of_heads = states.gather(1, heads[..., None].expand(-1, -1, states.shape[2]))
        dependent = with_one(self.drop(torch.relu(self.label_dependent(states[:, 1:]))))
        head = with_one(self.drop(torch.relu(self.label_head(of_heads))))
        return torch.einsum("bnd,lde,bne->bnl", dependent, self.label, head)


def with_one(vectors: Tensor) -> Tensor:
    """A one behind every vector, so that a bilinear form holds the linear terms too."""
    return torch.cat([vectors, torch.ones_like(vectors[..., :1])], dim=-1)


# --- the parser ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BiaffineParser:
    network: BiaffineNetwork
    forms: dict[str, int]
    tags: list[str]
    labels: list[str]

    def features(self, sentences: list[Sentence]) -> tuple[Tensor, Tensor]:
        """Table rows of all words, padded with zeros behind, and the sentences' lengths."""
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        features = torch.zeros((len(sentences), int(lengths.max()), 5), dtype=torch.long)
        for row, sentence in enumerate(sentences):
            features[row, : len(sentence)] = torch.tensor(
                [(self.forms.get(form(word), UNKNOWN), *hashed_features(word)) for word in sentence]
            )
        return features, lengths

    @torch.inference_mode()
    def parse_batch(self, sentences: list[Sentence]) -> list[Parse]:
        features, lengths = self.features(sentences)
        states = self.network.encode(self.network.embed(features), lengths)
        tags = self.network.tag_scores(states).argmax(dim=2).tolist()
        arcs = self.network.arc_scores(states, lengths).log_softmax(dim=2)
        heads = torch.zeros(features.shape[:2], dtype=torch.long)
        for row, length in enumerate(lengths.tolist()):
            scores = torch.zeros((length + 1, length + 1), dtype=torch.float64)
            scores[1:] = arcs[row, :length, : length + 1]
            heads[row, :length] = torch.from_numpy(best_tree(scores.numpy())[1:])
        label_scores = self.network.label_scores(states, heads)
        if ROOT in self.labels:  # that label is the root's, and only the root's
            label_scores[..., self.labels.index(ROOT)] = torch.where(heads == 0, torch.inf, -torch.inf)
        labels = label_scores.argmax(dim=2).tolist()
        probabilities = arcs.gather(2, heads[..., None]).squeeze(2).exp().tolist()
        return [
            Parse(
                words=tuple(sentence),
                tags=tuple(self.tags[tag] for tag in tags[row][: len(sentence)]),
                heads=tuple(heads[row, : len(sentence)].tolist()),
                labels=tuple(self.labels[label] for label in labels[row][: len(sentence)]),
                arc_probabilities=tuple(probabilities[row][: len(sentence)]),
            )
            for row, sentence in enumerate(sentences)
        ]


def save(parser: BiaffineParser, folder: Path) -> None:
    tensors: dict[str, Tensor] = {}
    for name, value in parser.network.state_dict().items():
        if value.dim() > 1:
            scale = (value.abs().amax(dim=-1) / 127).clamp(min=1e-7).half()
            tensors[name + ".scale"] = scale
            tensors[name] = (value / scale.float()[..., None]).round().clamp(-127, 127).to(torch.int8)
        else:
            tensors[name] = value.half()
    save_file({name: value.contiguous() for name, value in tensors.items()}, folder / "model.safetensors")
    vocabulary = {"words": list(parser.forms), "tags": parser.tags, "labels": parser.labels}
    (folder / "vocabulary.json").write_text(json.dumps(vocabulary, ensure_ascii=False) + "\n", encoding="utf-8")


def load(folder: Path) -> BiaffineParser:
    vocabulary: dict[str, Any] = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
    forms = {word: row for row, word in enumerate(vocabulary["words"])}
    network = BiaffineNetwork(len(forms), len(vocabulary["tags"]), len(vocabulary["labels"]))
    stored = load_file(folder / "model.safetensors")
    scales = {
        name: stored.pop(name + ".scale").float()[..., None] for name in list(stored) if name + ".scale" in stored
    }
    network.load_state_dict({name: value.float() * scales.get(name, 1) for name, value in stored.items()})
    return BiaffineParser(network.eval(), forms, vocabulary["tags"], vocabulary["labels"])
