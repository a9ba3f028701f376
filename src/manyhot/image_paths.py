"""Paths of images: walking folders and archives, finding the images of a table, likely root folders. No torch."""

from __future__ import annotations

import glob
import os
import re
import tarfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.errors import InputError
from manyhot.formatting import count_noun
from manyhot.images import FORMATS, NO_SUCH_FILE, ImageLocation, UnreadableImage

if TYPE_CHECKING:
    from manyhot.tables.columns import ReadOptions

# fmt: off
# The usual endings, which come first where a name without one is looked for; all there are where Pillow is missing.
COMMON_SUFFIXES = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
# Suffixes of images that Pillow cannot read, or only with a plug-in: phones, cameras, drawings, layers, film.
OTHER_IMAGE_SUFFIXES = (
    ".avif", ".avifs", ".heic", ".heif", ".hif", ".jxl", ".jp2", ".j2k", ".jpx", ".jpf", ".qoi", ".webp", ".tga",
    ".3fr", ".arw", ".cr2", ".cr3", ".crw", ".dcr", ".dng", ".erf", ".iiq", ".kdc", ".mef", ".mos", ".mrw", ".nef",
    ".nrw", ".orf", ".pef", ".raf", ".raw", ".rw2", ".rwl", ".sr2", ".srf", ".srw", ".x3f",
    ".psd", ".psb", ".xcf", ".svg", ".svgz", ".eps", ".ai", ".wmf", ".emf", ".exr", ".hdr", ".dds", ".dcm", ".icns",
)
# fmt: on
# Enough for any data set on one machine, and an end where someone points at the root of a disk.
MAX_ENTRIES = 5_000_000


def image_suffixes() -> tuple[str, ...]:
    """The endings of files that this build of Pillow opens, in small letters; the usual ones first."""
    try:
        from PIL import Image
    except ImportError:
        return COMMON_SUFFIXES
    Image.init()
    return _suffixes(len(Image.EXTENSION))


@cache
def _suffixes(registered: int) -> tuple[str, ...]:
    """The endings, found out again when a plug-in has registered more of them."""
    from PIL import Image

    # Files with several images (MPO) are opened as JPEG.
    formats = {"MPO", *(name for name in FORMATS if name in Image.OPEN)}
    readable = [suffix for suffix, name in Image.EXTENSION.items() if name in formats]
    return tuple(dict.fromkeys([suffix for suffix in COMMON_SUFFIXES if suffix in readable] + readable))


def is_image(name: str) -> bool:
    """Whether a file is an image that can be read, by its ending."""
    return name.lower().endswith(image_suffixes())


class SkippedFiles:
    r"""Files beside images that are perhaps images too, counted by ending.

    Example:
        >>> skipped = SkippedFiles()
        >>> for name in ("a.HEIC", "b.heic", "c.cr2", "notes.txt", "IMG0001"):
        ...     skipped.add(name)
        >>> print(*skipped.notes(), sep="\n")
        Skipped 3 images that Pillow cannot read here: 2 .heic, 1 .cr2. Convert them to JPEG to have them read.
        Skipped 1 file without an ending in its name, such as 'IMG0001'.
    """

    def __init__(self) -> None:
        self.suffixes: Counter[str] = Counter()
        self.without_suffix: list[str] = []

    def add(self, name: str) -> None:
        """Takes the name of a file that is no image that can be read."""
        suffix = os.path.splitext(name)[1].lower()
        if suffix in OTHER_IMAGE_SUFFIXES:
            self.suffixes[suffix] += 1
        elif not suffix:
            self.without_suffix.append(name)

    def __str__(self) -> str:
        """How many images were skipped, by suffix; empty if there were none."""
        by_count = sorted(self.suffixes.items(), key=lambda item: (-item[1], item[0]))
        return ", ".join(f"{count:,} {suffix}" for suffix, count in by_count)

    def missing_error(self, rule: str, place: object, missing: str, hint: str = "Check the path.") -> InputError:
        """The error for a place without images: what it holds instead; `missing` and `hint` if no file was skipped."""
        if self.suffixes:
            missing, hint = f" with {self}, which Pillow cannot read here", "Convert them to JPEG."
        return InputError("path", rule=rule, got=f"{str(place)!r}{missing}", hint=hint)

    def notes(self) -> list[str]:
        """What was skipped, one message per item."""
        notes, count, others = [], self.suffixes.total(), len(self.without_suffix)
        if count:
            them = "it" if count == 1 else "them"
            skipped = f"Skipped {count_noun(count, 'image')} that Pillow cannot read here: {self}."
            notes.append(f"{skipped} Convert {them} to JPEG to have {them} read.")
        if others:
            names, example = "its name" if others == 1 else "their names", min(self.without_suffix)
            notes.append(f"Skipped {count_noun(others, 'file')} without an ending in {names}, such as {example!r}.")
        return notes


