"""Paths of images: walking folders, finding the files and tar members of a table, likely root folders. No torch."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import tarfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from manyhot.images import NO_SUCH_FILE, ImageLocation, SkippedFiles, UnavailableImage, image_suffixes

# Enough for any data set on one machine, and an end where someone points at the root of a disk.
MAX_ENTRIES = 5_000_000


class FolderContents(NamedTuple):
    """What lies below a folder.

    Attributes:
        images: Images that can be read, relative to the folder and sorted.
        skipped: Files that are perhaps images too.
    """

    images: list[str]
    skipped: SkippedFiles


def walk_images(start: Path, skipped: SkippedFiles | None = None) -> FolderContents:
    """The files below a folder; hidden files and folders are left out.

    Args:
        start: The folder.
        skipped: What was skipped elsewhere, to be added to.
    """
    result: list[str] = []
    skipped, suffixes = skipped or SkippedFiles(), image_suffixes()
    entries = 0
    visited: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(start, followlinks=True):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in visited:  # a link back to a folder above would never end
            folders.clear()
            continue
        visited.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        relative = os.path.relpath(folder, start)
        prefix = "" if relative == "." else f"{relative}{os.sep}"
        for name in files:
            if name.lower().endswith(suffixes) and not name.startswith("."):
                result.append(prefix + name)
            elif not name.startswith("."):
                skipped.add(name)
        entries += len(files) + len(folders)
        if entries > MAX_ENTRIES:
            break
    return FolderContents(sorted(result), skipped)


def find_image_file(path: str, roots: Iterable[Path]) -> tuple[Path, str] | None:
    """The file of a path below the first folder that has it; for one in an archive that, and its name there."""
    candidates = [(path, ""), *((path[: dot.end()], path[dot.end() + 1 :]) for dot in re.finditer(r"\.tar(?=/)", path))]
    for root in roots:
        for name, inner in candidates:
            # Not `Path.is_file`, which raises for names that are too long.
            if os.path.isfile(root / name):
                return root / name, inner
    return None


def sort_image_roots(roots: Iterable[Path], paths: Sequence[str]) -> list[Path]:
    """The folders in another order: first the one below which the most of the paths are found.

    A folder that happens to hold one file of the same name would otherwise hide the one that is meant.
    """
    unique: dict[Path, Path] = {}
    for root in roots:
        unique.setdefault(root.resolve(), root)
    return sorted(unique.values(), key=lambda root: -sum(find_image_file(path, [root]) is not None for path in paths))


def locate_images(paths: Sequence[str], roots: Sequence[Path]) -> list[ImageLocation | UnavailableImage]:
    """The place of each path, or why there is none. Each archive is gone through once, however many paths it holds."""
    matches = [find_image_file(path, roots) for path in paths]
    requested: dict[Path, set[str]] = {}
    for match in matches:
        if match is not None and match[1]:
            requested.setdefault(match[0], set()).add(match[1])
    members = {archive: _locate_members(archive, names) for archive, names in requested.items()}
    result: list[ImageLocation | UnavailableImage] = []
    for path, match in zip(paths, matches, strict=True):
        if match is None:
            folder = path != "" and any(os.path.isdir(root / path) for root in roots)
            result.append(UnavailableImage("it is a folder" if folder else NO_SUCH_FILE))
        else:
            file, inner = match
            result.append(members[file][inner] if inner else ImageLocation(file))
    return result


def _locate_members(archive: Path, names: set[str]) -> dict[str, ImageLocation | UnavailableImage]:
    """Where these files of an archive begin, without reading them, or why they cannot be read."""
    result: dict[str, ImageLocation | UnavailableImage] = {}
    reason = "the archive has no such file"
    try:
        with tarfile.open(archive, "r:") as opened:
            for member in opened:
                if member.size < 0:  # which would lead back to its start, without end
                    raise tarfile.ReadError("a file of a negative size")
                if member.name in names and member.isfile():
                    result[member.name] = ImageLocation(archive, member.offset_data, member.size)
                if len(result) == len(names):
                    break
    except (tarfile.TarError, OSError):
        reason = "the archive cannot be read"
    return {name: result.get(name, UnavailableImage(reason)) for name in names}


def find_image_roots(predictions: str) -> list[Path]:
    """Where the images of a table may lie: here, beside the table, or with the data that a run was trained on."""
    path = Path(predictions)
    folder = path if path.is_dir() else path.parent
    while glob.has_magic(str(folder)) and not folder.is_dir():
        folder = folder.parent
    # A folder of parts lies beside the images as a file does, and so does one with folders such as `split=test`.
    nearby = [folder, folder.parent] if path.is_dir() and str(folder) != "." else [folder]
    return [Path(), *nearby, *training_data_folders(folder)]


def training_data_folders(run: Path) -> list[Path]:
    """The folders of the data that a run was trained on; none if its settings do not say, or they are not there."""
    data = _read_settings(run / "config.yaml").get("data")
    if not isinstance(data, dict):
        return []
    paths = data.get("paths")
    named = [data["root"]] if data.get("root") else []
    named += paths if isinstance(paths, list) else []
    return [folder for name in named if isinstance(name, str) for folder in _existing_folders(name, run)]


def _existing_folders(name: str, run: Path) -> Iterator[Path]:
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


def _read_settings(path: Path) -> dict[str, Any]:
    """What a YAML file holds; nothing where there is none, or nothing here that reads YAML."""
    if not path.is_file() or importlib.util.find_spec("yaml") is None:
        return {}
    import yaml

    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, OSError, UnicodeDecodeError):
        return {}  # only a hint where to look: another program's file of this name is no error
    return content if isinstance(content, dict) else {}
