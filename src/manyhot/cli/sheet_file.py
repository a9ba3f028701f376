"""The contact sheet of `manyhot search` as a file: its name, what it may replace, and who shows it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from manyhot.cli.options import free_path
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from PIL import Image

    from manyhot.search.found import Found

ENDINGS = (".jpg", ".jpeg", ".png")
MARK = "manyhot search"


def make_sheet(found: Found, roots: Sequence[Path], path: Path | None) -> Path:
    """Draws and writes the contact sheet of what was found; where it is."""
    from manyhot.search.sheet import contact_sheet
    from manyhot.search.showing import expected_words, file_stem, hits_words

    path = default_sheet(file_stem(found.query)) if path is None else path
    words = [hits_words(found)] if found.expected is None else [expected_words(found.expected), hits_words(found)]
    write_sheet(contact_sheet(found.hits, title=found.query, subtitle=" ".join(words), root=roots), path)
    return path


def make_if_possible(found: Found, roots: Sequence[Path], *, rooted: bool) -> Path | None:
    """The sheet that nobody asked for: only if there are images, in a folder where files may be written."""
    from manyhot.search.places import find

    if not any(find(hit.path or hit.id, roots) for hit in found.hits):
        if any(hit.path for hit in found.hits):
            where = "below that root" if rooted else "where the table says. Name their folder with --root"
            typer.echo(f"No contact sheet: the images are not {where}.", err=True)
        return None
    if importlib.util.find_spec("PIL") is None:
        typer.echo("No contact sheet: it needs Pillow. Install it with: pip install 'manyhot[search]'", err=True)
        return None
    if not os.access(".", os.W_OK | os.X_OK):
        typer.echo("No contact sheet: you may not write here. Name a file with --sheet.", err=True)
        return None
    return make_sheet(found, roots, None)


def check_sheet(path: Path, *, overwrite: bool) -> None:
    """Refuses a file of another form, or one that is there and was not written by a search."""
    if path.suffix.lower() not in ENDINGS:
        rule = f"end with {', '.join(ENDINGS)}"
        raise refusal("--sheet", "manyhot search", rule, repr(str(path)), "Rename it, for example found.jpg.")
    free_path(path, overwrite=overwrite or is_sheet(path), option="--sheet")


def default_sheet(stem: str) -> Path:
    """The name in this folder for the sheet of a query; an older sheet is replaced, any other file is not."""
    for number in count(1):
        path = Path(f"{stem}{'' if number == 1 else f'-{number}'}.jpg")
        if not os.path.lexists(path) or is_sheet(path):
            return path
    raise AssertionError("there are numbers enough")


def is_sheet(path: Path) -> bool:
    """Whether a file is a contact sheet that a search wrote."""
    if not path.is_file():
        return False
    from manyhot.search.tiles import import_pillow

    pillow = import_pillow()
    try:
        with pillow.Image.open(path, formats=("JPEG", "PNG")) as image:
            note = image.info.get("comment", image.info.get("Software"))
    except (OSError, SyntaxError, ValueError):
        return False
    return note in (MARK, MARK.encode())


def write_sheet(image: Image.Image, path: Path) -> None:
    """Writes the picture, marked so that the next search knows it for its own."""
    from PIL.PngImagePlugin import PngInfo

    from manyhot.files import whole_file

    with whole_file(path) as part:
        if path.suffix.lower() == ".png":
            note = PngInfo()
            note.add_text("Software", MARK)
            image.save(part, format="PNG", pnginfo=note)
        else:
            image.save(part, format="JPEG", quality=88, comment=MARK.encode())


def show_sheet(path: Path) -> bool:
    """Opens the picture with the viewer of this machine; whether there is one."""
    if sys.platform == "win32":
        os.startfile(path)
        return True
    display = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    viewer = shutil.which("open" if sys.platform == "darwin" else "xdg-open")
    if not display or viewer is None:
        return False
    quiet = subprocess.DEVNULL
    subprocess.Popen([viewer, str(path.absolute())], stdin=quiet, stdout=quiet, stderr=quiet, start_new_session=True)
    return True
