"""Which layout lies at a path, and which files belong to it."""

from __future__ import annotations

import csv
import glob
import gzip
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from manyhot.data.readers.open_images import is_open_images
from manyhot.data.readers.places import walk_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import splits_of_files
from manyhot.data.readers.voc import find_voc
from manyhot.image_formats import is_image
from manyhot.predictions.forms import MAGIC, TEXT_SUFFIXES
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal

LAYOUTS = ("table", "folders", "imagefolder", "coco", "voc", "open_images", "webdataset", "npz")
TABLES = (*TEXT_SUFFIXES, ".jsonl", ".ndjson", ".parquet", ".pq")
# What each layout looks like inside of a folder; the first pattern that matches anything holds.
PATTERNS = {
    "imagefolder": tuple(f"{top}metadata.{end}" for end in ("csv", "jsonl", "parquet") for top in ("", "*/")),
    "coco": ("annotations/instances*.json", "instances*.json", "*_annotations.coco.json", "*/_annotations.coco.json"),
    "open_images": ("*human-imagelabels*.csv", "*imagelabels*.csv"),
    "webdataset": ("*.tar",),
    "npz": ("*.npz",),
}
PARQUET = ("*.parquet", "data/*.parquet")
DEEP_PARQUET = (*PARQUET, "**/*.parquet")
COCO_START = re.compile(rb'"(images|annotations|categories|info|licenses)"\s*:\s*[\[{]')


def expand(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], said: Said) -> list[Path]:
    """The paths that are meant, in order: patterns such as `*.tar` and `shard-{000..012}.tar` are filled in.

    A path that is named twice is there twice.
    """
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    found: list[Path] = []
    for text in given:
        for path in _braces(os.path.expanduser(os.fspath(text))):
            if os.path.exists(path):
                found.append(Path(path))
                continue
            matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
            if not matches:
                raise said.no_file(path)
            found += [Path(match) for match in matches]
    if not found:
        raise refusal("path", said.owner, "lead to data", "an empty list", "Pass a path.")
    return found


def _braces(text: str) -> list[str]:
    """`{000..012}` as numbers of the same width, and `{a,b}` as its parts."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if match is None or os.path.exists(text):
        return [text]
    low, high, parts = match.groups()
    numbers = [] if parts is not None else [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
    fill = parts.split(",") if parts is not None else numbers
    return [whole for part in fill for whole in _braces(text[: match.start()] + part + text[match.end() :])]


def detect_layout(paths: Sequence[Path], said: Said) -> str:
    """The layout of some files or one folder, or the error that says what would be understood."""
    if paths[0].is_dir():
        if len(paths) > 1:
            got = f"{len(paths)} paths, of which {str(paths[0])!r} is a folder"
            raise refusal("path", said.owner, "be one folder or several files", got, "Read one folder at a time.")
        return _detect_folder(paths[0], said)
    kinds = {path: _detect_file(path, said) for path in paths}
    if len(set(kinds.values())) > 1:
        first, other = paths[0], next(path for path in paths if kinds[path] != kinds[paths[0]])
        got = f"{str(first)!r} ({kinds[first]}) and {str(other)!r} ({kinds[other]})"
        raise refusal("path", said.owner, "be files of one layout", got, "Read them one after the other.")
    return kinds[paths[0]]


def _detect_file(path: Path, said: Said) -> str:
    name = path.name.lower()
    if name.endswith(TEXT_SUFFIXES):
        return "open_images" if is_open_images(_header(path)) else "table"
    if name.endswith((".npz", ".tar")):
        return "npz" if name.endswith(".npz") else "webdataset"
    with path.open("rb") as file:
        start = file.read(2**16)
    if name.endswith(TABLES) or start.startswith(MAGIC):
        return "table"
    if name.endswith(".json"):
        return "coco" if COCO_START.search(start) and start.lstrip().startswith(b"{") else "table"
    remedy = "Convert it to CSV with columns `path` and `labels`."
    if is_image(name):
        remedy = "Use `read_images` for images without labels, or pass the table that has them."
    elif name.endswith((".zip", ".tar.gz", ".tgz", ".7z", ".rar")):
        remedy = "Unpack it, and pass the folder."
    rule = f"end with {', '.join((*TABLES, '.json', '.tar', '.npz'))}, or be a folder"
    raise refusal("path", said.owner, rule, repr(str(path)), remedy)


def _header(path: Path) -> list[str]:
    """The names of columns, as far as they are separated by commas; what is no text has none that are known."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as file:
            return next(csv.reader([file.readline()]), [])
    except (gzip.BadGzipFile, EOFError, csv.Error):
        return []  # the reader of tables says what is wrong


def _detect_folder(folder: Path, said: Said) -> str:
    if find_voc(folder):
        return "voc"
    for layout in ("imagefolder", "coco", "open_images"):
        if _matches(folder, PATTERNS[layout]):
            return layout
    if _tables(folder) or _matches(folder, PARQUET):
        return "table"
    for layout in ("webdataset", "npz"):
        if _matches(folder, PATTERNS[layout]):
            return layout
    found = walk_images(folder)
    if not found.images:
        if _matches(folder, DEEP_PARQUET):
            return "table"
        got, remedy = found.skipped.instead(folder, ", which has neither images nor tables")
        raise refusal("path", said.owner, "lead to data", got, remedy)
    return "folders"


def files_of(layout: str, paths: Sequence[Path], said: Said) -> list[Path]:
    """The files that a reader takes: those of a folder, or the ones given."""
    if not paths[0].is_dir() or layout == "folders":
        return list(paths)
    folder = paths[0]
    if layout == "voc":
        found = find_voc(folder)
    elif layout == "table":
        found = _one_table(folder, said) or _matches(folder, DEEP_PARQUET)
    else:
        found = _matches(folder, PATTERNS[layout])
    if not found:
        got = f"{str(folder)!r}, where there is none"
        raise refusal("layout", said.owner, f"fit the folder: {layout!r} has files of its own", got, "Leave it out.")
    return found


def _matches(folder: Path, patterns: Iterable[str]) -> list[Path]:
    for pattern in patterns:
        found = sorted(path for path in folder.glob(pattern) if path.is_file())
        if found:
            return found
    return []


def _tables(folder: Path) -> list[Path]:
    found = [path for path in folder.iterdir() if path.name.lower().endswith((*TEXT_SUFFIXES, ".jsonl"))]
    return sorted(path for path in found if path.is_file() and not path.name.startswith("."))


def _one_table(folder: Path, said: Said) -> list[Path]:
    """The table of a folder, or several whose names are those of splits."""
    found = _tables(folder)
    if len(found) > 1 and not splits_of_files(found):
        got = f"a folder with {listed([path.name for path in found])}"
        raise refusal("path", said.owner, "tell which table to read", got, "Pass the path of one of them.")
    return found
