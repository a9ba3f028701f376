"""The report of runs or tables: one page that needs nothing else, and its figures."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from manyhot.files import whole_file
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyhot.report.page.gathering import Subject
    from manyhot.report.page.pieces import Drawing, Section

OWNER = "Report"
Places = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


class Report:
    """Everything that is worth seeing of a run, of a table of predictions with targets, or of several side by side.

    A notebook shows it by itself. The same runs give the same page, byte for byte.

    Args:
        runs: A `Run`, a table of predictions of any model, or the path of one of them; several as a list, or as a
            mapping from the names that they are to have.
        split: The split to judge; by default "test", or all rows of a table without one.
        root: The folder or folders that paths of pictures begin in; by default where the run's data lie, beside the
            table, or here.
        pictures: Whether to show pictures.

    Example:
        >>> table = mh.Predictions(probs=torch.rand(60, 3), targets=torch.randint(2, (60, 3)), labels=["a", "b", "c"])
        >>> report = Report({"my model": table})
        >>> [section.title for section in report.sections][:2]
        ['Summary', 'Probable annotation errors']
    """

    def __init__(
        self, runs: Any, *, split: str | None = None, root: Places | None = None, pictures: bool = True
    ) -> None:
        self.sources = named(runs)
        self.split, self.pictures = split, pictures
        places = [root] if isinstance(root, str | os.PathLike) else root
        self.root = None if places is None else [Path(place) for place in places]

    def __repr__(self) -> str:
        return f"Report({', '.join(map(repr, self.sources))})"

    @cached_property
    def subjects(self) -> list[Subject]:
        """The judged rows of each run or table, in memory."""
        from manyhot.report.page.gathering import gather

        return [gather(name, one, split=self.split, root=self.root) for name, one in self.sources.items()]

    @cached_property
    def sections(self) -> list[Section]:
        """What is on the page, before it is drawn."""
        from manyhot.report.page.contents import contents

        return contents(self.subjects, pictures=self.pictures)

    @property
    def drawings(self) -> list[Drawing]:
        """What can be drawn."""
        return [drawing for section in self.sections for drawing in section.drawings]

    def figures(self, *, dark: bool = False) -> dict[str, Figure]:
        """All figures by name, drawn now, for a light or a dark page; change them as you like."""
        from manyhot.report.page.writing import quiet

        with quiet():
            return {drawing.key: drawing.draw(dark) for drawing in self.drawings}

    def html(self, *, watch: Callable[[str], None] | None = None) -> str:
        """The page as one text, with all pictures in it.

        Args:
            watch: Called with the name of each figure before it is drawn.
        """
        from manyhot.report.page.summary import header
        from manyhot.report.page.writing import render

        return render(header(self.subjects), self.sections, watch)

    def save(self, path: str | os.PathLike[str], *, watch: Callable[[str], None] | None = None) -> Path:
        """Writes the page to a file, whole or not at all; returns where it is."""
        text = self.html(watch=watch)
        with whole_file(path) as part:
            part.write_text(text, encoding="utf-8")
        return Path(path)

    def save_pngs(
        self, folder: str | os.PathLike[str], *, dark: bool = False, watch: Callable[[str], None] | None = None
    ) -> list[Path]:
        """Writes one PNG file a figure into a folder; returns where they are."""
        from manyhot.report.page.writing import write_pngs

        return write_pngs(self.drawings, Path(folder), dark=dark, watch=watch)

    def save_pdf(
        self, path: str | os.PathLike[str], *, dark: bool = False, watch: Callable[[str], None] | None = None
    ) -> Path:
        """Writes all figures to one PDF, a page each; returns where it is."""
        from manyhot.report.page.writing import write_pdf

        write_pdf(self.drawings, Path(path), dark=dark, watch=watch)
        return Path(path)

    def _repr_html_(self) -> str:
        # A page of its own, or its style would dress the whole notebook.
        style = "width: 100%; height: 45rem; border: 0"
        return f'<iframe title="{escape(repr(self))}" style="{style}" srcdoc="{escape(self.html())}"></iframe>'


def write_report(
    runs: Any,
    path: str | os.PathLike[str],
    *,
    split: str | None = None,
    root: Places | None = None,
    pictures: bool = True,
) -> Path:
    """Writes the report of runs or tables to one HTML file that needs nothing else; returns where it is.

    Args:
        runs: As in `Report`.
        path: The file; one that is there is replaced.
        split: As in `Report`.
        root: As in `Report`.
        pictures: As in `Report`.

    Example:
        >>> import tempfile
        >>> table = mh.Predictions(probs=torch.rand(60, 1), targets=torch.randint(2, (60, 1)))
        >>> write_report(table, tempfile.mkdtemp() + "/report.html").name
        'report.html'
    """
    return Report(runs, split=split, root=root, pictures=pictures).save(path)


def named(runs: Any) -> dict[str, Any]:
    """What the report is about, by name."""
    if isinstance(runs, Mapping):
        found = dict(runs)
    elif isinstance(runs, list | tuple):
        found = dict(zip(different([name_of(one) for one in runs]), runs, strict=True))
    else:
        found = {name_of(runs): runs}
    if not found or not all(isinstance(name, str) and name for name in found):
        got = "none" if not found else "one without a name"
        raise refusal("runs", OWNER, "be runs or tables by name, at least one", got, 'Pass {"BCE": run}.')
    return found


def name_of(source: Any) -> str:
    """What a run or a table is called if nobody says: after its folder or file."""
    folder = getattr(source, "folder", source)
    if not isinstance(folder, str | os.PathLike):
        return "predictions"
    path = Path(folder)
    # `runs/last` leads to the run that was meant.
    path = path.resolve() if path.is_symlink() or not path.name.strip(".") else path
    stem = path.name if path.is_dir() else path.name.removesuffix(".gz").rsplit(".", 1)[0]
    return stem or "predictions"


def different(names: Sequence[str]) -> list[str]:
    """Names, the later ones with a number where they are the same.

    Example:
        >>> from manyhot.report.page.report import different
        >>> different(["bce", "spa", "bce"])
        ['bce', 'spa', 'bce (2)']
    """
    found: list[str] = []
    for name in names:
        shown, number = name, 2
        while shown in found:
            shown, number = f"{name} ({number})", number + 1
        found.append(shown)
    return found
