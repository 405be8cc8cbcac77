"""Text to token ids: whole words for slor, sentencepiece's word pieces for wpslor.

Both count from the same three signs: 0 is the unknown token, 1 the start and 2 the end of a text.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from textfluency.sentences import words

UNKNOWN, START, END = 0, 1, 2
SIGNS = ("<unk>", "<s>", "</s>")


class WordTokenizer:
    """Words of a fixed vocabulary; any other word is `<unk>`."""

    def __init__(self, vocabulary: Sequence[str]) -> None:
        self.vocabulary = tuple(vocabulary)
        self._ids = {word: index for index, word in enumerate(self.vocabulary)}

    @classmethod
    def load(cls, folder: Path) -> WordTokenizer:
        return cls((folder / "vocabulary.txt").read_text(encoding="utf-8").split("\n"))

    def save(self, folder: Path) -> None:
        (folder / "vocabulary.new").write_text("\n".join(self.vocabulary), encoding="utf-8")
        (folder / "vocabulary.new").replace(folder / "vocabulary.txt")

    def tokenize(self, text: str) -> list[str]:
        return words(text)

    def encode(self, text: str) -> list[int]:
        return [self._ids.get(word, UNKNOWN) for word in words(text)]


class PieceTokenizer:
    """Sentencepiece's pieces; a leading `▁` marks the start of a word."""

    FILE = "tokenizer.model"

    def __init__(self, file: Path) -> None:
        from sentencepiece import SentencePieceProcessor

        self._processor = SentencePieceProcessor(model_file=str(file))
        self.vocabulary = tuple(self._processor.id_to_piece(list(range(self._processor.get_piece_size()))))

    @classmethod
    def load(cls, folder: Path) -> PieceTokenizer:
        return cls(folder / cls.FILE)

    def tokenize(self, text: str) -> list[str]:
        pieces: list[str] = self._processor.encode(text, out_type=str)
        return pieces

    def encode(self, text: str) -> list[int]:
        ids: list[int] = self._processor.encode(text)
        return ids
