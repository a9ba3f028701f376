"""Where the images of a table lie: names in a table are often relative to somewhere else, or lack their ending."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from manyhot.data.readers.said import Said
from manyhot.data.sources import Files
from manyhot.image_formats import SkippedFiles, image_suffixes, is_image
from manyhot.refusal import refusal

SAMPLE = 50
FOLDERS = ("images", "image", "imgs", "img", "photos", "pictures", "JPEGImages", "data", "train", "val", "test")
# Enough for any data set on one machine, and an end where someone points at the root of a disk.
MOST_ENTRIES = 5_000_000


class Place(NamedTuple):
    """A guess: the folder, and what is added to each name."""

    folder: Path
    suffix: str


def place_images(
    names: Sequence[str], base: Path, said: Said, *, hints: Iterable[Path] = ()
) -> tuple[Files, list[str]]:
    """The files of images that a table names, and what to tell about where they were found.

    Args:
        names: As the table has them.
        base: The folder of the table.
        said: What the user said; `root` comes first.
        hints: Other folders to look into.
    """
    names = list(names)
    sample = names[:SAMPLE]
    if sample and sample[0].startswith(("http://", "https://", "s3://", "gs://")):
        got = f"{sample[0]!r}"
        raise refusal("path", said.owner, "name images on this machine", got, "Download them, and pass their paths.")
    notes = []
    written = [name for name in names if "\\" in name]
    if written and not any((base / name).exists() for name in written[:SAMPLE]):
        names = [name.replace("\\", "/") for name in names]
        sample = names[:SAMPLE]
        notes.append("Backslashes in paths are read as slashes.")
    starts = [base] if said.root is None else [said.root, base]
    folders = [*starts, *hints, *(start / name for start in starts for name in FOLDERS)]
    folders += [Path()] if said.root is None else []
    best, hits = _best_place(sample, folders)
    if 2 * hits < len(sample) and not said.elsewhere:
        found = _search(names, starts[0])
        if found is not None and found.hits > hits:
            return Files(found.paths, root=starts[0]), [*notes, f"Images were found by name below {_shown(starts[0])}."]
    if sample and not hits and said.elsewhere:
        return Files(names, root=starts[0]), notes
    if sample and not hits:
        raise _nothing_found(sample, starts, said)
    paths = names if not best.suffix else _with_endings(names, best)
    if best.suffix:
        notes.append(f"Names have no ending; {best.suffix!r} was added.")
    if best.folder != starts[0]:
        notes.append(f"Images lie in {_shown(best.folder)}.")
    if hits < len(sample):
        notes.append(f"Of the first {len(sample)} images {len(sample) - hits} are not there.")
    return Files(paths, root=best.folder), notes


def _best_place(sample: Sequence[str], folders: Iterable[Path]) -> tuple[Place, int]:
    """The place where most of the sample exists, the first of them on a tie."""
    bare = sum(is_image(name) for name in sample) * 2 < len(sample)
    suffixes = ("", *image_suffixes(), ".JPG", ".JPEG", ".PNG") if bare else ("",)
    best, most = Place(Path(), ""), -1
    for folder in dict.fromkeys(folders):
        if not folder.is_dir():
            continue
        for suffix in suffixes:
            hits = sum(os.path.isfile(folder / (name + suffix)) for name in sample)
            if hits > most:
                best, most = Place(folder, suffix), hits
        if most == len(sample):
            break
    return best, max(most, 0)


def _with_endings(names: Sequence[str], place: Place) -> list[str]:
    """Each name with the ending its file has; the most usual one where there is no such file."""
    folders = {os.path.dirname(name) for name in names}
    endings = {}
    for folder in folders:
        if not (place.folder / folder).is_dir():
            continue
        for entry in os.scandir(place.folder / folder):
            if is_image(entry.name):
                stem, ending = os.path.splitext(entry.name)
                endings[os.path.join(folder, stem)] = ending
    return [name + endings.get(name, place.suffix) for name in names]


class _Search(NamedTuple):
    paths: list[str]
    hits: int


def _search(names: Sequence[str], start: Path) -> _Search | None:
    """Paths by file name alone, below a folder; None where two images share a name that is looked for."""
    index: dict[str, str] = {}
    twice: Counter[str] = Counter()
    for path in walk_images(start).images:
        name = os.path.basename(path)
        for key in (name, os.path.splitext(name)[0]):
            twice[key] += 1
            index[key] = path
    keys = [os.path.basename(name) for name in names]
    if any(twice[key] > 1 for key in keys):
        return None
    return _Search(
        [index.get(key, name) for key, name in zip(keys, names, strict=True)],
        sum(map(index.__contains__, keys[:SAMPLE])),
    )


class Walk(NamedTuple):
    """What lies below a folder.

    Attributes:
        images: Images that can be read, relative to the folder and sorted.
        skipped: Files that are perhaps images too.
    """

    images: list[str]
    skipped: SkippedFiles


def walk_images(start: Path, skipped: SkippedFiles | None = None) -> Walk:
    """The files below a folder; hidden files and folders are left out.

    Args:
        start: The folder.
        skipped: What was skipped elsewhere, to be added to.
    """
    found: list[str] = []
    skipped, endings = skipped or SkippedFiles(), image_suffixes()
    entries = 0
    seen: set[tuple[int, int]] = set()
    for folder, folders, files in os.walk(start, followlinks=True):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in seen:  # a link back to a folder above would never end
            folders.clear()
            continue
        seen.add((state.st_dev, state.st_ino))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        relative = os.path.relpath(folder, start)
        prefix = "" if relative == "." else f"{relative}{os.sep}"
        for name in files:
            if name.lower().endswith(endings) and not name.startswith("."):
                found.append(prefix + name)
            elif not name.startswith("."):
                skipped.add(name)
        entries += len(files) + len(folders)
        if entries > MOST_ENTRIES:
            break
    return Walk(sorted(found), skipped)


def _nothing_found(sample: Sequence[str], starts: Sequence[Path], said: Said) -> Exception:
    places = " and ".join(_shown(start) for start in starts)
    got = f"none of the first {len(sample)}, such as {sample[0]!r}, in {places} or below"
    return refusal("root", said.owner, "be the folder of the images", got, "Pass the folder that the paths start from.")


def _shown(folder: Path) -> str:
    return repr(str(folder))
