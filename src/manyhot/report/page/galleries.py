"""The sections of single samples: probable mistakes of the table, surprises, the worst and the best predictions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from manyhot.report.page import examples
from manyhot.report.page.cards import Sight, as_drawing, look_at, make_card
from manyhot.report.page.examples import Against, Pick
from manyhot.report.page.gathering import Subject
from manyhot.report.page.pieces import Drawing, Gallery, Section
from manyhot.report.page.shares import counted

# Cards of one kind.
CARDS = 8


class Kind(NamedTuple):
    """A reason to show samples."""

    key: str
    title: str
    words: str
    pick: Callable[..., list[Pick]]
    against: Callable[[Subject], Against] | None = None


ERRORS = (
    Kind(
        "confident-but-unlabelled",
        "Confident, but not labelled",
        "The model is at least 90 % sure of a label that the table does not have, the surest first. Either the label "
        "was forgotten, or the model is badly wrong.",
        examples.unlabelled,
        examples.sure_of,
    ),
    Kind(
        "labelled-but-impossible",
        "Labelled, but held impossible",
        "The table has a label that the model all but rules out, with 5 % at the most, the least probable first. "
        "Either the label is wrong, or what it names is hard to see.",
        examples.impossible,
        examples.ruled_out,
    ),
)
OTHERS = (
    Kind(
        "most-surprising",
        "Most surprising",
        "Taken as a whole, what the table says is far less likely than the doubts of the model allow for.",
        examples.surprising,
    ),
    Kind("worst", "Worst", "The most labels that are wrong, given or missed.", examples.worst),
    Kind("best", "Best", "All labels found and none too many, where there were the most to find.", examples.best),
)


def picture_sections(subjects: Sequence[Subject], *, pictures: bool, cards: int = CARDS) -> list[Section]:
    """Probable mistakes of the table, then other samples; of the first subject, if there are several."""
    subject = subjects[0]
    if subject.probs is None:
        words = "Left out: to tell which predictions are surprising takes probabilities. Run calibrate."
        return [Section("pictures", "Single predictions", [words])]
    chosen, seen = {}, set[int]()
    for kind in (*ERRORS, *OTHERS):
        # What was shown already is not shown again: there is more to see in another one.
        chosen[kind] = kind.pick(subject, cards, seen)
        seen |= {pick.row for pick in chosen[kind]}
    sight = look_at(subject, sorted(seen)) if pictures and seen else Sight({})
    make = partial(make_section, subject, chosen, sight)
    notes = [f"Those of {subject.name}."] if len(subjects) > 1 else []
    return [
        make(
            "annotation-errors",
            "Probable annotation errors",
            ERRORS,
            [f"Where model and table disagree most. Look at these {subject.noun}s first.", *notes, *lost(sight)],
        ),
        make(
            "predictions",
            "Surprising, worst and best predictions",
            OTHERS,
            [f"Only {subject.noun}s that are not shown above.", *notes],
        ),
    ]


def make_section(
    subject: Subject,
    chosen: dict[Kind, list[Pick]],
    sight: Sight,
    key: str,
    title: str,
    kinds: Sequence[Kind],
    words: list[str],
) -> Section:
    """The galleries of some kinds; one without samples says so."""
    galleries, drawings = list[Gallery](), list[Drawing]()
    for kind in kinds:
        picks = chosen[kind]
        said = [kind.words if picks else "There is none.", *expectation(subject, kind)]
        galleries.append(Gallery(kind.key, kind.title, said, [make_card(subject, pick, sight) for pick in picks]))
        if picks:
            drawings.append(as_drawing(kind.key, kind.title, subject, picks, sight))
    return Section(key, title, words, drawings=drawings, galleries=galleries)


def expectation(subject: Subject, kind: Kind) -> list[str]:
    """How many such cells there are, and how many the promises themselves let expect."""
    if kind.against is None:
        return []
    found = kind.against(subject)
    count = int(found.cells.sum())
    told = f"{found.expected:,.0f}" if found.expected >= 10 else f"{found.expected:.1f}"
    many = f"There {'is' if count == 1 else 'are'} {counted(count, 'such cell')}; " if count else ""
    return [f"{many}{'i' if many else 'I'}f all promises held and the table were right, {told} would be expected."]


def lost(sight: Sight) -> list[str]:
    """What to do where no picture was found."""
    if not sight.pictures or sight.missing < len(sight.pictures):
        return []
    return ["None of the pictures was found. Name the folder that their paths begin in with --root."]
