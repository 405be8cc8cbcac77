"""Token ids to unigram log-probabilities: how frequent is a token by itself?

p(t) = (count(t) + 1) / (all counts + vocabulary): add-one smoothing keeps unseen tokens finite.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FILE = "unigrams.safetensors"
SMOOTHING = 1.0  # add-k over the whole vocabulary


def log_probabilities(counts: NDArray[np.int64]) -> NDArray[np.float64]:
    smoothed = counts + SMOOTHING
    logarithms: NDArray[np.float64] = np.log(smoothed / smoothed.sum())
    return logarithms


def save(counts: NDArray[np.int64], folder: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"counts": counts.astype(np.uint32)}, folder / FILE)


def load(folder: Path) -> NDArray[np.float64]:
    from safetensors.numpy import load_file

    return log_probabilities(load_file(folder / FILE)["counts"].astype(np.int64))
