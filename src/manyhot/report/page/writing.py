"""The page as HTML, and its figures as PNG files and as one PDF."""

from __future__ import annotations

import base64
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot import __version__
from manyhot.files import whole_file
from manyhot.report.looks import as_png, save_png, usual_settings
from manyhot.report.page.marking import MARK
from manyhot.report.page.pieces import Bar, Drawing, Section
from manyhot.report.page.summary import Header
from manyhot.terminal import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Watch = Callable[[str], None]
# Enough for screens with twice the usual dots, at half the bytes of all of them.
DOTS_PER_INCH = 144
# What an inch of a figure is on the page.
PIXELS_PER_INCH = 96


@dataclass(frozen=True)
class Shown:
    """A figure as the page shows it: addresses of its light and its dark picture, and how wide and high it is."""

    key: str
    caption: str
    alt: str
    light: str
    dark: str
    width: int
    height: int


def render(header: Header, sections: Sequence[Section], watch: Watch | None = None) -> str:
    """The page, whole in one text."""
    environment = import_jinja2().Environment(
        loader=import_jinja2().PackageLoader("manyhot.report.page"),
        autoescape=True,
        undefined=import_jinja2().StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "sure": percent,
        "kind": kind_of_bar,
        "said": said_of_bar,
        "sign": sign_of_bar,
        "tied": tied,
    }
    drawings = [drawing for section in sections for drawing in section.drawings if drawing.on_page]
    shown = {drawing.key: show(drawing, watch) for drawing in drawings}
    style = environment.get_template("page.css").render()
    page: str = environment.get_template("page.html").render(
        header=header, sections=sections, shown=shown, style=style, mark=MARK, version=__version__
    )
    return page


def import_jinja2() -> Any:
    """Jinja, or the sentence that says how to get it."""
    try:
        import jinja2
    except ImportError:
        sentence = "The report needs jinja2. Install it with: pip install 'manyhot[report]'"
        raise ModuleNotFoundError(sentence, name="jinja2") from None
    return jinja2


def show(drawing: Drawing, watch: Watch | None = None) -> Shown:
    """A figure for the light and for the dark page."""
    if watch is not None:
        watch(drawing.key)
    with quiet():
        light = drawing.draw(False)
        light_png = as_png(light, dots_per_inch=DOTS_PER_INCH)
        dark = same_layout(light, drawing.draw(True))
        dark_png = as_png(dark, dots_per_inch=DOTS_PER_INCH)
    width, height = (round(PIXELS_PER_INCH * inches) for inches in light.get_size_inches())
    return Shown(drawing.key, drawing.caption, drawing.alt, as_address(light_png), as_address(dark_png), width, height)


def as_address(png: bytes) -> str:
    """A picture as a data address, which needs no request."""
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def same_layout(drawn: Figure, new: Figure) -> Figure:
    """The new figure with everything where it is in one that has been drawn: finding places takes half of the time."""
    if len(drawn.axes) == len(new.axes) and len(drawn.texts) == len(new.texts):
        new.set_layout_engine(None)
        for there, here in zip(drawn.axes, new.axes, strict=True):
            here.set_position(there.get_position(original=True), which="original")
        for text, same in zip(drawn.texts, new.texts, strict=True):
            same.set_position(text.get_position())
    return new


@contextmanager
def quiet() -> Iterator[None]:
    """Draws by the usual settings, and says nothing of letters that the font lacks: names come in all scripts."""
    with usual_settings(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def write_pngs(drawings: Sequence[Drawing], folder: Path, *, dark: bool, watch: Watch | None = None) -> list[Path]:
    """One PNG file a figure."""
    paths = []
    for drawing in drawings:
        if watch is not None:
            watch(drawing.key)
        path = folder / f"{drawing.key}.png"
        with quiet():
            save_png(drawing.draw(dark), path, dots_per_inch=DOTS_PER_INCH)
        paths.append(path)
    return paths


def write_pdf(drawings: Sequence[Drawing], path: Path, *, dark: bool, watch: Watch | None = None) -> None:
    """One PDF, a page a figure, without a date: the same report has the same bytes."""
    from matplotlib.backends.backend_pdf import PdfPages

    with quiet(), whole_file(path) as part, PdfPages(part, metadata={"CreationDate": None}) as pages:
        for drawing in drawings:
            if watch is not None:
                watch(drawing.key)
            pages.savefig(drawing.draw(dark))


def tied(text: str) -> str:
    """A text in which no line begins with a sign that belongs to the number before it."""
    return (
        text.replace(" %", "\N{NO-BREAK SPACE}%")
        .replace("< 0", "<\N{NO-BREAK SPACE}0")
        .replace("> 9", ">\N{NO-BREAK SPACE}9")
    )


def kind_of_bar(bar: Bar) -> str:
    """How a bar looks: filled where the label is given, hatched where that is wrong."""
    if bar.given:
        return "wrong" if bar.target == 0 else "given"
    return "missed" if bar.target > 0 else "left"


def sign_of_bar(bar: Bar) -> str:
    """What is true: a tick, a cross or a question mark."""
    return {1: "✓", 0: "✗"}.get(bar.target, "?")


def said_of_bar(bar: Bar) -> str:
    """The same in words, for those who cannot see signs."""
    truth = {1: "there", 0: "not there"}.get(bar.target, "unknown")
    return f"{'given' if bar.given else 'not given'}, {truth}"
