"""WebDataset: tar archives with `key.jpg` beside `key.json`, `key.cls` or `key.txt`."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.readers.found import Found
from manyhot.data.readers.names import describe_separator, detect_separator, index_names, split_names
from manyhot.data.readers.said import Said
from manyhot.data.readers.splits import name_splits, splits_of_files
from manyhot.data.sources import TarMembers
from manyhot.image_formats import SkippedFiles, image_suffixes
from manyhot.predictions.roles import listed
from manyhot.refusal import refusal
from manyhot.vocabulary import FLAGS, LABELS, SPLITS, is_flag, known_column

SIDES = ("json", "cls", "txt")


@dataclass
class Sample:
    """One key of an archive.

    Attributes:
        key: Its name without endings.
        image: Name of the image in the archive, or None.
        place: The archive, where the image begins there, and its size.
        sides: The texts beside the image, by ending.
    """

    key: str
    image: str | None = None
    place: tuple[int, int, int] = (0, 0, 0)
    sides: dict[str, str] = field(default_factory=dict)


def scan_shards(files: Sequence[Path], said: Said) -> tuple[list[Sample], SkippedFiles]:
    """All samples with an image, in the order of the archives, and what else may have been images."""
    found: list[Sample] = []
    skipped = SkippedFiles()
    for number, path in enumerate(files):
        samples: dict[str, Sample] = {}
        for member, data in _members(path, said, skipped):
            folder, _, base = member.name.rpartition("/")
            stem, _, ending = base.partition(".")
            key = f"{folder}/{stem}".lstrip("/")
            sample = samples.setdefault(key, Sample(key))
            if data is not None:
                sample.sides[ending.lower()] = data
            elif sample.image is None:
                sample.image, sample.place = member.name, (number, member.offset_data, member.size)
        found += [sample for sample in samples.values() if sample.image is not None]
    if not found:
        got, remedy = skipped.instead(files[0], " without any")
        remedy = remedy if skipped.endings else "Name them `key.jpg` within the archive."
        raise refusal("path", said.owner, "hold images", got, remedy)
    return found, skipped


def _members(path: Path, said: Said, skipped: SkippedFiles) -> Iterator[tuple[tarfile.TarInfo, str | None]]:
    """Images with None, and texts beside them with what they say."""
    if not path.is_file():
        raise said.no_file(path)
    endings = image_suffixes()
    try:
        with tarfile.open(path, "r:") as archive:
            for member in archive:
                name = member.name.lower()
                if not member.isfile() or name.rpartition("/")[2].startswith("."):
                    continue
                if name.endswith(endings):
                    yield member, None
                elif name.rpartition("/")[2].partition(".")[2] in SIDES:
                    content = archive.extractfile(member)
                    assert content is not None  # which it is for folders alone
                    yield member, content.read().decode("utf-8-sig")
                else:
                    skipped.add(member.name)
    except (tarfile.TarError, UnicodeDecodeError, EOFError) as error:
        got, remedy = f"{str(path)!r} ({error})", "Unpack .tar.gz archives, or pack them anew without compression."
        raise refusal("path", said.owner, "be a plain tar archive", got, remedy) from None


def images_of(samples: Sequence[Sample], files: Sequence[Path]) -> tuple[list[str], TarMembers]:
    """Ids and images: keys, with the archive before them where keys repeat."""
    ids = [sample.key for sample in samples]
    if len(set(ids)) < len(ids):
        ids = [f"{files[sample.place[0]].name}/{sample.key}" for sample in samples]
    places = np.array([sample.place for sample in samples], dtype=np.int64)
    return ids, TarMembers(files, places, [str(sample.image) for sample in samples])


def read_shards(files: Sequence[Path], said: Said) -> Found:
    """Images with the labels that lie beside them."""
    everything, skipped = scan_shards(files, said)
    side = next((side for side in SIDES if any(side in sample.sides for sample in everything)), None)
    if side is None:
        got, remedy = "images alone", "Use `read_images` for images without labels."
        raise refusal("path", said.owner, "have labels in key.json, key.cls or key.txt", got, remedy)
    samples = [sample for sample in everything if side in sample.sides]
    ids, images = images_of(samples, files)
    count = f"{len(files)} archives" if len(files) > 1 else files[0].name
    notes = [f"Read {len(everything):,} samples of {count}.", *skipped.notes()]
    if len(samples) < len(everything):
        notes.append(f"Left out {len(everything) - len(samples):,} images without a .{side} file.")
    objects = [_parse(sample, side, said) for sample in samples]
    rows, how = _rows(objects, side, said)
    names, targets = index_names(rows)
    targets.unlisted = said.means("absent")
    notes.append(f"Labels are in the .{side} files{how}.")
    splits, more = _splits(samples, objects, files, said)
    return Found(ids, images, names, targets, splits, notes + more)


def _parse(sample: Sample, side: str, said: Said) -> Any:
    text = sample.sides[side]
    if side != "json":
        return text.strip()
    try:
        return json.loads(text)
    except ValueError as error:
        got = f"{sample.key}.json ({error})"
        raise refusal("path", said.owner, "hold whole JSON files", got, "Repair it.") from None


def _rows(objects: Sequence[Any], side: str, said: Said) -> tuple[list[list[str]], str]:
    """The names of each sample, and how they were found."""
    key = _key(objects, said) if any(isinstance(item, dict) for item in objects) else None
    values = [item.get(key) if isinstance(item, dict) else item for item in objects]
    how = "" if key is None else f", under {key!r}"
    texts = Counter(value.strip() for value in values if isinstance(value, str) and value.strip())
    separator = said.separator
    if side == "cls":
        separator = ""
    elif separator is None and texts:
        separator = detect_separator(texts, said.label_names)
        how += f", {describe_separator(separator, 'sample')} as detected"
    return [_names(value, separator or "", said) for value in values], how


def _names(value: Any, separator: str, said: Said) -> list[str]:
    """The names in what lies beside an image: a text, a list, a number or nothing."""
    if isinstance(value, str):
        return split_names(said.owner, value, separator)
    items = value if isinstance(value, list) else [] if value is None else [value]
    return [str(item).strip() for item in items]


def _key(objects: Sequence[Any], said: Said) -> str:
    keys = list(dict.fromkeys(key for item in objects if isinstance(item, dict) for key in item))
    if said.labels_column is not None:
        return said.column("labels_column", said.labels_column, keys)
    found = known_column(LABELS, keys)
    if found is None:
        got, remedy = f"the keys {listed(keys)}", "Name it with `labels_column`."
        raise refusal("path", said.owner, "have labels under a known key of the JSON", got, remedy)
    return found


def _splits(
    samples: Sequence[Sample], objects: Sequence[Any], files: Sequence[Path], said: Said
) -> tuple[np.ndarray[Any, Any] | None, list[str]]:
    """By a key of the JSON, or else by the names of the archives."""
    key = said.split_column
    if key is None and isinstance(objects[0], dict):
        key = known_column((*SPLITS, *FLAGS), objects[0])
    if key:
        values = [str(item.get(key, "")) if isinstance(item, dict) else "" for item in objects]
        names = list(dict.fromkeys(values))
        codes = np.array([names.index(value) for value in values])
        splits, notes = name_splits(said.owner, codes, names, flag=is_flag(key))
        return splits, [f"Splits are under {key!r}.", *notes]
    by_file = splits_of_files(files) if key is None else None
    if by_file is None:
        return None, []
    splits = np.array([by_file[sample.place[0]] for sample in samples], dtype=object)
    return splits, ["Splits are told by the names of the archives."]
