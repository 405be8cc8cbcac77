"""Puts the metrics where `evaluate.load("<name>")` finds them from any directory, with or without a network.

evaluate looks for a bare name on the Hub and then in its module cache, in
`$HF_MODULES_CACHE/evaluate_modules/metrics/evaluate-metric--<name>/<64 characters>/<name>.py`; the newest file wins.
We put each metric's folder there, and under `<org>--<name>` for `evaluate.load("<org>/<name>")`.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

CANONICAL = "evaluate-metric"
ORGANIZATION = "textfluency"


@dataclass(frozen=True)
class Installed:
    """One metric under one name: `current`, `outdated` or `missing`."""

    name: str
    state: Literal["current", "outdated", "missing"]
    folder: Path


def metric_folders() -> list[Path]:
    """The metrics' folders: inside the package when it was installed from a wheel, beside it in the source tree."""
    package = Path(__file__).parent
    parent = package / "adapters" if (package / "adapters").is_dir() else package.parent
    return sorted(folder for folder in parent.iterdir() if (folder / f"{folder.name}.py").is_file())


def install(organization: str = ORGANIZATION) -> list[Installed]:
    """Installs every metric under its bare name and under `organization/name`; what is current is left alone."""
    for found in check(organization):
        if found.state != "current":
            _place(_source(found), found.folder)
    return check(organization)


def check(organization: str = ORGANIZATION) -> list[Installed]:
    """What is installed, and whether it is what this version of the package would install."""
    return [_state(folder, namespace) for folder in metric_folders() for namespace in (CANONICAL, organization)]


def remove(organization: str = ORGANIZATION) -> list[Installed]:
    """Takes every metric out of the module cache."""
    for found in check(organization):
        shutil.rmtree(found.folder.parent, ignore_errors=True)
    return check(organization)


def _state(source: Path, namespace: str) -> Installed:
    name = source.name if namespace == CANONICAL else f"{namespace}/{source.name}"
    versions = _metrics_cache() / f"{namespace}--{source.name}"
    folder = versions / _hash(source)
    scripts = sorted(versions.glob(f"{'?' * 64}/{source.name}.py"), key=lambda script: script.stat().st_mtime)
    if not scripts:
        return Installed(name, "missing", folder)
    current = scripts[-1].parent == folder and _is_whole(source, folder)
    return Installed(name, "current" if current else "outdated", folder)


def _source(installed: Installed) -> Path:
    return next(folder for folder in metric_folders() if folder.name == installed.name.split("/")[-1])


def _place(source: Path, folder: Path) -> None:
    """Built aside and then renamed, so that nobody ever loads half a metric."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    for package in (folder.parents[3], *folder.parents[:3]):
        (package / "__init__.py").touch()
    aside = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
    try:
        for file in _files(source):
            shutil.copy(file, aside / file.name)
        (aside / "__init__.py").touch()
        aside.chmod(0o755)
        if folder.exists() and not _is_whole(source, folder):
            shutil.rmtree(folder)
        if not folder.exists():
            aside.rename(folder)
    except OSError:
        if not folder.exists():  # else another process was quicker with the same files
            raise
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    os.utime(folder / f"{source.name}.py")


def _is_whole(source: Path, folder: Path) -> bool:
    copies = ((file, folder / file.name) for file in _files(source))
    return all(copy.is_file() and copy.read_bytes() == file.read_bytes() for file, copy in copies)


def _files(source: Path) -> list[Path]:
    return sorted(file for file in source.iterdir() if file.is_file())


def _hash(source: Path) -> str:
    digest = hashlib.sha256()
    for file in _files(source):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


def _metrics_cache() -> Path:
    from evaluate import config

    return Path(config.HF_MODULES_CACHE, config.MODULE_NAME_FOR_DYNAMIC_MODULES, "metrics")
