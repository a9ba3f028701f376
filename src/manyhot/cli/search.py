"""`manyhot search`, and the contact sheet of its results."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import chain, count
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyhot.cli.console import error_console, open_file, print_json
from manyhot.cli.options import JsonOption, Kind, KindOption, OverwriteOption, check_output_path, open_table
from manyhot.errors import InputError

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.search.collection import Collection, Hit, SearchResult

OWNER = "manyhot search"
MAX_PRINTED = 200  # rows of the table on the screen
FOREIGN_SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".npz", ".npy")  # what must be read as a whole

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")


def search(
    predictions: Annotated[
        str,
        typer.Argument(
            metavar="PREDICTIONS",
            help="A run, a table of predictions, a folder of parts or a pattern; also CSV or NPZ.",
        ),
    ],
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="Labels joined by & (and), | (or), ! (not) and brackets.")
    ],
    k: Annotated[int | None, typer.Option("-k", min=1, help="How many images to find (default: 20).")] = None,
    until_precision: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Go on while this share of them is expected to match.")
    ] = None,
    until_recall: Annotated[
        float | None, typer.Option(metavar="SHARE", help="Go on until this share of all expected matches is found.")
    ] = None,
    split: Annotated[str | None, typer.Option(help="Only rows of this split.")] = None,
    kind: KindOption = None,
    contact_sheet_path: Annotated[
        Path | None,
        typer.Option(
            "--sheet", metavar="FILE", help="The contact sheet, .jpg or .png (default: named after the query)."
        ),
    ] = None,
    no_contact_sheet: Annotated[bool, typer.Option("--no-sheet", help="Write no contact sheet.")] = False,
    open_contact_sheet: Annotated[bool, typer.Option("--open", help="Show the contact sheet.")] = False,
    root: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            file_okay=False,
            help="Where relative paths begin (default: here, beside PREDICTIONS, or a run's data).",
        ),
    ] = None,
    paths: Annotated[bool, typer.Option("--paths", help="Print nothing but paths, one a line.")] = False,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="The same with a zero byte after each, for xargs -0.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Print the SQL statement instead of running it.")] = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find images by labels that are present or absent, the most probable first.

    [b]Examples[/b]

    manyhot search runs/photos 'fork & apple & !knife'

    manyhot search tagged.parquet "dog and not (beach or park)" -k 50 --open

    manyhot search "parts/*.parquet" "only(cat, sofa) | count >= 5" --until-precision 0.8

    manyhot search tagged.parquet "none" --until-recall 0.95 -0 | xargs -0 cp -t untagged/
    """
    paths = paths or null
    check_exclusive({"--until-precision": until_precision, "--until-recall": until_recall})
    check_exclusive({"--json": as_json, "--paths": paths, "--sql": sql})
    for name, value in {"--no-sheet": no_contact_sheet, "--sql": sql}.items():
        check_exclusive({name: value, "--sheet": contact_sheet_path})
        check_exclusive({name: value, "--open": open_contact_sheet})
    if contact_sheet_path is not None:
        path, overwrite = contact_sheet_path, overwrite or is_contact_sheet(contact_sheet_path)
        check_output_path(path, "--sheet", OWNER, overwrite=overwrite, suffixes=IMAGE_SUFFIXES, example="found.jpg")
    wanted = 20 if k is None and until_precision is None and until_recall is None else k
    collection = open_collection(predictions, split, kind)
    if sql:
        typer.echo(collection.sql(query, k=wanted, precision=until_precision, recall=until_recall))
        return
    result = collection.search(query, k=wanted, precision=until_precision, recall=until_recall, expect=not paths)
    roots = image_folders(predictions, root, result.hits)
    if paths:
        print_paths(result.hits, roots, null=null)
    elif not as_json:
        print_result(result)
    written = None
    if contact_sheet_path is not None or open_contact_sheet:
        written = make_contact_sheet(result, roots, contact_sheet_path)
    elif not (no_contact_sheet or paths or as_json):
        written = try_contact_sheet(result, roots, rooted=root is not None)
    if as_json:
        content = json.loads(json.dumps(asdict(result)), parse_constant=lambda _: None)  # null for NaN and infinities
        print_json(content | {"sheet": None if written is None else str(written)}, ensure_ascii=False)
    elif written is not None:
        typer.echo(f"Contact sheet: {written}", err=paths)
    if open_contact_sheet and written is not None:
        open_file(written, "image viewer", "contact sheet")


def check_exclusive(options: Mapping[str, object]) -> None:
    """Rejects two options that exclude each other."""
    used = [name for name, value in options.items() if value is not None and value is not False]
    if len(used) > 1:
        raise InputError(used[1], OWNER, f"come without {used[0]}", "both", "Leave one of them out.")


def open_collection(predictions: str, split: str | None, kind: Kind | None) -> Collection:
    """The collection to search; tables of other programs are read into memory."""
    from manyhot.search.collection import Collection

    if kind is None and not predictions.lower().endswith(FOREIGN_SUFFIXES):
        return Collection.open(predictions, split=split, cache_bytes=0)
    table = open_table(predictions, kind, None, error_console())
    return Collection.of(table if split is None else table.of_split(split))


def image_folders(predictions: str, root: Path | None, hits: Sequence[Hit]) -> list[Path]:
    """The folders that relative paths may start from, the likeliest first."""
    from manyhot.image_paths import find_image_roots, sort_image_roots

    if root is not None:
        return [root]
    return sort_image_roots(find_image_roots(predictions), [hit.path or hit.id for hit in hits[:MAX_PRINTED]])


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


def try_contact_sheet(result: SearchResult, roots: Sequence[Path], *, rooted: bool) -> Path | None:
    """Writes the default contact sheet, but only if there are images and this folder is writable."""
    from manyhot.image_paths import find_image_file

    if not any(find_image_file(hit.path or hit.id, roots) for hit in result.hits):
        if not any(hit.path for hit in result.hits):
            return None
        where = "below that root" if rooted else "where the table says. Name their folder with --root"
        why = f"the images are not {where}."
    elif importlib.util.find_spec("PIL") is None:
        why = "it needs Pillow. Install it with: pip install 'manyhot[search]'"
    elif not os.access(".", os.W_OK | os.X_OK):
        why = "you may not write here. Name a file with --sheet."
    else:
        return make_contact_sheet(result, roots, None)
    typer.echo(f"No contact sheet: {why}", err=True)
    return None


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
