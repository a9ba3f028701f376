"""The page from its first section to its last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from manyhot.report.page.beyond import no_labels, search
from manyhot.report.page.choosing import scores, sizes, thresholds
from manyhot.report.page.comparing import comparison
from manyhot.report.page.course import history, normaliser
from manyhot.report.page.galleries import picture_sections
from manyhot.report.page.gathering import Subject
from manyhot.report.page.honest import reliability
from manyhot.report.page.labels import every_label, together
from manyhot.report.page.pieces import Section
from manyhot.report.page.summary import summary
from manyhot.training.run import CONFIG

Part = Callable[[Sequence[Subject]], Section | None]
# In this order after the pictures; each says nothing where it does not apply.
AFTER: tuple[Part, ...] = (
    reliability,
    thresholds,
    scores,
    sizes,
    normaliser,
    history,
    together,
    every_label,
    no_labels,
    search,
)
# Those that tell of training, not of the judged rows.
TRAINING: tuple[Part, ...] = (normaliser, history)


def contents(subjects: Sequence[Subject], *, pictures: bool) -> list[Section]:
    """All sections. Who compares looks at the comparison first, and at single pictures after it.

    Where there are too few rows to judge by, none that judges.
    """
    small = any(subject.evaluation.too_small for subject in subjects)
    found: list[Section | None] = [summary(subjects), None if small else comparison(subjects)]
    found += picture_sections(subjects, pictures=pictures)
    found += [part(subjects) for part in AFTER if not small or part in TRAINING]
    found.append(settings(subjects))
    return [section for section in found if section is not None]


def settings(subjects: Sequence[Subject]) -> Section | None:
    """The settings of the runs, as they are in their folders."""
    code = {
        f"{CONFIG} of {subject.name}": (subject.run.folder / CONFIG).read_text(encoding="utf-8")
        for subject in subjects
        if subject.run is not None
    }
    return Section("settings", "Settings", code=code) if code else None
