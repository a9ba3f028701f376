"""The folders that the relative paths of a table may be relative to."""

from __future__ import annotations

import glob
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def roots_of(predictions: str) -> list[Path]:
    """Where the images of a table may lie: here, beside the table, or with the data that a run was trained on."""
    path = Path(predictions)
    folder = path if path.is_dir() else path.parent
    while glob.has_magic(str(folder)) and not folder.is_dir():
        folder = folder.parent
    # A folder of parts lies beside the images as a file does, and so does one with folders such as `split=test`.
    beside = [folder, folder.parent] if path.is_dir() and str(folder) != "." else [folder]
    return [Path(), *beside, *data_folders(folder)]


def data_folders(run: Path) -> list[Path]:
    """The folders of the data that a run was trained on; none if its settings do not say, or they are not there."""
    data = _settings(run / "config.yaml").get("data")
    if not isinstance(data, dict):
        return []
    paths = data.get("paths")
    named = [data["root"]] if data.get("root") else []
    named += paths if isinstance(paths, list) else []
    return [folder for name in named if isinstance(name, str) for folder in _folders(name, run)]


def _folders(name: str, run: Path) -> Iterator[Path]:
    """The folder of a path that was typed when the run began, in this folder or in one that the run lies in."""
    for start in (Path(), *run.resolve().parents):
        path = start / name
        if path.is_dir():
            yield path
        elif path.is_file() or (glob.has_magic(name) and path.parent.is_dir()):
            yield path.parent
        else:
            continue
        return


def _settings(path: Path) -> dict[str, Any]:
    """What a YAML file holds; nothing where there is none, or nothing here that reads YAML."""
    if not path.is_file() or importlib.util.find_spec("yaml") is None:
        return {}
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return {}  # only a hint where to look: another program's file of this name is no error
    return content if isinstance(content, dict) else {}
