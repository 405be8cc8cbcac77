"""The one table of published weights, where they are found, and the models that this process holds in memory.

`resolve(name)` looks, in this order, at
1. a folder that you name yourself,
2. `$TEXTFLUENCY_WEIGHTS/<name>`, for weights you trained,
3. the weights that come with this package,
4. the Hugging Face Hub.
What we publish is checked against its sha256; what you bring is yours.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

EMBEDDED = Path(__file__).parent / "weights"
VARIABLE = "TEXTFLUENCY_WEIGHTS"


@dataclass(frozen=True)
class Weight:
    """One published folder of weights: its repo on the Hub, the revision, and the sha256 of each file."""

    repo: str
    revision: str
    files: dict[str, str]


# `python -m training.checksums` writes this table anew.
WEIGHTS: dict[str, Weight] = {
    "gleu_parser_svm": Weight(
        "textfluency/gleu_parser_svm",
        "v0.1.0",
        {
            "default.json": "0af3b67561fa36da97836e8a5c7b29123a620543d556d31a7f8ef5dcfc36ac23",
            "paper.json": "9a05aab391bc44f8a42c6eb6e082f98ab3778473d8bb8fd1d25df28d43e932a2",
            "report.json": "6e96e10c6c1223d493a8e2fca24a3bd26df7d1913e4bec37b1466cb4d9664737",
        },
    ),
    "head_driven": Weight(
        "textfluency/head_driven",
        "v0.1.0",
        {
            "model.safetensors": "78602803965bf4442dcfc545eb2219c726b8057412e9e96d927ed36a53502c30",
            "report.json": "f0dab1973825c28e907019fea3b562975dc886cf5c1ffa98692e49b3dec01fb1",
        },
    ),
    "parser": Weight(
        "textfluency/parser",
        "v0.1.0",
        {
            "model.safetensors": "edd27926c54550ec9047695574ca885f451e5a07e63df96c6732eaecf9dbf5bb",
            "report.json": "ba492134ea8009065d63c5bed480bc8d1ab82948111c8b61011c26bd61546e7c",
            "vocabulary.json": "e46f9799c46b17e4a4cfe9a7dec9da95bb6c27e856bc773e1a59fb2ce2cb42dc",
        },
    ),
    "rouge_lm": Weight(
        "textfluency/rouge_lm",
        "v0.1.0",
        {
            "report.json": "54e448c53a66dcfe5c17a5b526e9d703882928144d662881a69e3a77745114c6",
            "statistics.json": "3b5e37f7dde55cb84a5e6bbc8de238d5a25e1d5a6fd6cab74e4320906befd7cf",
            "svr.json": "c5c3de94f685bf4def2f819e82e9d0d74c09dc96cd9f8b995c7e81583baafe07",
            "svr.safetensors": "9c7542c0f27029e5d3e0986aa7252d79411c614a964d3f14b134b7b7a4abc084",
        },
    ),
    "sentences": Weight(
        "textfluency/sentences",
        "v0.1.0",
        {
            "punkt.json": "ccb540ff43ae4050d1cac3e6cc565ae33e000430926cbf0d65cb3ed34f1b3e13",
        },
    ),
    "slor": Weight(
        "textfluency/slor",
        "v0.1.0",
        {
            "config.json": "8b3d615c1058f352cf3d844efcdcfe9c55e657b3f6e3b11556c42bdb0f081300",
            "model.safetensors": "72aefe74aeb2117482404cdafe92e7d398c8eec7e88f2893de00c57d3df5a355",
            "report.json": "d51a266ed1ee6112f0ba4c5ecd963f318ae7ef395d6316025b648ed24efa396c",
            "unigrams.safetensors": "c7adce8d8a9b5e1bb44248824c00d1202bb8e20fc0d630915cdd343b93a71446",
            "vocabulary.txt": "2635b73c2e6729e2cfcaf13f2f44b2b0d5c8242f954e9f478ef9498becb1fcf5",
        },
    ),
    "smollm2": Weight(
        "textfluency/smollm2",
        "v0.1.0",
        {
            "report.json": "abad10082889b3af68062eeadf848fa5ff93c67cb429893938088664887c4279",
            "unigrams.safetensors": "38e9d17ba4161a8d6098c26d96c533903869359519bb3e77fa51681e0af5cc18",
        },
    ),
    "wpslor": Weight(
        "textfluency/wpslor",
        "v0.1.0",
        {
            "config.json": "c82213e8611fce845a28705c8c90e057c4144bac923e4fe67e55b9ff6c9ebf4d",
            "model.safetensors": "ef90ef1e74f25a6a28f1af8ddd44ebff93c09de100b49ef3bf32123f7ed3a300",
            "report.json": "876a3464245741a34617c570bd2a9a926ba00ac189689cf8af2d83f55b2aa28c",
            "tokenizer.model": "397491627ca52fa6cdf8c8e366c4b0e9e0540819923781e268bfe830d2a27ae5",
            "unigrams.safetensors": "ce2092f450ddcff2469a4e53e8aec594cea043298ce4ab1282b24a71c8513216",
        },
    ),
}


class WeightsError(OSError):
    """Weights are missing, incomplete or not what was published."""


def resolve(name: str | os.PathLike[str]) -> Path:
    """The folder that holds the weights `name`, which is a key of WEIGHTS or a folder of yours."""
    if Path(name).is_dir() and (os.sep in str(name) or str(name) not in WEIGHTS):
        return Path(name)
    name = str(name)
    if own := os.environ.get(VARIABLE):
        folder = Path(own) / name
        if not Path(own).is_dir():
            raise WeightsError(f"{VARIABLE}={own} is not a folder. Correct it or unset it.")
        if folder.is_dir():
            needed = WEIGHTS[name].files if name in WEIGHTS else {}
            if lacking := sorted(file for file in needed if not (folder / file).is_file()):
                raise WeightsError(f"{folder} lacks {', '.join(lacking)}: finish its training, or unset {VARIABLE}.")
            return folder
    if name not in WEIGHTS:
        raise WeightsError(
            f"There are no weights named {name!r}. Published: {', '.join(sorted(WEIGHTS))}. "
            f"For weights of your own give a folder, or set {VARIABLE} to the folder that holds {name!r}."
        )
    return _published(name)


@cache
def _published(name: str) -> Path:
    folder = EMBEDDED / name
    if not folder.is_dir():
        folder = _download(name)
    for file, expected in WEIGHTS[name].files.items():
        if not (folder / file).is_file():
            raise WeightsError(f"The weights {name!r} lack {file}. Install the package again: pip install textfluency.")
        if sha256(folder / file) != expected:
            raise WeightsError(
                f"{folder / file} is not the file that was published: its sha256 differs. Delete it and load again, "
                f"or, if you meant to use weights of your own, set {VARIABLE} to the folder that holds {name!r}."
            )
    return folder


def _download(name: str) -> Path:
    """The folder in the Hub's cache; with HF_HUB_OFFLINE=1 only what is there already."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    weight = WEIGHTS[name]
    try:
        paths = [hf_hub_download(weight.repo, file, revision=weight.revision) for file in weight.files]
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise WeightsError(
            f"The weights {name!r} did not come with this installation and could not be fetched from the Hub "
            f"({weight.repo}, {weight.revision}): {type(error).__name__}. Check the network, or install the package "
            f"with its weights: pip install textfluency."
        ) from error
    return Path(paths[0]).parent


def sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def fingerprint(folder: Path) -> str:
    """Eight characters that change when any weight or tokenizer in the folder does."""
    digest = hashlib.sha256()
    for file in sorted(folder.iterdir()):
        if file.is_file() and file.name != "report.json":
            digest.update(f"{file.name} {sha256(file)}\n".encode())
    return digest.hexdigest()[:8]


_models: dict[Hashable, Any] = {}
_models_lock = threading.RLock()


def load_once(key: Hashable, build: Callable[[], T]) -> T:
    """What `build` returns, built once per process and key however many threads ask."""
    with _models_lock:
        if key not in _models:
            _models[key] = build()
        model: T = _models[key]
        return model


def free_models() -> None:
    """Forgets every loaded model, so that its memory can be used again."""
    with _models_lock:
        _models.clear()
        _published.cache_clear()
