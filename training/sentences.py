"""Trains the sentence splitter: `python -m training.sentences --corpus FILES --out FOLDER`.

Punkt learns, without labels, which words end in a dot that is not a full stop, which words often start sentences and
which pairs go together across a dot. We keep what it learned as JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from nltk.tokenize.punkt import PunktTrainer

from training.corpora import paragraphs

PARAGRAPHS_PER_FILE = 60_000  # enough for stable abbreviations, a few minutes
ORTHOGRAPHIC_TYPES_KEPT = 30_000  # the most frequent word types: rarer ones have too little evidence to decide anything

# Half of our corpora write `Mr Brown` and `Apple Inc`, from which Punkt would learn that these are no abbreviations.
KNOWN_ABBREVIATIONS = frozenset(
    """
    mr mrs ms messrs dr prof rev hon st jr sr gen col capt cmdr lt sgt maj gov sen rep pres sec supt
    inc corp ltd co bros llc dept est univ assn vs etc al e.g i.e cf viz vol vols fig figs ed eds pp ch art
    jan feb apr aug sept oct nov dec mon tue wed thu fri sat ave blvd rd mt ft approx
    u.s u.k u.n u.s.a e.u d.c a.m p.m b.c a.d ph.d m.d b.a m.a
    """.split()
)


class EnglishPunktTrainer(PunktTrainer):  # type: ignore[misc]
    """Punkt that keeps the abbreviations it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.INCLUDE_ALL_COLLOCS = True
        self._params.abbrev_types.update(KNOWN_ABBREVIATIONS)

    def _reclassify_abbrev_types(self, types: Iterable[str]) -> Iterator[tuple[str, float, bool]]:
        for kind, score, is_new in super()._reclassify_abbrev_types(types):
            if kind not in KNOWN_ABBREVIATIONS:
                yield kind, score, is_new


def train(files: list[str]) -> dict[str, object]:
    trainer = EnglishPunktTrainer()
    for file in files:
        trainer.train("\n".join(itertools.islice(paragraphs([file]), PARAGRAPHS_PER_FILE)), finalize=False)
    trainer.finalize_training()
    frequent = {token for token, _ in trainer._type_fdist.most_common(ORTHOGRAPHIC_TYPES_KEPT)}
    learned = trainer.get_params()
    return {
        "abbreviations": sorted(learned.abbrev_types),
        "collocations": sorted(learned.collocations),
        "sentence_starters": sorted(learned.sent_starters),
        "orthographic_context": {
            token: flags for token, flags in sorted(learned.ortho_context.items()) if flags and token in frequent
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", nargs="+", required=True, metavar="FILE", help="text, one paragraph per line")
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(train(arguments.corpus), ensure_ascii=False, separators=(",", ":"))
    (arguments.out / "punkt.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
