"""`manyhot search`: images by what is in them and what is not."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options, sheet_file
from manyhot.cli.options import JsonOption, Kind, KindOption, OverwriteOption
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.search.collection import Collection
    from manyhot.search.found import Found, Hit

OWNER = "manyhot search"
SHOWN = 200  # rows of the table on the screen
FOREIGN = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".npz", ".npy")  # what must be read as a whole

CollectionArgument = Annotated[
    str,
    typer.Argument(
        metavar="PREDICTIONS", help="A run, a table of predictions, a folder of parts or a pattern; also CSV or NPZ."
    ),
]
QueryArgument = Annotated[
    str, typer.Argument(metavar="QUERY", help="Labels joined by & (and), | (or), ! (not) and brackets.")
]
CountOption = Annotated[int | None, typer.Option("-k", min=1, help="How many images to find (default: 20).")]
PrecisionOption = Annotated[
    float | None,
    typer.Option("--until-precision", metavar="SHARE", help="Go on while this share of them is expected to match."),
]
RecallOption = Annotated[
    float | None,
    typer.Option("--until-recall", metavar="SHARE", help="Go on until this share of all expected matches is found."),
]
SplitOption = Annotated[str | None, typer.Option("--split", help="Only rows of this split.")]
SheetOption = Annotated[
    Path | None,
    typer.Option("--sheet", metavar="FILE", help="The contact sheet, .jpg or .png (default: named after the query)."),
]
NoSheetOption = Annotated[bool, typer.Option("--no-sheet", help="Write no contact sheet.")]
OpenOption = Annotated[bool, typer.Option("--open", help="Show the contact sheet.")]
RootOption = Annotated[
    Path | None,
    typer.Option("--root", help="Where relative paths begin (default: here, beside PREDICTIONS, or a run's data)."),
]
PathsOption = Annotated[bool, typer.Option("--paths", help="Print nothing but paths, one a line.")]
NullOption = Annotated[bool, typer.Option("--null", "-0", help="The same with a zero byte after each, for xargs -0.")]
SqlOption = Annotated[bool, typer.Option("--sql", help="Print the SQL statement instead of running it.")]


def search(
    predictions: CollectionArgument,
    query: QueryArgument,
    k: CountOption = None,
    until_precision: PrecisionOption = None,
    until_recall: RecallOption = None,
    split: SplitOption = None,
    kind: KindOption = None,
    sheet: SheetOption = None,
    no_sheet: NoSheetOption = False,
    open_sheet: OpenOption = False,
    root: RootOption = None,
    paths: PathsOption = False,
    null: NullOption = False,
    sql: SqlOption = False,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Find images by what is in them and what is not, the most probable first.

    [b]Examples[/b]

    manyhot search runs/photos 'fork & apple & !knife'

    manyhot search tagged.parquet "dog and not (beach or park)" -k 50 --open

    manyhot search "parts/*.parquet" "only(cat, sofa) | count >= 5" --until-precision 0.8

    manyhot search tagged.parquet "none" --until-recall 0.95 -0 | xargs -0 cp -t untagged/
    """
    paths = paths or null
    refuse_together({"--until-precision": until_precision, "--until-recall": until_recall})
    refuse_together({"--json": as_json, "--paths": paths, "--sql": sql})
    for name, value in {"--no-sheet": no_sheet, "--sql": sql}.items():
        refuse_together({name: value, "--sheet": sheet})
        refuse_together({name: value, "--open": open_sheet})
    check_shares({"--until-precision": until_precision, "--until-recall": until_recall})
    check_places(root, sheet, overwrite=overwrite)
    wanted = 20 if k is None and until_precision is None and until_recall is None else k
    collection = open_collection(predictions, split, kind)
    if sql:
        typer.echo(collection.sql(query, k=wanted, precision=until_precision, recall=until_recall))
        return
    found = collection.search(query, k=wanted, precision=until_precision, recall=until_recall, expect=not paths)
    roots = folders(predictions, root, found.hits)
    if paths:
        print_paths(found.hits, roots, null=null)
    elif not as_json:
        show(found)
    written = None
    if sheet is not None or open_sheet:
        written = sheet_file.make_sheet(found, roots, sheet)
    elif not (no_sheet or paths or as_json):
        written = sheet_file.make_if_possible(found, roots, rooted=root is not None)
    if as_json:
        typer.echo(json.dumps(as_object(found, written), ensure_ascii=False, allow_nan=False))
    elif written is not None:
        typer.echo(f"Contact sheet: {written}", err=paths)
    if open_sheet and written is not None and not sheet_file.show_sheet(written):
        typer.echo(f"Nothing here shows pictures; the contact sheet is {written.absolute()}.", err=True)


