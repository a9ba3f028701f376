"""`manyhot search`, and the contact sheet of its results."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer import Argument, Option

from manyhot.cli.console import open_file, print_json, print_notes
from manyhot.cli.options import JSON, OVERWRITE, Command, Kind, TableCommand, check_output_path
from manyhot.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.search.collection import Collection, Hit, SearchResult

MAX_PRINTED = 200  # rows of the table on the screen
FOREIGN_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".npz", ".npy")  # what must be read as a whole
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


class SearchCommand(Command):
    """Find images by labels that are present or absent, the most probable first.

    [b]Examples[/b]

    manyhot search runs/photos 'fork & apple & !knife'

    manyhot search tagged.parquet "dog and not (beach or park)" -k 50 --open

    manyhot search "parts/*.parquet" "only(cat, sofa) | count >= 5" --until-precision 0.8

    manyhot search tagged.parquet "none" --until-recall 0.95 -0 | xargs -0 cp -t untagged/
    """

    predictions: str = Argument(
        metavar="PREDICTIONS", help="A run, a table of predictions, a folder of parts or a pattern; also CSV or NPZ."
    )
    query: str = Argument(metavar="QUERY", help="Labels joined by & (and), | (or), ! (not) and brackets.")
    k: int | None = Option(None, "-k", min=1, help="How many images to find (default: 20).")
    until_precision: float | None = Option(None, metavar="SHARE", help="Go on while this share is expected to match.")
    until_recall: float | None = Option(None, metavar="SHARE", help="Go on to this share of all expected matches.")
    split: str | None = Option(None, help="Only rows of this split.")
    kind: Kind | None = TableCommand.kind
    contact_sheet: Path | None = Option(
        None, "--sheet", metavar="FILE", help="The contact sheet, .jpg or .png (default: named after the query)."
    )
    no_contact_sheet: bool = Option(False, "--no-sheet", help="Write no contact sheet.")
    open_contact_sheet: bool = Option(False, "--open", help="Show the contact sheet.")
    root: Path | None = Option(
        None,
        exists=True,
        file_okay=False,
        help="Where relative paths begin (default: here, beside PREDICTIONS, or a run's data).",
    )
    paths: bool = Option(False, "--paths", help="Print nothing but paths, one a line.")
    null: bool = Option(False, "--null", "-0", help="The same with a zero byte after each, for xargs -0.")
    sql: bool = Option(False, "--sql", help="Print the SQL statement instead of running it.")
    overwrite: bool = OVERWRITE
    as_json: bool = JSON

    def execute(self) -> None:
        """Searches, prints what was found, and writes the contact sheet."""
        self.paths = self.paths or self.null
        check_exclusive({"--until-precision": self.until_precision, "--until-recall": self.until_recall})
        check_exclusive({"--json": self.as_json, "--paths": self.paths, "--sql": self.sql})
        for name, value in {"--no-sheet": self.no_contact_sheet, "--sql": self.sql}.items():
            check_exclusive({name: value, "--sheet": self.contact_sheet})
            check_exclusive({name: value, "--open": self.open_contact_sheet})
        if self.contact_sheet is not None:
            overwrite = self.overwrite or is_contact_sheet(self.contact_sheet)
            check_output_path(self.contact_sheet, "--sheet", overwrite=overwrite, suffixes=IMAGE_SUFFIXES)
        collection, goals = self.open_collection(), {"precision": self.until_precision, "recall": self.until_recall}
        k = 20 if self.k is None and self.until_precision is None and self.until_recall is None else self.k
        if self.sql:
            typer.echo(collection.sql(self.query, k=k, **goals))
            return
        result = collection.search(self.query, k=k, **goals, expect=not self.paths)
        roots = self.image_folders(result.hits)
        if self.paths:
            print_paths(result.hits, roots, null=self.null)
        elif not self.as_json:
            print_result(result)
        written = self.write_contact_sheet(result, roots)
        if self.as_json:
            content = json.loads(json.dumps(asdict(result)), parse_constant=lambda _: None)  # null for NaN, infinities
            print_json(content | {"sheet": None if written is None else str(written)}, ensure_ascii=False)
        elif written is not None:
            typer.echo(f"Contact sheet: {written}", err=self.paths)
        if self.open_contact_sheet and written is not None:
            open_file(written, "image viewer", "contact sheet")

    def open_collection(self) -> Collection:
        """The collection to search; tables of other programs are read into memory."""
        from manyhot.search.collection import Collection

        if self.kind is None and not self.predictions.lower().endswith(FOREIGN_SUFFIXES):
            return Collection.open(self.predictions, split=self.split, cache_bytes=0)
        from manyhot.predictions import read_predictions

        table = read_predictions(self.predictions, kind=self.kind)
        print_notes(*table.notes)
        return Collection.of(table if self.split is None else table.of_split(self.split))

    def image_folders(self, hits: Sequence[Hit]) -> list[Path]:
        """The folders that relative paths may start from, the likeliest first."""
        from manyhot.image_paths import find_image_roots, sort_image_roots

        if self.root is not None:
            return [self.root]
        return sort_image_roots(find_image_roots(self.predictions), [hit.path or hit.id for hit in hits[:MAX_PRINTED]])

    def write_contact_sheet(self, result: SearchResult, roots: Sequence[Path]) -> Path | None:
        """Writes the contact sheet if it was asked for, or else if there are images and this folder is writable."""
        from manyhot.image_paths import find_image_file

        if self.contact_sheet is not None or self.open_contact_sheet:
            return make_contact_sheet(result, roots, self.contact_sheet)
        if self.no_contact_sheet or self.paths or self.as_json:
            return None
        if not any(find_image_file(hit.path or hit.id, roots) for hit in result.hits):
            if not any(hit.path for hit in result.hits):
                return None
            where = "where the table says. Name their folder with --root" if self.root is None else "below that root"
            why = f"the images are not {where}."
        elif importlib.util.find_spec("PIL") is None:
            why = "it needs Pillow. Install it with: pip install 'manyhot[search]'"
        elif not os.access(".", os.W_OK | os.X_OK):
            why = "you may not write here. Name a file with --sheet."
        else:
            return make_contact_sheet(result, roots, None)
        typer.echo(f"No contact sheet: {why}", err=True)
        return None


def check_exclusive(options: dict[str, object]) -> None:
    """Rejects two options that exclude each other."""
    used = [name for name, value in options.items() if value is not None and value is not False]
    if len(used) > 1:
        raise InputError(used[1], "", f"come without {used[0]}", "both", "Leave one of them out.")


def print_paths(hits: Sequence[Hit], roots: Sequence[Path], *, null: bool) -> None:
    """Prints the paths relative to this folder, for other programs; ids where the table has no paths."""
    from manyhot.formatting import printable
    from manyhot.image_paths import find_image_file

    lost = 0
    for hit in hits:
        path = hit.path or hit.id
        location = find_image_file(path, roots)
        lost += location is None and hit.path is not None
        if location is not None:
            path = f"{location[0]}/{location[1]}" if location[1] else str(location[0])
        if sys.stdout.isatty() and not null:
            typer.echo(printable(path))
        else:
            # As bytes, because a path may not be valid UTF-8.
            typer.echo(os.fsencode(path) + (b"\0" if null else b"\n"), nl=False)
    if lost:
        hint = "Name the folder that they begin in with --root."
        typer.echo(f"{lost:,} of {len(hits):,} images are not where the table says. {hint}", err=True)


def print_result(result: SearchResult) -> None:
    """Prints the hits as a table, and a summary of the expected matches."""
    from manyhot.formatting import format_log_prob, printable
    from manyhot.search.summary import describe_expected, describe_hits

    if result.hits:
        probability_texts = [format_log_prob(hit.log_prob) for hit in result.hits[:MAX_PRINTED]]
        width = max(len("probability"), *map(len, probability_texts))
        named = "path" if any(hit.path for hit in result.hits) else "id"
        typer.secho(f"rank  {'probability':>{width}}  {named}", bold=True)
        # Not a table fitted to the screen: a truncated path could not be copied.
        for rank, (hit, text) in enumerate(zip(result.hits, probability_texts, strict=False), start=1):
            typer.echo(f"{rank:>4}  {text:>{width}}  {printable(hit.path or hit.id)}")
    if len(result.hits) > MAX_PRINTED:
        typer.echo(f"and {len(result.hits) - MAX_PRINTED:,} more; --paths prints all of them.")
    if result.expected is not None:
        typer.echo(describe_expected(result.expected))
    typer.echo(describe_hits(result))


GENERATOR = "manyhot search"  # by which the next search recognises its contact sheets


def make_contact_sheet(result: SearchResult, roots: Sequence[Path], path: Path | None) -> Path:
    """Draws and writes the contact sheet of a result; returns its path."""
    from manyhot.search.contact_sheet import contact_sheet
    from manyhot.search.summary import describe_expected, describe_hits, file_stem

    stem = file_stem(result.query)
    free = (Path(f"{stem}{end}.jpg") for end in chain([""], (f"-{number}" for number in count(2))))
    # An older sheet is replaced, any other file is not.
    path = path or next(one for one in free if not os.path.lexists(one) or is_contact_sheet(one))
    expected = "" if result.expected is None else f"{describe_expected(result.expected)} "
    subtitle = expected + describe_hits(result)
    write_contact_sheet(contact_sheet(result.hits, title=result.query, subtitle=subtitle, root=roots), path)
    return path


def is_contact_sheet(path: Path) -> bool:
    """Whether a file is a contact sheet that a search wrote."""
    if not path.is_file():
        return False
    from manyhot.images import import_pillow

    try:
        with import_pillow("Contact sheets").Image.open(path, formats=("JPEG", "PNG")) as image:
            return image.info.get("comment", image.info.get("Software")) in (GENERATOR, GENERATOR.encode())
    except (OSError, SyntaxError, ValueError):
        return False


def write_contact_sheet(image: Image.Image, path: Path) -> None:
    """Writes the contact sheet, with a comment by which the next search recognises it."""
    from PIL.PngImagePlugin import PngInfo

    from manyhot.files import atomic_write

    with atomic_write(path) as part:
        if path.suffix.lower() == ".png":
            note = PngInfo()
            note.add_text("Software", GENERATOR)
            image.save(part, format="PNG", pnginfo=note)
        else:
            image.save(part, format="JPEG", quality=88, comment=GENERATOR.encode())
