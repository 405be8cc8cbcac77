"""The command `textfluency`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from textfluency import __version__

EXAMPLES = """examples:
  textfluency install            make evaluate.load("slor") and the others work from any directory
  textfluency install --check    tell what is installed and whether it is current
  textfluency demo               score a few real system outputs with every metric
"""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="textfluency",
        description="Linguistic-quality metrics for generated text.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"textfluency {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    install = commands.add_parser("install", help="put the metrics into evaluate's module cache")
    action = install.add_mutually_exclusive_group()
    action.add_argument(
        "--check", action="store_true", help="only tell what is installed; exit 1 unless all is current"
    )
    action.add_argument("--remove", action="store_true", help="take the metrics out again")
    install.add_argument("--org", default="textfluency", help="also install as ORG/<name> (default: %(default)s)")

    demo = commands.add_parser("demo", help="score a few texts with every metric and explain the numbers")
    demo.add_argument("file", nargs="?", type=Path, help='JSON lines of {"text": ..., "references": [...]}')

    options = parser.parse_args(arguments)
    return _install(options) if options.command == "install" else _demo(options)


def _install(options: argparse.Namespace) -> int:
    from textfluency import installation

    run = installation.check if options.check else installation.remove if options.remove else installation.install
    try:
        found = run(options.org)
    except OSError as error:
        print(f"{error.filename} cannot be written. Set HF_HOME to a folder of yours.", file=sys.stderr)
        return 1
    for metric in found:
        print(f"{metric.state:<9} {metric.name}")
    return int(options.check and any(metric.state != "current" for metric in found))


def _demo(options: argparse.Namespace) -> int:
    from textfluency import demo

    demo.run(options.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
