"""Reading labelled data in any layout, and images without labels."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from manyhot.checks import check_choice
from manyhot.data.annotations import OPEN_IMAGES_COLUMNS, find_voc, read_coco, read_open_images, read_voc
from manyhot.data.arrays import read_npz
from manyhot.data.dataset import Dataset
from manyhot.data.folders import read_folders, read_shards, scan_shards, shard_ids
from manyhot.data.image_tables import read_image_tables
from manyhot.data.sources import Files
from manyhot.errors import InputError, owned, suggest
from manyhot.formatting import count_noun
from manyhot.image_paths import OTHER_IMAGE_SUFFIXES, SkippedFiles, is_image, iterate_images
from manyhot.labels import Labels
from manyhot.tables.columns import ReadOptions, preview_names, splits_from_paths
from manyhot.tables.reader import PARQUET_MAGIC, TEXT_SUFFIXES, open_table

TABLE_SUFFIXES = (*TEXT_SUFFIXES, ".jsonl", ".ndjson", ".parquet", ".pq")


class Layout(NamedTuple):
    """How a layout is read, and what it looks like inside of a folder: the first pattern that matches anything holds.

    Pascal VOC and single tables have more to them.
    """

    read: Callable[[Sequence[Path], ReadOptions], Dataset]
    patterns: Sequence[str] = ()


METADATA = [f"{top}metadata.{end}" for end in ("csv", "jsonl", "parquet") for top in ("", "*/")]
COCO_FILES = ("annotations/instances*.json", "instances*.json", "*_annotations.coco.json", "*/_annotations.coco.json")
LAYOUTS = {
    "table": Layout(read_image_tables, ("*.parquet", "data/*.parquet")),
    "folders": Layout(read_folders),
    "imagefolder": Layout(read_image_tables, METADATA),
    "coco": Layout(read_coco, COCO_FILES),
    "voc": Layout(read_voc),
    "open_images": Layout(read_open_images, ("*human-imagelabels*.csv", "*imagelabels*.csv")),
    "webdataset": Layout(read_shards, ("*.tar",)),
    "npz": Layout(read_npz, ("*.npz",)),
}
# The order in which they are looked for in a folder.
FOLDER_LAYOUTS = ("voc", "imagefolder", "coco", "open_images", "table", "webdataset", "npz")
COCO_START = re.compile(rb'"(images|annotations|categories|info|licenses)"\s*:\s*[\[{]')


Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def expand_paths(paths: Paths) -> list[Path]:
    """The paths that are meant, in order: patterns such as `*.tar` and `shard-{000..012}.tar` are filled in.

    A path that is named twice is there twice.
    """
    patterns = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[Path] = []
    for text in patterns:
        for path in _expand_braces(os.path.expanduser(os.fspath(text))):
            matches = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
            if os.path.exists(path):  # also a name that looks like a pattern
                matches = [path]
            if not matches:
                got = f"{path!r}, where there is nothing"
                raise InputError("path", rule="lead to data", got=got, hint="Check the path.")
            files += map(Path, matches)
    if not files:
        raise InputError("path", rule="lead to data", got="an empty list", hint="Pass a path.")
    return files


def _expand_braces(text: str) -> list[str]:
    """`{000..012}` as numbers of the same width, and `{a,b}` as its parts."""
    match = re.search(r"\{(?:(\d+)\.\.(\d+)|([^{}]*,[^{}]*))\}", text)
    if match is None or os.path.exists(text):
        return [text]
    low, high, parts = match.groups()
    fill = parts.split(",") if parts else [str(n).zfill(len(low)) for n in range(int(low), int(high) + 1)]
    before, after = text[: match.start()], text[match.end() :]
    return [expanded for part in fill for expanded in _expand_braces(before + part + after)]


def _find_layout(paths: Sequence[Path], layout: str | None, options: ReadOptions) -> tuple[str, Sequence[Path]]:
    """The layout of some files or one folder, unless it is given, and the files that its reader takes."""
    folder = next((path for path in paths if path.is_dir()), None)
    if folder is None or layout == "folders":
        return _layout_of_files(paths, options) if layout is None else layout, paths
    if len(paths) > 1:
        rule, got = "be one folder or several files", f"{len(paths)} paths, of which {str(folder)!r} is a folder"
        raise InputError("path", rule=rule, got=got, hint="Read one folder at a time.")
    for name in FOLDER_LAYOUTS if layout is None else (layout,):
        files = _find_files(name, folder, nested=layout is not None)
        if files:
            return name, files
    if layout is not None:
        rule, got = f"fit the folder: {layout!r} has files of its own", f"{str(folder)!r}, where there is none"
        raise InputError("layout", rule=rule, got=got, hint="Leave it out.")
    skipped = SkippedFiles()
    if next(iterate_images(folder, skipped), None) is not None:
        return "folders", paths
    files = _find_files("table", folder, nested=True)
    if not files:
        raise skipped.missing_error("lead to data", folder, ", which has neither images nor tables")
    return "table", files


def _layout_of_files(paths: Sequence[Path], options: ReadOptions) -> str:
    """The one layout of some files."""
    layouts = [_detect_file(path, options) for path in paths]
    for path, layout in zip(paths, layouts, strict=True):
        if layout != layouts[0]:
            got = f"{str(paths[0])!r} ({layouts[0]}) and {str(path)!r} ({layout})"
            raise InputError("path", rule="be files of one layout", got=got, hint="Read them one after the other.")
    return layouts[0]


def _detect_file(path: Path, options: ReadOptions) -> str:
    """The layout of a file, or the error that says what would be understood."""
    name = path.name.lower()
    if name.endswith(TEXT_SUFFIXES):
        columns = open_table(path, delimiter=options.delimiter).columns
        return "open_images" if columns.keys() >= set(OPEN_IMAGES_COLUMNS) else "table"
    if name.endswith((".npz", ".tar")):
        return "npz" if name.endswith(".npz") else "webdataset"
    with path.open("rb") as file:
        start = file.read(2**16)
    if name.endswith(TABLE_SUFFIXES) or start.startswith(PARQUET_MAGIC):
        return "table"
    if name.endswith(".json"):
        return "coco" if COCO_START.search(start) and start.lstrip().startswith(b"{") else "table"
    hint = "Convert it to CSV with columns `path` and `labels`."
    if is_image(name):
        hint = "Use {read_images} for images without labels, or pass the table that has them."
    elif name.endswith((".zip", ".tar.gz", ".tgz", ".7z", ".rar")):
        hint = "Unpack it, and pass the folder."
    rule = f"end with {', '.join((*TABLE_SUFFIXES, '.json', '.tar', '.npz'))}, or be a folder"
    raise InputError("path", rule=rule, got=repr(str(path)), hint=hint)


def _find_files(layout: str, folder: Path, *, nested: bool = False) -> list[Path]:
    """The files of a layout in a folder; of Parquet also those in folders within it, if `nested`."""
    if layout == "voc":
        return find_voc(folder)
    patterns = LAYOUTS[layout].patterns
    if layout == "table":
        names = [path for path in folder.iterdir() if path.name.lower().endswith((*TEXT_SUFFIXES, ".jsonl"))]
        files = sorted(path for path in names if path.is_file() and not path.name.startswith("."))
        if len(files) > 1 and not splits_from_paths(files):
            rule, got = "be one table, or tables named like splits", preview_names([path.name for path in files])
            hint = "Pass the path of one of them."
            raise InputError("path", rule=rule, got=f"a folder with {got}", hint=hint)
        if files:
            return files
        patterns = (*patterns, "**/*.parquet") if nested else patterns
    matches = (sorted(path for path in folder.glob(pattern) if path.is_file()) for pattern in patterns)
    return next(filter(None, matches), [])


@owned("read_data")
def read_data(
    path: Paths,
    *,
    layout: str | None = None,
    path_column: str | None = None,
    labels_column: str | None = None,
    split_column: str | None = None,
    separator: str | None = None,
    root: str | os.PathLike[str] | None = None,
    labels: Sequence[str] | Labels | None = None,
    unlisted: str | None = None,
    delimiter: str | None = None,
    descriptions: str | os.PathLike[str] | None = None,
) -> Dataset:
    r"""Reads labelled images in the layout they come in; `notes` of the result say what was detected.

    Images are not opened here. Every option overrides a guess.

    Args:
        path: A table (CSV, TSV, JSON lines, Parquet), a folder, COCO JSON, tar shards or an .npz archive; several
            files of one layout as a list or a pattern.
        layout: "table", "folders", "imagefolder", "coco", "voc", "open_images", "webdataset" or "npz".
        path_column: The column of image paths, or of the images themselves in Parquet.
        labels_column: The column of label names.
        split_column: The column of splits; "" to read none.
        separator: What separates label names in one text; "" where each text is one label.
        root: The folder that paths start from.
        labels: The labels to keep, in this order; in a table of one column per label also the columns. A name that
            never occurs raises an error, unless it comes in a `Labels`, such as those of a classifier.
        unlisted: What a label means that a row says nothing about: "absent" or "unknown". By default it is unknown
            where there are verified absences (Open Images, blank cells of label columns), and otherwise absent.
        delimiter: What separates the columns of a table of text.
        descriptions: The file of codes and names of Open Images; found beside the tables by default.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> for name in ("a.jpg", "b.jpg", "c.jpg"):
        ...     _ = (folder / name).write_bytes(b"")
        >>> _ = (folder / "photos.csv").write_text("path,labels\na.jpg,dog|traffic light\nb.jpg,dog\nc.jpg,\n")
        >>> data = read_data(folder / "photos.csv")
        >>> data.labels
        Labels(2: dog, traffic light)
        >>> print(*data.notes, sep="\n")
        Read 3 rows of photos.csv; paths in column 'path'; labels in column 'labels', separated by '|' as detected.
        3 images, 2 labels; 1 image has none of them; no splits.
    """
    if unlisted is not None:
        check_choice("unlisted", "", unlisted, ("absent", "unknown"))
    known = labels if labels is None or isinstance(labels, Labels) else Labels(labels)
    options = ReadOptions(
        path_column=path_column,
        labels_column=labels_column,
        split_column=split_column,
        separator=separator,
        delimiter=delimiter,
        root=None if root is None else Path(root),
        label_names=None if known is None else known.names,
        allow_unseen=isinstance(labels, Labels),
        unlisted=unlisted,
        descriptions=None if descriptions is None else Path(descriptions),
    )
    if layout is not None:
        check_choice("layout", "", layout, list(LAYOUTS))
    layout, files = _find_layout(list(dict.fromkeys(expand_paths(path))), layout, options)
    data = LAYOUTS[layout].read(files, options)
    return data if layout == "npz" else finish_dataset(data, options)


def finish_dataset(data: Dataset, options: ReadOptions) -> Dataset:
    """What a reader found, with the labels that the user wants and notes about the whole."""
    if not data.ids:
        raise InputError("path", rule="lead to images", got="none at all", hint="Check the path.")
    if options.label_names is not None:
        data = _select_labels(data, options, options.label_names)
    data.notes.extend(_similar_names_note(data.labels.names))
    data.notes.append(_summary(data))
    return data


def _select_labels(data: Dataset, options: ReadOptions, selected: list[str]) -> Dataset:
    """The labels of these names; those of `Labels` that never occur are absent or unknown, as unlisted cells are."""
    names, columns = data.labels.names, {name: column for column, name in enumerate(data.labels.names)}
    missing = [name for name in selected if name not in columns]
    if missing and (not options.allow_unseen or len(missing) == len(selected)):
        hint = suggest(missing[0], names, f"The labels are {preview_names(names)}.", show=repr)
        raise InputError("labels", rule="name labels that occur", got=repr(missing[0]), hint=hint)
    if missing:
        data.notes.append(f"Never present: {preview_names(missing)}.")
    dropped = [name for name in names if name not in set(selected)]
    if dropped:
        data.notes.append(f"Left out {count_noun(len(dropped), 'label')}: {preview_names(dropped)}.")
    assert data.targets is not None
    targets = data.targets.select([columns.get(name, -1) for name in selected])
    return replace(data, labels=Labels(selected), targets=targets)


def _similar_names_note(names: list[str]) -> list[str]:
    """Says which labels differ by capitals alone, the first two of them."""
    by_casefold: dict[str, str] = {}
    for name in names:
        first = by_casefold.setdefault(name.casefold(), name)
        if first != name:
            return [f"Labels {first!r} and {name!r} are two labels: they differ by capitals."]
    return []


def _summary(data: Dataset) -> str:
    """Sizes, rows without a label, splits."""
    assert data.targets is not None
    empty = int((data.targets.sizes() == 0).sum())
    text = f"{count_noun(len(data), 'image')}, {count_noun(len(data.labels), 'label')}"
    text += f"; {empty:,} {'image has' if empty == 1 else 'images have'} none of them" if empty else ""
    sizes = ", ".join(f"{name} {size:,}" for name, size in data.split_sizes().items())
    return f"{text}; splits {sizes}." if sizes else f"{text}; no splits."


@owned("read_images")
def read_images(path: Paths) -> Dataset:
    """Images without labels, to predict: files, folders with all that is below them, patterns, tars, or a table.

    The last of `notes` says how many there are.

    Args:
        path: One or several of these; a table has a column of paths, or of images in Parquet.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> for name in ("a.jpg", "b.png", "notes.txt"):
        ...     _ = (folder / name).write_bytes(b"")
        >>> read_images(folder).ids
        ['a.jpg', 'b.png']
    """
    options, named = ReadOptions(), expand_paths(path)
    paths = list(dict.fromkeys(named))
    files = [entry for entry in paths if entry.is_file()]
    tars, tables = ([file for file in files if file.name.lower().endswith(end)] for end in (".tar", TABLE_SUFFIXES))
    if (tars or tables) and len(paths) not in (len(tars), len(tables)):
        got, hint = f"{len(paths)} paths of several kinds", "Read them one after the other."
        raise InputError("path", rule="be images and folders, or tables, or tars", got=got, hint=hint)
    if tars:
        keys, images, _, skipped = scan_shards(tars)
        data = Dataset(Labels([]), None, shard_ids(keys, images), images, notes=skipped.notes())
    elif tables:
        data = read_image_tables(tables, options, with_labels=False)
    else:
        data = _find_images(named)
    notes = [*data.notes, f"{count_noun(len(data), 'image')} to predict."]
    return Dataset(Labels([]), None, data.ids, images=data.images, notes=notes)


def _find_images(paths: Sequence[Path]) -> Dataset:
    """Single images, and all that lie below folders; ids of a single folder are relative to it."""
    skipped, ids = SkippedFiles(), []
    is_folder = len(paths) == 1 and paths[0].is_dir()
    for path in paths:
        below = sorted(iterate_images(path, skipped)) if path.is_dir() else [""]
        ids += below if is_folder else [str(path / name) for name in below]
    unreadable = next((name for name in ids if not is_image(name)), None)
    if unreadable is not None:
        hint = "Name the images, or a folder of them."
        if unreadable.lower().endswith(OTHER_IMAGE_SUFFIXES):
            hint = "Convert it to JPEG: Pillow cannot read it here."
        raise InputError("path", rule="be images", got=repr(unreadable), hint=hint)
    if not ids:
        raise skipped.missing_error("lead to images", paths[0], " without any")
    distinct = list(dict.fromkeys(ids))
    again = len(ids) - len(distinct)
    notes = [f"{again:,} of the {len(ids):,} paths were named before, and are read once."] if again else []
    images = Files(distinct, root=paths[0] if is_folder else ".")
    return Dataset(Labels([]), None, distinct, images, notes=[*notes, *skipped.notes()])
