"""Label folders (`label/image.jpg`, `split/label/image.jpg`) and WebDataset (`key.jpg` beside `key.json`)."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from manyhot.data.dataset import Dataset
from manyhot.data.image_tables import read_label_lists, splits_by_file
from manyhot.data.sources import Files, TarMembers
from manyhot.data.targets import index_names
from manyhot.errors import InputError, as_input_error
from manyhot.image_paths import SkippedFiles, image_suffixes, iterate_images, scan_tar
from manyhot.tables.arrow import pa
from manyhot.tables.columns import (
    CANONICAL_SPLITS,
    FLAG_COLUMNS,
    LABEL_COLUMNS,
    SPLIT_COLUMNS,
    ReadOptions,
    canonical_split,
    canonical_splits,
    find_column,
    preview_names,
)
from manyhot.tables.reader import as_column


def read_folders(folders: Sequence[Path], options: ReadOptions) -> Dataset:
    """All images below the one folder, labelled by the folders they lie in."""
    folder = folders[0]
    if len(folders) > 1 or not folder.is_dir():
        rule, hint = "be one folder for layout 'folders'", "Pass the folder above those of the labels."
        raise InputError("path", rule=rule, got=repr(str(folder)), hint=hint)
    skipped = SkippedFiles()
    paths = sorted(iterate_images(folder, skipped))
    by_split = options.split_column is None and _has_split_folders(paths)
    depth = 1 if by_split else 0
    labelled = [path for path in paths if path.count(os.sep) > depth]
    if not paths:
        raise skipped.missing_error("have a folder for each label", folder, " without images")
    if not labelled:
        got = f"{str(folder)!r}, whose images lie in no label's folder"
        hint = "Use {read_images} for images without labels, or pass the table that has them."
        raise InputError("path", rule="have a folder for each label", got=got, hint=hint)
    files = _merge_copies(folder, labelled, by_split=by_split)
    ids = [same[0] for same in files]
    rows = np.repeat(np.arange(len(files)), list(map(len, files)))
    names = ["/".join(path.split(os.sep)[depth:-1]) for path in chain.from_iterable(files)]
    labels, targets = index_names(rows, names, num_rows=len(files), unlisted=options.unlisted or "absent")
    notes = [f"Labels are the folders of images: {preview_names(labels.names)}."]
    if len(ids) < len(labelled):
        count = f"{len(labelled):,} files are {len(ids):,} images"
        notes.append(f"{count}: copies in several folders have several labels.")
    if any("/" in name for name in labels.names):
        notes.append("Folders within folders of labels are labels of their own, such as 'animal/dog'.")
    if len(labelled) < len(paths):
        notes.append(f"Left out {len(paths) - len(labelled):,} images outside of the folders of labels.")
    notes += skipped.notes()
    splits = None
    if by_split:
        tops = [path.split(os.sep)[0] for path in ids]
        splits, more = canonical_splits(np.arange(len(ids)), tops)
        notes += ["Splits are the folders above them.", *more]
    return Dataset(labels, targets, ids, images=Files(ids, root=folder), splits=splits, notes=notes)


def _has_split_folders(paths: Sequence[str]) -> bool:
    """Whether the top folders are splits; raises an error for splits beside other folders."""
    parts = [path.split(os.sep) for path in paths]
    splits = {top for top, *below in parts if len(below) > 1 and top.lower() in CANONICAL_SPLITS}
    others = sorted({top for top, *below in parts if below and top.lower() not in CANONICAL_SPLITS})
    if splits and others:
        got = f"the split {min(splits)!r} beside {preview_names(others)}"
        hint = "Move one kind elsewhere, or pass `{split_column=''}` if none are splits."
        raise InputError("path", rule="have folders of splits or of labels at the top", got=got, hint=hint)
    return bool(splits)


def _merge_copies(folder: Path, paths: Sequence[str], *, by_split: bool) -> list[list[str]]:
    """The files of each image.

    Files are one image if they have the same name and content and lie in the same split: the same name alone is often
    a number that starts again in each folder.
    """
    keys = [(canonical_split(path.split(os.sep)[0]) if by_split else "", os.path.basename(path)) for path in paths]
    counts, images = Counter(keys), defaultdict(list)
    for key, path in zip(keys, paths, strict=True):
        content = hashlib.sha256((folder / path).read_bytes()).digest() if counts[key] > 1 else b""
        images[key, content].append(path)
    return list(images.values())


LABEL_SUFFIXES = ("json", "cls", "txt")


def scan_shards(files: Sequence[Path]) -> tuple[list[str], TarMembers, list[dict[str, str]], SkippedFiles]:
    """All images in the order of the archives.

    Returns:
        The key of each, which is its name without endings; the images; the texts beside each, by ending; and what else
        may have been images.
    """
    images: dict[tuple[int, str], tuple[str, int, int]] = {}
    texts: defaultdict[tuple[int, str], dict[str, str]] = defaultdict(dict)
    skipped, suffixes = SkippedFiles(), image_suffixes()
    kinds = (tarfile.TarError, UnicodeDecodeError, EOFError, OSError)
    hint = "Unpack .tar.gz archives, or pack them again without compression."
    for number, path in enumerate(files):
        with as_input_error(repr(str(path)), kinds, "be a plain tar archive", hint):
            for archive, member in scan_tar(path):
                folder, _, base = member.name.rpartition("/")
                stem, _, suffix = base.partition(".")
                key, suffix = (number, f"{folder}/{stem}".lstrip("/")), suffix.lower()
                if not stem:
                    continue  # a hidden file
                if base.lower().endswith(suffixes):
                    images.setdefault(key, (member.name, member.offset_data, member.size))
                elif suffix in LABEL_SUFFIXES:
                    content = archive.extractfile(member)
                    assert content is not None  # which it is for folders alone
                    texts[key][suffix] = content.read().decode("utf-8-sig")
                else:
                    skipped.add(member.name)
    if not images:
        raise skipped.missing_error("hold images", files[0], " without any", "Name them `key.jpg` within the archive.")
    locations = np.array([(number, start, size) for (number, _), (_, start, size) in images.items()])
    members = TarMembers(files, locations, [name for name, _, _ in images.values()])
    return [key for _, key in images], members, [texts[key] for key in images], skipped


def shard_ids(keys: list[str], images: TarMembers) -> list[str]:
    """The keys, with the archive before them where keys repeat."""
    if len(set(keys)) == len(keys):
        return keys
    archives = [images.archives[number].name for number in images.locations[:, 0].tolist()]
    return [f"{archive}/{key}" for archive, key in zip(archives, keys, strict=True)]


def read_shards(files: Sequence[Path], options: ReadOptions) -> Dataset:
    """Images with the labels that lie beside them."""
    keys, images, texts, skipped = scan_shards(files)
    suffixes = set().union(*texts)
    if not suffixes:
        rule, hint = "have labels in key.json, key.cls or key.txt", "Use {read_images} for images without labels."
        raise InputError("path", rule=rule, got="images alone", hint=hint)
    suffix = min(suffixes, key=LABEL_SUFFIXES.index)
    rows = [row for row, by_suffix in enumerate(texts) if suffix in by_suffix]
    count = f"{len(files)} archives" if len(files) > 1 else files[0].name
    notes = [f"Read {len(keys):,} samples of {count}.", *skipped.notes()]
    if len(rows) < len(keys):
        notes.append(f"Left out {len(keys) - len(rows):,} images without a .{suffix} file.")
    keys, images = [keys[row] for row in rows], images.take(rows)
    records = _read_records(keys, [texts[row][suffix].strip() for row in rows], suffix)
    key = _find_labels_key(records, options)
    column = pa.chunked_array([as_column([record.get(key, record.get("")) for record in records])])
    if suffix == "cls":  # holds one class
        options = replace(options, separator="")
    labels, targets, separation = read_label_lists(column, options, unit="sample")
    under = f", under {key!r}" if key else ""
    notes.append(f"Labels are in the .{suffix} files{under}, {separation}.")
    # Splits are under a key of the JSON, or else in the names of the archives.
    splits_key = options.split_column
    if splits_key is None:
        splits_key = find_column((*SPLIT_COLUMNS, *FLAG_COLUMNS), records[0])
    if splits_key:
        values = [str(record.get(splits_key, "")) for record in records]
        splits, more = canonical_splits(np.arange(len(values)), values, splits_key)
        notes.append(f"Splits are under {splits_key!r}.")
    else:
        splits, more = splits_by_file(files, images.locations[:, 0], options, noun="archives")
    return Dataset(labels, targets, shard_ids(keys, images), images=images, splits=splits, notes=notes + more)


def _read_records(keys: Sequence[str], texts: Sequence[str], suffix: str) -> list[dict[str, Any]]:
    """What the file beside each image holds, by key; what is no object of JSON has an empty one."""
    records = []
    for key, text in zip(keys, texts, strict=True):
        with as_input_error(f"{key}.json", ValueError, "hold whole JSON files", "Repair it."):
            content = json.loads(text) if suffix == "json" else text
        records.append(content if isinstance(content, dict) else {"": content})
    return records


def _find_labels_key(records: Sequence[dict[str, Any]], options: ReadOptions) -> str:
    """The key of the JSON that has the labels; empty where no file is an object of JSON."""
    keys = list(dict.fromkeys(chain.from_iterable(records)))
    if keys == [""]:
        return ""
    column = find_column(LABEL_COLUMNS, keys) if options.labels_column is None else options.labels_column
    if column is None:
        rule, got = "have labels under a known key of the JSON", f"the keys {preview_names(keys)}"
        raise InputError("path", rule=rule, got=got, hint="Name it with {labels_column}.")
    return options.column("labels_column", column, keys)
