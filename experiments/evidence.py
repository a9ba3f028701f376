"""The page of the evidence: prose from a template; tables, verdicts and figures from the stored runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments import default, linear_evaluation
from experiments.claims import TIED, Claim, all_claims
from experiments.runs import SEEDS, RunStore, distinct, jobs_of
from experiments.studies import (
    MANY_LABEL_METRICS,
    ONE_LABEL_METRICS,
    QUASIBINARY,
    STUDIES,
    UNIFORM_METHODS,
    Scope,
    many_label_methods,
    set_method,
)
from experiments.tables import Figures, MethodResults, at, results_of
from manyhot.files import atomic_write
from manyhot.report import (
    draw_frontier,
    draw_normaliser,
    draw_reliability,
    draw_retrieval,
    draw_scores,
    draw_set_sizes,
    save_png,
)

SHOWN = ("BCE", "ASL, as printed", "SPA, as printed", "two-way", "softmax", "quasibinary")
TRACED = 10  # steps between two points of a normaliser's trace, in runs stored without their steps
READ_BY = ("sigmoid", "softmax", "own link", "calibrated")
SEARCHED = {
    "BCE": ("BCE", "sigmoid"),
    "ASL, sigmoid": ("ASL, as printed", "sigmoid"),
    "ASL + phi": ("ASL, as printed", "own link"),
    "SPA, sigmoid": ("SPA, as printed", "sigmoid"),
    "SPA": ("SPA, as printed", "own link"),
    "two-way, sigmoid": ("two-way", "sigmoid"),
    "two-way, calibrated": ("two-way", "calibrated"),
    "quasibinary": ("quasibinary", "own link"),
}


def reliability_figure(store: RunStore) -> Any:
    """Predicted probability against observed frequency on photos, by loss and reading."""
    results = results_of(store, many_label_methods(), "coco", MANY_LABEL_METRICS, "many_label")
    panels = {}
    for name in SHOWN:
        readings = first_figures(results, name).get("readings", {})
        bins = {reading: readings[reading]["bins"] for reading in READ_BY if reading in readings}
        panels[name] = {reading: {**own, "cells": own["count"]} for reading, own in bins.items()}
    panels = {name: curves for name, curves in panels.items() if curves}
    return draw_reliability(panels, columns=3) if panels else None


def retrieval_figure(store: RunStore) -> Any:
    """Search on photos by the length of queries."""
    results = results_of(store, many_label_methods(), "coco", MANY_LABEL_METRICS, "retrieval")
    curves = {}
    for title, (name, reading) in SEARCHED.items():
        readings = first_figures(results, name).get("readings", {})
        if reading in readings:
            curves[title] = readings[reading]
    return draw_retrieval(curves) if curves else None


def score_figure(store: RunStore) -> Any:
    """Scores of the true label and the largest other one, for softmax and for BCE with one bias."""
    results = results_of(store, UNIFORM_METHODS.values(), "tiny-imagenet features", ONE_LABEL_METRICS, "uniform")
    panels = {}
    for name in ("soft-u", "bce-u"):
        figures = first_figures(results, name).get("scores")
        if figures:
            bins = figures["histogram"]
            record = {"per": "row", "edges": bins["edges"], "present": bins["own"], "absent": bins["largest_other"]}
            learned = {"learned": 0.0} if name.startswith("bce") else {}
            panels[name] = {**record, "best": figures["t_star"], **learned}
    return draw_scores(panels, per="row") if panels else None


def set_size_figure(store: RunStore) -> Any:
    """Sizes of sets with five labels on average."""
    dataset = "tiny-imagenet features"
    methods = {"cross-entropy": set_method("CE", 5, dataset), "AVG-K": set_method("AVG-K", 5, dataset)}
    results = results_of(store, methods.values(), dataset, ONE_LABEL_METRICS, "average_k")
    panels = {}
    for title, method in methods.items():
        figures = first_figures(results, method.name)
        if figures:
            sets = figures["activations"][figures["trained"]]["5"]
            panels[title] = {"counts": sets["sizes"], "mean": sets["mean_size"]}
    return draw_set_sizes(panels, most=25) if panels else None


def normaliser_figure(store: RunStore) -> Any:
    """The moving average of quasibinary's normaliser through training."""
    traces = {}
    for job in jobs_of([QUASIBINARY], "tiny-imagenet", ONE_LABEL_METRICS, SEEDS):
        run = store.find(job)
        if run is not None and "normaliser" in run:
            record = run["normaliser"]
            steps = record.get("steps") or [TRACED * index for index in range(len(record["log C"]))]
            points = {"steps": steps, "average": record["log C"], "all_rows": record["of all rows"]}
            traces[f"seed {job.fit_settings.seed}"] = points
    return draw_normaliser(traces) if traces else None


