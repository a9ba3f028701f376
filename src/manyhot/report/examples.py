"""Single samples: the picture, and how sure the model is of its labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from manyhot.refusal import refusal
from manyhot.report.looks import Look, dress, look_of, new_figure
from manyhot.report.reading import check_keys, check_whole, is_finite
from manyhot.terminal import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_examples"
REMEDY = 'Pass {"picture": ..., "title": ..., "labels": [(name, prob, given, target), ...]}.'
# In inches: of a sample and what lies between two, of a picture, of a bar with its name, and of lines of text.
WIDTH, GAP, PICTURE, ROW, LINE, LEGEND = 2.8, 0.3, 2.0, 0.29, 0.2, 0.45
# In letters.
LONGEST_NAME, LONGEST_TITLE, LONGEST_NOTE = 26, 34, 42
# Bars of labels that are not given have nothing inside; those of false alarms are hatched as well.
SIGNS = {1: "✓", 0: "✗", -1: "?", None: ""}
HATCH = "////"
LEFT: dict[str, Any] = {"fontsize": 8, "ha": "left", "va": "center"}
RIGHT: dict[str, Any] = {"fontsize": 8, "ha": "right", "va": "center"}


class Said(NamedTuple):
    """What a model says of one label of a sample, and what is true: 1, 0, -1 unknown, None where nobody knows."""

    name: str
    prob: float
    given: bool
    target: int | None


class Example(NamedTuple):
    """One sample with what is said of it."""

    picture: Any
    title: str
    note: str
    labels: list[Said]


def draw_examples(examples: Sequence[Mapping[str, Any]], *, columns: int = 4, dark: bool = False) -> Figure:
    """Samples with bars for the probabilities of their labels: filled where a label is given, and a sign for the truth.

    A tick stands beside labels that are there, a cross beside those that are not, and a question mark beside unknown
    ones. A filled bar with a tick is right, a filled one with a cross a false alarm, an empty one with a tick a miss.

    Args:
        examples: Mappings with a "picture" (an image of Pillow or an array; None for none), a "title", a "note", and
            "labels": (name, probability, whether it is given, target: 1, 0, -1 or None) for each bar.
        columns: The most samples in a row.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_examples
        >>> labels = [("cat", 0.93, True, 1), ("dog", 0.41, False, 0)]
        >>> figure = draw_examples([{"picture": None, "title": "one.jpg", "labels": labels}])
        >>> [text.get_text() for text in figure.axes[0].texts[:2]]
        ['✓ cat', '93.0 %']
    """
    columns = check_whole("columns", OWNER, columns, low=1)
    if not isinstance(examples, list | tuple) or not examples:
        got = "none" if isinstance(examples, list | tuple) else type(examples).__name__
        raise refusal("examples", OWNER, "be a list of at least one sample", got, REMEDY)
    read = [read_example(f"examples[{place}]", given) for place, given in enumerate(examples)]
    look = look_of(dark=dark)
    columns = min(columns, len(read))
    rows = [read[start : start + columns] for start in range(0, len(read), columns)]
    width, height = max(WIDTH * columns, 6.0), sum(map(height_of, rows)) + LEGEND
    figure = new_figure(width, height)
    figure.set_layout_engine("none")  # places are set in inches
    top = height
    for row in rows:
        for place, example in enumerate(row):
            left = (width - WIDTH * columns) / 2 + WIDTH * place + GAP / 2
            draw_example(figure, example, row, left, top, look)
        top -= height_of(row)
    explain(figure, read, look)
    return dress(figure, look)


def read_example(argument: str, given: Any) -> Example:
    """One sample, checked."""
    if not isinstance(given, Mapping):
        raise refusal(argument, OWNER, "be a mapping", type(given).__name__, REMEDY)
    check_keys(argument, OWNER, given, ("labels",), REMEDY)
    picture = read_picture(f"{argument}['picture']", given.get("picture"))
    labels = [read_said(f"{argument}['labels'][{place}]", said) for place, said in enumerate(given["labels"])]
    return Example(picture, str(given.get("title") or ""), str(given.get("note") or ""), labels)


def read_picture(argument: str, picture: Any) -> Any:
    """An image of Pillow, or one made of an array; None for none."""
    if picture is None or hasattr(picture, "convert"):
        return picture
    rule = "be an image of Pillow, or an array (H, W) or (H, W, 3) of bytes"
    remedy = "Open it with `PIL.Image.open`, pass an array of uint8, or None."
    array = picture.numpy() if hasattr(picture, "numpy") else picture
    if not hasattr(array, "__array_interface__"):
        raise refusal(argument, OWNER, rule, type(picture).__name__, remedy)
    fits = array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))
    if not fits or str(array.dtype) != "uint8" or not array.size:
        raise refusal(argument, OWNER, rule, f"{array.dtype} of {tuple(array.shape)}", remedy)
    from PIL import Image

    return Image.fromarray(array)


def read_said(argument: str, said: Any) -> Said:
    """What is said of one label, checked."""
    rule = "be a name, a probability, whether it is given, and a target of 1, 0, -1 or None"
    if not isinstance(said, Sequence) or isinstance(said, str) or len(said) != 4:
        raise refusal(argument, OWNER, rule, repr(said), REMEDY)
    name, prob, given, target = said
    if not is_finite(prob) or not 0 <= prob <= 1 or target not in (1, 0, -1, None):
        raise refusal(argument, OWNER, rule, repr(said), REMEDY)
    return Said(str(name), float(prob), bool(given), None if target is None else int(target))


def height_of(row: Sequence[Example]) -> float:
    """How many inches samples side by side take, for texts, pictures and bars."""
    return head_of(row) + picture_of(row) + ROW * max(len(example.labels) for example in row) + 2 * LINE


def head_of(row: Sequence[Example]) -> float:
    """How many inches the texts above the pictures take."""
    lines = any(example.title for example in row) + any(example.note for example in row)
    return LINE * (0.5 + lines)


def picture_of(row: Sequence[Example]) -> float:
    """How many inches the pictures take; none where no sample has one."""
    return PICTURE if any(example.picture is not None for example in row) else 0.0


def draw_example(figure: Figure, example: Example, row: Sequence[Example], left: float, top: float, look: Look) -> None:
    """One sample at its place in inches, so that bars begin level however long names are and whatever is missing."""
    width, height = figure.get_size_inches()
    at = left / width
    figure.text(at, (top - 0.08) / height, cut(example.title, LONGEST_TITLE), fontsize=8.5, va="top", weight="bold")
    second = top - 0.08 - LINE * any(one.title for one in row)
    figure.text(at, second / height, cut(example.note, LONGEST_NOTE), fontsize=7, va="top")
    top -= head_of(row)
    if example.picture is not None:
        axis = add_axis(figure, left, top - PICTURE, PICTURE)
        picture = example.picture.convert("RGB")
        picture.thumbnail((512, 512))
        axis.imshow(picture)
        axis.set_anchor("W")
    bars = ROW * len(example.labels)
    if bars:
        draw_bars(add_axis(figure, left, top - picture_of(row) - LINE / 2 - bars, bars), example.labels, look)


def add_axis(figure: Figure, left: float, bottom: float, height: float) -> Any:
    """A panel without a frame, its place in inches."""
    width, tall = figure.get_size_inches()
    axis = figure.add_axes((left / width, bottom / tall, (WIDTH - GAP) / width, height / tall))
    axis.set_axis_off()
    return axis


def draw_bars(axis: Any, labels: Sequence[Said], look: Look) -> None:
    """A bar for each label, its name and probability above it."""
    axis.set(xlim=(-0.5, 100.5), ylim=(len(labels), 0))
    for place, said in enumerate(labels):
        axis.text(
            0, place + 0.34, f"{SIGNS[said.target]} {cut(said.name, LONGEST_NAME)}".strip(), color=look.ink, **LEFT
        )
        axis.text(100, place + 0.34, percent(said.prob), color=look.ink, **RIGHT)
        axis.barh(place + 0.75, 100, height=0.3, color=look.grid, zorder=1)
        axis.barh(place + 0.75, 100 * said.prob, height=0.3, zorder=2, lw=1.2, **bar_of(said, look))


def bar_of(said: Said, look: Look) -> dict[str, Any]:
    """How the bar of a label is filled: in colour where it is given, hatched where that is wrong."""
    if not said.given:
        return {"facecolor": look.face, "edgecolor": look.missed if said.target == 1 else look.faint}
    wrong = said.target == 0
    colour = look.wrong if wrong else look.colours[0]
    return {"facecolor": colour, "edgecolor": look.face if wrong else colour, "hatch": HATCH if wrong else ""}


def cut(text: str, longest: int) -> str:
    """A text with so many letters at the most, cut in its middle: names of files differ at their ends."""
    if len(text) <= longest:
        return text
    end = (longest - 1) // 2
    return f"{text[: longest - 1 - end]}…{text[-end:]}"


def explain(figure: Figure, examples: Sequence[Example], look: Look) -> None:
    """What bars and signs stand for, below all samples."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    labels = [said for example in examples for said in example.labels]
    kinds = {
        "given": Said("", 0, True, None),
        "given, but not there": Said("", 0, True, 0),
        "not given": Said("", 0, False, None),
        "not given, but there": Said("", 0, False, 1),
    }
    looks = [bar_of(said, look) for said in labels]
    handles: list[Any] = [
        Patch(label=name, **bar_of(said, look)) for name, said in kinds.items() if bar_of(said, look) in looks
    ]
    words = {1: "there", 0: "not there", -1: "not known"}
    known = {said.target for said in labels}
    sign: dict[str, Any] = {"ls": "none", "color": look.ink, "ms": 6}
    handles += [
        Line2D([], [], marker=f"${SIGNS[key]}$", label=word, **sign) for key, word in words.items() if key in known
    ]
    figure.legend(handles=handles, loc="lower center", ncols=len(handles), fontsize=7.5, handlelength=1.8)