def iterate_images(start: Path, skipped: SkippedFiles) -> Iterator[str]:
    """The images below a folder, relative to it and in any order; hidden files and folders are left out.

    Args:
        start: The folder.
        skipped: Counts the files that are perhaps images too.
    """
    suffixes, entries = image_suffixes(), 0
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
            if name.startswith("."):
                continue
            if name.lower().endswith(suffixes):
                yield prefix + name
            else:
                skipped.add(name)
        entries += len(files) + len(folders)
        if entries > MAX_ENTRIES:
            break


def scan_tar(path: Path) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The ordinary files in a tar archive without compression, each with the archive to extract it from."""
    end = -1
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                # Otherwise the same members come again, without end.
                if member.size < 0 or member.offset <= end:
                    raise tarfile.ReadError("a file of a negative size")
                end = member.offset
                if member.isfile():
                    yield archive, member
    except (ValueError, OverflowError, MemoryError):  # from sizes that `tarfile` takes as they are
        raise tarfile.ReadError("a damaged header") from None


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


def locate_images(paths: Sequence[str], roots: Sequence[Path]) -> list[ImageLocation | UnreadableImage]:
    """The place of each path, or why there is none. Each archive is gone through once, however many paths it holds."""
    matches = [find_image_file(path, roots) for path in paths]
    members: dict[Path, set[str]] = defaultdict(set)
    for file, inner in filter(None, matches):
        members[file].add(inner)
    located = {file: _locate_members(file, names) for file, names in members.items()}

    def explain(path: str) -> UnreadableImage:
        folder = path != "" and any(os.path.isdir(root / path) for root in roots)
        return UnreadableImage(path, "it is a folder" if folder else NO_SUCH_FILE, missing=not folder)

    pairs = zip(paths, matches, strict=True)
    return [explain(path) if match is None else located[match[0]][match[1]] for path, match in pairs]


def _locate_members(file: Path, names: set[str]) -> dict[str, ImageLocation | UnreadableImage]:
    """Where these members of an archive begin, without reading them, or why they cannot be read; "" is the file."""
    result, reason = {"": ImageLocation(file)}, "the archive has no such file"
    try:
        for _, member in scan_tar(file) if names - {""} else ():
            if member.name in names:
                result[member.name] = ImageLocation(file, member.offset_data, member.size)
            if names <= result.keys():
                break
    except (tarfile.TarError, OSError):
        reason = "the archive cannot be read"
    return {name: result.get(name, UnreadableImage(f"{file}/{name}", reason)) for name in names}


SAMPLE_PATHS = 50
IMAGE_FOLDERS = ("images", "image", "imgs", "img", "photos", "pictures", "JPEGImages", "data", "train", "val", "test")


def resolve_image_files(
    names: Sequence[str], base: Path, options: ReadOptions, *, hints: Iterable[Path] = ()
) -> tuple[list[str], Path, list[str]]:
    """The files of images that a table names.

    Args:
        names: As the table has them.
        base: The folder of the table.
        options: What the user said; `root` comes first.
        hints: Other folders to look into.

    Returns:
        Their paths, the folder that these are relative to, and notes about what was guessed.
    """
    names, notes = list(names), []
    if names and names[0].startswith(("http://", "https://", "s3://", "gs://")):
        hint = "Download them, and pass their paths."
        raise InputError("path", rule="name images on this machine", got=repr(names[0]), hint=hint)
    with_backslashes = [name for name in names if "\\" in name]
    if with_backslashes and not any((base / name).exists() for name in with_backslashes[:SAMPLE_PATHS]):
        names = [name.replace("\\", "/") for name in names]
        notes.append("Backslashes in paths are read as slashes.")
    sample = names[:SAMPLE_PATHS]
    starts = [base] if options.root is None else [options.root, base]
    folders = [*starts, *hints, *(start / name for start in starts for name in IMAGE_FOLDERS)]
    folders += [Path()] if options.root is None else []
    root, suffix, hits = _best_folder(sample, folders)
    if 2 * hits < len(sample) and not options.allow_missing:
        by_name = _find_by_name(names, starts[0])
        if sum(name in by_name for name in sample) > hits:
            notes.append(f"Images were found by name below {str(starts[0])!r}.")
            return [by_name.get(name, name) for name in names], starts[0], notes
    if sample and not hits:
        if options.allow_missing:
            return names, starts[0], notes
        searched = " and ".join(repr(str(start)) for start in starts)
        got = f"none of the first {len(sample)}, such as {sample[0]!r}, in {searched} or below"
        hint = "Pass the folder that the paths start from."
        raise InputError("root", rule="be the folder of the images", got=got, hint=hint)
    if suffix:
        names = _add_suffixes(names, root, suffix)
        notes.append(f"Names have no ending; {suffix!r} was added.")
    if root != starts[0]:
        notes.append(f"Images lie in {str(root)!r}.")
    if hits < len(sample):
        notes.append(f"Of the first {len(sample)} images {len(sample) - hits} are not there.")
    return names, root, notes


def _best_folder(sample: Sequence[str], folders: Iterable[Path]) -> tuple[Path, str, int]:
    """The folder and the ending with which most of the sample exists, the first on a tie, and how much of it."""
    without_suffix = sum(is_image(name) for name in sample) * 2 < len(sample)
    suffixes = ("", *image_suffixes(), ".JPG", ".JPEG", ".PNG") if without_suffix else ("",)
    best = (Path(), "", -1)
    for folder in filter(Path.is_dir, dict.fromkeys(folders)):
        for suffix in suffixes:
            hits = sum(os.path.isfile(folder / (name + suffix)) for name in sample)
            if hits > best[2]:
                best = folder, suffix, hits
        if best[2] == len(sample):
            break
    return best[0], best[1], max(best[2], 0)


def _add_suffixes(names: Sequence[str], root: Path, usual: str) -> list[str]:
    """Each name with the ending its file has; the most usual one where there is no such file."""
    suffixes = {}
    for folder in {os.path.dirname(name) for name in names}:
        for entry in os.scandir(root / folder) if (root / folder).is_dir() else ():
            if is_image(entry.name):
                stem, suffix = os.path.splitext(entry.name)
                suffixes[os.path.join(folder, stem)] = suffix
    return [name + suffixes.get(name, usual) for name in names]


def _find_by_name(names: Sequence[str], start: Path) -> dict[str, str]:
    """Paths by file name alone, below a folder; none at all where two images share a name that is looked for."""
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in iterate_images(start, SkippedFiles()):
        name = os.path.basename(path)
        by_name[name].append(path)
        by_name[os.path.splitext(name)[0]].append(path)
    matches = {name: by_name.get(os.path.basename(name), []) for name in names}
    ambiguous = any(len(paths) > 1 for paths in matches.values())
    return {} if ambiguous else {name: paths[0] for name, paths in matches.items() if paths}


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
    named: list[Any] = []
    # Only a hint where to look: no error if there is no such file, or another program's, or no package to read it.
    with suppress(Exception):
        data = import_module("yaml").safe_load((run / "config.yaml").read_text(encoding="utf-8"))["data"]
        named = [data.get("root"), *(data["paths"] if isinstance(data.get("paths"), list) else [])]
    return [folder for name in named if isinstance(name, str) and name for folder in _find_folder(name, run)]


def _find_folder(name: str, run: Path) -> list[Path]:
    """The folder of a path that was typed when the run began, in this folder or in one that the run lies in."""
    for start in (Path(), *run.resolve().parents):
        path = start / name
        if path.exists() or (glob.has_magic(name) and path.parent.is_dir()):
            return [path if path.is_dir() else path.parent]
    return []
