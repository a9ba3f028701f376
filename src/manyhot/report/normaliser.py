"""How the normaliser of the quasibinary loss settles while a network is trained."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from manyhot.refusal import refusal
from manyhot.report.looks import BESIDE, Look, Style, dress, in_legend, look_of, new_figure, style_of
from manyhot.report.reading import check_keys, check_named, listed, read_numbers, read_same

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OWNER = "draw_normaliser"
REMEDY = 'Pass {"steps": [...], "average": [...]} and, where known, "batch" and "all_rows" of the same length.'
THIN: dict[str, Any] = {"lw": 0.7, "alpha": 0.45, "zorder": 2}
THICK: dict[str, Any] = {"lw": 2, "zorder": 3}
SINGLE: dict[str, Any] = {"ls": "none", "mew": 0.8, "ms": 7, "zorder": 4}
KINDS = {
    "batch": ("of each batch", THIN),
    "average": ("moving average", THICK),
    "all_rows": ("of all rows", SINGLE | {"marker": "o"}),
}


def draw_normaliser(traces: Mapping[str, Any], *, dark: bool = False) -> Figure:
    """The logarithm of quasibinary's normaliser C by step, one colour a seed: of batches, averaged, and of all rows.

    A thin line follows the batches, a thick one the moving average that the link keeps, and marks show the value that
    all rows of the training data would give. Probabilities are off by the factor between average and all rows.

    Args:
        traces: By the name of the seed or model, lists of the same length: "steps", and at least one of "batch",
            "average" and "all_rows". None or NaN where nothing was measured; "all_rows" may also be one number, for
            the end of training.
        dark: Colours for a dark page.

    Example:
        >>> from manyhot.report import draw_normaliser
        >>> trace = {"steps": [1, 2, 3, 4], "average": [1.0, 2.0, 2.4, 2.5], "all_rows": [None, None, None, 2.6]}
        >>> draw_normaliser({"seed 0": trace}).axes[0].get_ylabel()
        'log C'
    """
    check_named("traces", OWNER, traces)
    look = look_of(dark=dark)
    read = {name: read_trace(f"traces[{name!r}]", trace) for name, trace in traces.items()}
    figure = new_figure(8.0, 4.0)
    axis = figure.subplots()
    for place, trace in enumerate(read.values()):
        draw_trace(axis, trace, style_of(place, look), look)
    axis.set_xlabel("step")
    axis.set_ylabel("log C")
    axis.grid(True)
    axis.margins(x=0.02)
    explain(axis, read, look)
    return dress(figure, look)


def read_trace(argument: str, trace: Any) -> dict[str, list[float]]:
    """The rows of one trace, as numbers."""
    if not isinstance(trace, Mapping):
        raise refusal(argument, OWNER, "be a mapping of lists", type(trace).__name__, REMEDY)
    check_keys(argument, OWNER, trace, ("steps",), REMEDY)
    if not any(key in trace for key in KINDS):
        raise refusal(argument, OWNER, f"have one of {listed(list(KINDS))}", "none of them", REMEDY)
    steps = read_numbers(f"{argument}['steps']", OWNER, trace["steps"])
    read = {"steps": steps}
    for key in KINDS:
        if trace.get(key) is None:
            continue
        values = trace[key]
        if key == "all_rows" and isinstance(values, int | float):
            values = [None] * (len(steps) - 1) + [values]
        read[key] = read_numbers(f"{argument}[{key!r}]", OWNER, values, gaps=True)
        read_same(f"{argument}[{key!r}]", OWNER, read[key], len(steps))
    return read


def draw_trace(axis: Any, trace: Mapping[str, list[float]], style: Style, look: Look) -> None:
    """The lines and marks of one seed."""
    steps = trace["steps"]
    if "batch" in trace:
        axis.plot(steps, trace["batch"], color=style.colour, **THIN)
    if "average" in trace:
        axis.plot(steps, trace["average"], color=style.colour, ls=style.line, **THICK)
    if "all_rows" in trace:
        known = [(step, value) for step, value in zip(steps, trace["all_rows"], strict=True) if not math.isnan(value)]
        at, values = [step for step, _ in known], [value for _, value in known]
        axis.plot(at, values, color=style.colour, marker=style.mark, mec=look.ink, **SINGLE)


def explain(axis: Any, traces: Mapping[str, Mapping[str, list[float]]], look: Look) -> None:
    """Colours by seed, and kinds of lines in the colour of texts: fewer entries than each kind of each seed."""
    from matplotlib.lines import Line2D

    handles = []
    for place, name in enumerate(traces):
        style = style_of(place, look)
        handles.append(
            Line2D([], [], color=style.colour, ls=style.line, marker=style.mark, lw=2, label=in_legend(name))
        )
    for key, (label, kind) in KINDS.items():
        if any(key in trace for trace in traces.values()):
            handles.append(Line2D([], [], color=look.ink, label=label, **kind))
    axis.legend(handles=handles, fontsize=8, handlelength=2.8, **BESIDE)
