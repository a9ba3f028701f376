"""One door for labelled data of every layout, and one for images without labels."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from manyhot.checks import check_choice
from manyhot.data.dataset import Dataset
from manyhot.data.readers.arrays import read_npz
from manyhot.data.readers.coco import read_coco
from manyhot.data.readers.detection import LAYOUTS, TABLES, detect_layout, expand, files_of
from manyhot.data.readers.folders import read_folders
from manyhot.data.readers.found import Found
from manyhot.data.readers.open_images import read_open_images
from manyhot.data.readers.places import walk_images
from manyhot.data.readers.said import Said
from manyhot.data.readers.shards import images_of, read_shards, scan_shards
from manyhot.data.readers.tables import read_tables
from manyhot.data.readers.voc import read_voc
from manyhot.data.sources import Files, ImageSource
from manyhot.image_formats import OTHER_PICTURES, SkippedFiles, is_image
from manyhot.labels import Labels
from manyhot.refusal import refusal

Paths = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


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
        labels: The labels to keep, in this order; in a table of one column a label also the columns. A name that
            never occurs is refused, unless it comes in a `Labels`, such as those of a classifier.
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
    owner = "read_data"
    said = Said(
        owner,
        path_column=path_column,
        labels_column=labels_column,
        split_column=split_column,
        separator=separator,
        delimiter=delimiter,
        root=None if root is None else Path(root),
        labels=labels,
        unlisted=unlisted,
        descriptions=None if descriptions is None else Path(descriptions),
    )
    if layout is not None:
        check_choice("layout", owner, layout, LAYOUTS)
    paths = list(dict.fromkeys(expand(path, said)))
    layout = detect_layout(paths, said) if layout is None else layout
    files = files_of(layout, paths, said)
    if layout == "npz":
        return _read_archive(files, said)
    return _read(layout, files, said).dataset(said)


def _read(layout: str, files: Sequence[Path], said: Said) -> Found:
    if layout == "folders":
        if len(files) > 1 or not files[0].is_dir():
            rule, remedy = "be one folder for layout 'folders'", "Pass the folder above those of the labels."
            raise refusal("path", said.owner, rule, repr(str(files[0])), remedy)
        return read_folders(files[0], said)
    readers = {
        "table": read_tables,
        "imagefolder": read_tables,
        "coco": read_coco,
        "voc": read_voc,
        "open_images": read_open_images,
        "webdataset": read_shards,
    }
    return readers[layout](files, said)


def _read_archive(files: Sequence[Path], said: Said) -> Dataset:
    if len(files) > 1:
        got, remedy = f"{len(files)} archives", "Pass one of them."
        raise refusal("path", said.owner, "be one .npz archive", got, remedy)
    data = read_npz(files[0], said.owner)
    return data if said.label_names is None else data.select_labels(said.label_names)


def read_images(path: Paths) -> Dataset:
    """Images without labels, to predict: files, folders with all that is below them, patterns, tars, or a table.

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
    said = Said("read_images")
    named = expand(path, said)
    paths = list(dict.fromkeys(named))
    tars, tables = ([one for one in paths if one.name.lower().endswith(ends)] for ends in ((".tar",), TABLES))
    if (tars or tables) and len(paths) not in (len(tars), len(tables)):
        got, remedy = f"{len(paths)} paths of several kinds", "Read them one after the other."
        raise refusal("path", said.owner, "be images and folders, or tables, or tars", got, remedy)
    if len(tars) == len(paths):
        samples, skipped = scan_shards(tars, said)
        ids, source = images_of(samples, tars)
        return _unlabelled(ids, source, skipped.notes())
    if len(tables) == len(paths):
        found = read_tables(tables, said, with_labels=False)
        return _unlabelled(found.ids, found.images, found.notes)
    return _read_loose(named, said)


def _read_loose(paths: Sequence[Path], said: Said) -> Dataset:
    """Single images, and all that lie below folders."""
    skipped = SkippedFiles()
    if len(paths) == 1 and paths[0].is_dir():
        ids, skipped = walk_images(paths[0])
        root = paths[0]
    else:
        ids, root = [], Path()
        for path in paths:
            below = walk_images(path, skipped).images if path.is_dir() else [""]
            ids += [str(path / name) for name in below]
        stray = next((name for name in ids if not is_image(name)), None)
        if stray is not None:
            remedy = "Name the images, or a folder of them."
            if stray.lower().endswith(OTHER_PICTURES):
                remedy = "Convert it to JPEG: Pillow cannot read it here."
            raise refusal("path", said.owner, "be images", repr(stray), remedy)
    if not ids:
        got, remedy = skipped.instead(paths[0], " without any")
        raise refusal("path", said.owner, "lead to images", got, remedy)
    distinct = list(dict.fromkeys(ids))
    again = len(ids) - len(distinct)
    notes = [f"{again:,} of the {len(ids):,} paths were named before, and are read once."] if again else []
    return _unlabelled(distinct, Files(distinct, root=root), [*notes, *skipped.notes()])


def _unlabelled(ids: list[str], images: ImageSource, notes: list[str]) -> Dataset:
    count = f"{len(ids):,} image{'' if len(ids) == 1 else 's'} to predict."
    return Dataset(Labels([]), None, ids, images=images, notes=[*notes, count])
