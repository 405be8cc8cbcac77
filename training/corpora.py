"""Plain text from files or from a dataset on the Hub, one paragraph at a time."""

from __future__ import annotations

import gzip
import itertools
import lzma
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from textfluency.normalization import normalize

HEADING = re.compile(r"\s*=.*=\s*$")  # wikitext's ` = = Section = = `
OPENERS: dict[str, Any] = {".xz": lzma.open, ".gz": gzip.open}


def paragraphs(files: Sequence[str], dataset: str | None = None) -> Iterator[str]:
    """Every non-empty line of the files in turn (.xz and .gz are read directly), or of a Hub dataset's `text` column.

    A dataset is named as `id` or `id:config`, for example `Salesforce/wikitext:wikitext-103-raw-v1`.
    """
    for line in itertools.chain(*map(_lines, files), _dataset_lines(dataset) if dataset and not files else ()):
        if paragraph := line.strip():
            yield paragraph


def _lines(file: str) -> Iterator[str]:
    with OPENERS.get(Path(file).suffix, open)(file, mode="rt", encoding="utf-8", errors="replace") as lines:
        yield from lines


def _dataset_lines(dataset: str) -> Iterator[str]:
    from datasets import load_dataset

    name, _, config = dataset.partition(":")
    for row in load_dataset(name, config or None, split="train", streaming=True):
        for line in row["text"].splitlines():
            if not HEADING.match(line):
                yield normalize(line)  # wikitext is tokenised, and what is scored is natural