def frontier_figure(store: RunStore) -> Any:
    """Ranking against log loss after calibration, heads on features of photos."""
    results = results_of(store, many_label_methods(), "coco features", ("many_label",), "many_label")
    getters = {"map": at("map_class"), "loss": at("readings", "calibrated", "log_loss")}
    rows = {}
    for name in results.methods:
        cells = {key: results.mean(name, get) for key, get in getters.items()}
        rows[name] = {key: cell.mean for key, cell in cells.items() if cell is not None}
    titles = {"map": "mAP by class", "loss": "log loss a row, calibrated"}
    return draw_frontier(rows, "map", "loss", higher=("map",), percent=("map",), titles=titles) if rows else None


def first_figures(results: MethodResults, method: str) -> Figures:
    """The figures of a method with its first seed; empty if it was not run."""
    return results.methods[method][0] if method in results.methods else {}


FIGURES: dict[str, Callable[[RunStore], Any]] = {
    "evidence-reliability": reliability_figure,
    "evidence-retrieval": retrieval_figure,
    "evidence-scores": score_figure,
    "evidence-set-sizes": set_size_figure,
    "evidence-normaliser": normaliser_figure,
    "evidence-frontier": frontier_figure,
}

HERE = Path(__file__).parent
TEMPLATE = HERE / "evidence.template.md"
DOCS = HERE.parent / "docs"
FOLDED = 12  # tables with more lines are collapsed


def write_page(store: RunStore, docs: Path = DOCS) -> None:
    """Writes evidence.md and its images."""
    for name, draw in FIGURES.items():
        figure = draw(store)
        if figure is not None:
            save_png(figure, docs / "images" / f"{name}.png")
    with atomic_write(docs / "evidence.md") as part:
        part.write_text(page_of(store), encoding="utf-8")


def page_of(store: RunStore) -> str:
    """The page as Markdown."""
    content = {
        "verdicts": verdict_table(all_claims(store)),
        "claims": "\n".join(claim_text(claim) for claim in all_claims(store)),
        "machines": machine_table(store),
        "linear-evaluation": linear_evaluation.page(store.folder),
        "default": default_tables(store),
        **{study.name: folded(study.page(Scope(), store)) for study in STUDIES.values()},
    }
    return re.sub(r"{{([a-z-]+)}}", lambda match: content[match[1]].strip(), TEMPLATE.read_text(encoding="utf-8"))


def verdict_table(claims: list[Claim]) -> str:
    """Claims and verdicts, with the first figure of each."""
    lines = ["| paper | claim | verdict | our figure |", "|---|---|---|---|"]
    rows = [(claim.paper, claim.text, f"**{claim.verdict}**", claim.parts[0].shown()) for claim in claims]
    return "\n".join([*lines, *(f"| {' | '.join(row)} |" for row in rows)])


def claim_text(claim: Claim) -> str:
    """A claim with its comparisons."""
    phrases = {"above": "claimed higher", "below": "claimed lower", TIED: "claimed equal"}
    answers = {True: "yes", False: "no", None: "open"}
    lines = [f"- {part.shown()} ({phrases[part.claimed]}: {answers[part.holds]})" for part in claim.parts]
    head = f"**{claim.paper}. {claim.text}** *{claim.verdict.capitalize()}.* {claim.reason}"
    return "\n".join([head, "", *lines, ""])


def machine_table(store: RunStore) -> str:
    """How many runs each dataset has, on which device, and their speed; one that several studies share counts once."""
    speeds: dict[tuple[str, str], list[int]] = {}
    for job in distinct([job for study in STUDIES.values() for job in study.runs(Scope())]):
        run = store.find(job)
        if run is not None and "diverged" not in run:
            speeds.setdefault((job.dataset.partition(": ")[0], run["device"]), []).append(run["samples a second"])
    lines = ["| dataset | machine | runs | samples a second, each of several runs at once |", "|---|---|---:|---:|"]
    for (dataset, device), own in sorted(speeds.items()):
        lines.append(f"| {dataset} | {device} | {len(own)} | {min(own):,} to {max(own):,} |")
    return "\n".join(lines)


def default_tables(store: RunStore) -> str:
    """The default settings against the methods of the papers."""
    comparison = default.DefaultComparison(store)
    return folded("\n".join(comparison.table(dataset) for dataset in default.SETS), least=1)


def folded(text: str, *, least: int = FOLDED) -> str:
    """The text with its long tables collapsed under their titles."""
    parts = []
    for block in re.split(r"\n(?=[^|\n][^\n]*:\n\n\|)", text.strip()):
        title, _, table = block.partition(":\n\n")
        if table.count("\n") < least or not table.startswith("|"):
            parts.append(block)
        else:
            body = "\n".join(f"    {line}".rstrip() for line in table.strip().split("\n"))
            parts.append(f'??? note "{title}"\n\n{body}\n')
    return "\n\n".join(part.strip("\n") for part in parts)
