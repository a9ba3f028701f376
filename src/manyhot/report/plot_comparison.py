"""Plot of a comparison of losses: one panel per metric, before and after calibration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from manyhot.evaluation.catalog import METRIC_INFO
from manyhot.report.style import LIGHT, apply_theme, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from manyhot.training.comparison import Comparison

PANELS = ("map", "map_sample", "log_loss_per_row", "ace")
BEFORE, AFTER = LIGHT.faint, LIGHT.colours[0]


def draw_comparison(comparison: Comparison) -> Figure:
    """One panel per metric, one line per loss: grey before calibration, blue after it, the best one filled."""
    names = list(comparison.rows)[::-1]
    figure = new_figure(3.1 * len(PANELS) + 1, 0.34 * len(names) + 1.6)
    axes = figure.subplots(1, len(PANELS), sharey=True)
    for axis, panel in zip(axes, PANELS, strict=True):
        draw_panel(axis, comparison, panel, names)
    axes[0].set_yticks(range(len(names)), names)
    figure.suptitle(f"Losses on the split {comparison.split!r}; grey: before calibration", fontsize=10)
    return apply_theme(figure, LIGHT)


def draw_panel(axis: Any, comparison: Comparison, panel: str, names: list[str]) -> None:
    """The dots of one metric."""
    name, best = METRIC_INFO[panel], comparison.best(panel)
    unit = 100 if name.percent else 1
    for y, loss in enumerate(names):
        row = comparison.rows[loss]
        after = row["after"].get(panel)
        before = None if row["before"] is None else row["before"].get(panel)
        if before is not None and after is not None and before != after:
            axis.plot([unit * before, unit * after], [y, y], color=BEFORE, lw=1, zorder=1)
            axis.plot(unit * before, y, "o", color=BEFORE, mfc="white", ms=5, zorder=2)
        if after is not None:
            axis.plot(unit * after, y, "o", color=AFTER, mfc=AFTER if loss == best else "white", ms=6, zorder=3)
            axis.annotate(
                f"{unit * after:.2f}",
                (unit * after, y),
                xytext=(0, 5),
                textcoords="offset points",
                ha="center",
                fontsize=7,
            )
    axis.set_title(name.title + (" %" if name.percent else ""), fontsize=9)
    axis.margins(x=0.15, y=0.08)
    axis.locator_params(axis="x", nbins=5)
    axis.grid(axis="x")
    axis.tick_params(labelsize=8)
