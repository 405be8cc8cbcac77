"""Writes the table of published weights in textfluency/weights.py anew: `python -m training.checksums`."""

from __future__ import annotations

import json
from pathlib import Path

from textfluency import __version__, weights

NAMESPACE = "textfluency"
BEGIN, END = "WEIGHTS: dict[str, Weight] = {", "}\n\n\nclass WeightsError"


def table() -> str:
    lines = [BEGIN]
    for folder in sorted(weights.EMBEDDED.iterdir()):
        if not folder.is_dir():
            continue
        lines += [
            f"    {json.dumps(folder.name)}: Weight(",
            f'        "{NAMESPACE}/{folder.name}",',
            f'        "v{__version__}",',
            "        {",
        ]
        lines += [
            f"            {json.dumps(file.name)}: {json.dumps(weights.sha256(file))},"
            for file in sorted(folder.iterdir())
            if file.is_file()
        ]
        lines += ["        },", "    ),"]
    return "\n".join(lines) + "\n"


def main() -> None:
    module = Path(weights.__file__)
    source = module.read_text(encoding="utf-8")
    module.write_text(source[: source.index(BEGIN)] + table() + source[source.index(END) :], encoding="utf-8")


if __name__ == "__main__":
    main()