def refuse_together(options: Mapping[str, object]) -> None:
    """Refuses two options that contradict each other."""
    given = [name for name, value in options.items() if value is not None and value is not False]
    if len(given) > 1:
        raise refusal(given[1], OWNER, f"come without {given[0]}", "both", "Leave one of them out.")


def check_shares(options: Mapping[str, float | None]) -> None:
    """Refuses goals that are no shares."""
    for name, share in options.items():
        if share is not None and not 0 < share <= 1:
            raise refusal(name, OWNER, "be above 0 and at most 1", f"{share:g}", "Pass 0.9 for 90 %.")


def check_places(root: Path | None, sheet: Path | None, *, overwrite: bool) -> None:
    """Refuses a root that is no folder, and a sheet that would replace something else."""
    if root is not None and not root.is_dir():
        raise refusal("--root", OWNER, "be a folder", repr(str(root)), "Name the folder that the paths begin in.")
    if sheet is not None:
        sheet_file.check_sheet(sheet, overwrite=overwrite)


def open_collection(predictions: str, split: str | None, kind: Kind | None) -> Collection:
    """What is to be searched; tables of other programs are read as a whole."""
    from manyhot.search.collection import Collection

    if kind is None and not predictions.lower().endswith(FOREIGN):
        return Collection.open(predictions, split=split, keep=0)
    tell = options.console()
    table = options.open_table(predictions, kind, None, tell)
    return Collection.of(table if split is None else table.of_split(split))


def folders(predictions: str, root: Path | None, hits: Sequence[Hit]) -> list[Path]:
    """Where relative paths may begin, the likeliest folder first."""
    from manyhot.search.places import likeliest_first
    from manyhot.search.roots import roots_of

    if root is not None:
        return [root]
    return likeliest_first(roots_of(predictions), [hit.path or hit.id for hit in hits[:SHOWN]])


def print_paths(hits: Sequence[Hit], roots: Sequence[Path], *, null: bool) -> None:
    """The paths as they lead from here, for other programs; ids where the table has no paths."""
    from manyhot.search.places import find
    from manyhot.terminal import printable

    lost = 0
    for hit in hits:
        path = hit.path or hit.id
        place = find(path, roots)
        lost += place is None and hit.path is not None
        if place is not None:
            path = f"{place[0]}/{place[1]}" if place[1] else str(place[0])
        if sys.stdout.isatty() and not null:
            typer.echo(printable(path))
        else:
            # As bytes, since a path may hold what is no text.
            typer.echo(os.fsencode(path) + (b"\0" if null else b"\n"), nl=False)
    if lost:
        remedy = "Name the folder that they begin in with --root."
        typer.echo(f"{lost:,} of {len(hits):,} images are not where the table says. {remedy}", err=True)


def show(found: Found) -> None:
    """The hits as a table for people, and what is to be expected of them in words."""
    from manyhot.search.showing import expected_words, hits_words
    from manyhot.terminal import percent_of_log, printable

    if found.hits:
        texts = [percent_of_log(hit.log_prob) for hit in found.hits[:SHOWN]]
        width = max(len("probability"), *map(len, texts))
        named = "path" if any(hit.path for hit in found.hits) else "id"
        typer.secho(f"rank  {'probability':>{width}}  {named}", bold=True)
        # Not a table that is fitted to the screen: a path that is cut or folded cannot be copied.
        for rank, (hit, text) in enumerate(zip(found.hits, texts, strict=False), start=1):
            typer.echo(f"{rank:>4}  {text:>{width}}  {printable(hit.path or hit.id)}")
    if len(found.hits) > SHOWN:
        typer.echo(f"and {len(found.hits) - SHOWN:,} more; --paths prints all of them.")
    if found.expected is not None:
        typer.echo(expected_words(found.expected))
    typer.echo(hits_words(found))


def as_object(found: Found, sheet: Path | None) -> dict[str, Any]:
    """The answer for programs; null for what is not a number."""
    return {
        "query": found.query,
        "hits": [{name: finite(value) for name, value in asdict(hit).items()} for hit in found.hits],
        "expected": None if found.expected is None else asdict(found.expected),
        "precision": finite(found.precision),
        "recall": finite(found.recall),
        "sheet": None if sheet is None else str(sheet),
    }


def finite(value: Any) -> Any:
    """The value, or None for a number that JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
