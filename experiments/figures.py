"""The pictures of the page, drawn by `manyhot.report` of the runs that are kept."""

from collections.abc import Callable
from typing import Any

from experiments.harness.arms import Arm
from experiments.harness.found import Figures, Found, at
from experiments.harness.jobs import Ledger
from experiments.harness.studies import SEEDS, jobs_of
from experiments.many_labels import JUDGES, arms
from experiments.methods import ONE_LABEL, QUASIBINARY, UNIFORM, set_arm
from manyhot.report import (
    draw_frontier,
    draw_normaliser,
    draw_reliability,
    draw_retrieval,
    draw_scores,
    draw_set_sizes,
)

SHOWN = ("BCE", "ASL, as printed", "SPA, as printed", "two-way", "softmax", "quasibinary")
TRACED = 10  # steps between two points of a normaliser's trace, in runs that were kept without their steps
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


def reliability(ledger: Ledger) -> Any:
    """Promised against observed frequency on photos, by loss and way to read it."""
    found = found_of(ledger, arms(), "coco", JUDGES, "many_label")
    panels = {}
    for name in SHOWN:
        readings = first(found, name).get("readings", {})
        bins = {way: readings[way]["bins"] for way in READ_BY if way in readings}
        panels[name] = {way: {**own, "cells": own["count"]} for way, own in bins.items()}
    panels = {name: curves for name, curves in panels.items() if curves}
    return draw_reliability(panels, columns=3) if panels else None


def retrieval(ledger: Ledger) -> Any:
    """Search on photos by the length of queries."""
    found = found_of(ledger, arms(), "coco", JUDGES, "retrieval")
    curves = {}
    for title, (name, way) in SEARCHED.items():
        readings = first(found, name).get("readings", {})
        if way in readings:
            curves[title] = readings[way]
    return draw_retrieval(curves) if curves else None


def scores(ledger: Ledger) -> Any:
    """Scores of the own label and the largest other one, for softmax and for BCE with one bias."""
    found = found_of(ledger, list(UNIFORM.values()), "tiny-imagenet features", ONE_LABEL, "uniform")
    panels = {}
    for name in ("soft-u", "bce-u"):
        figures = first(found, name).get("scores")
        if figures:
            bins = figures["histogram"]
            kept = {"per": "row", "edges": bins["edges"], "present": bins["own"], "absent": bins["largest_other"]}
            learned = {"learned": 0.0} if name.startswith("bce") else {}
            panels[name] = {**kept, "best": figures["t_star"], **learned}
    return draw_scores(panels, per="row") if panels else None


def set_sizes(ledger: Ledger) -> Any:
    """How large sets of five labels on average are."""
    material = "tiny-imagenet features"
    methods = {"cross-entropy": set_arm("CE", 5, material), "AVG-K": set_arm("AVG-K", 5, material)}
    found = found_of(ledger, list(methods.values()), material, ONE_LABEL, "average_k")
    panels = {}
    for title, arm in methods.items():
        figures = first(found, arm.name)
        if figures:
            sets = figures["activations"][figures["trained"]]["5"]
            panels[title] = {"counts": sets["sizes"], "mean": sets["mean_size"]}
    return draw_set_sizes(panels, most=25) if panels else None


def normaliser(ledger: Ledger) -> Any:
    """The moving average of quasibinary's normaliser through training."""
    traces = {}
    for job in jobs_of([QUASIBINARY], "tiny-imagenet", ONE_LABEL, SEEDS):
        run = ledger.find(job)
        if run is not None and "normaliser" in run:
            kept = run["normaliser"]
            steps = kept.get("steps") or [TRACED * place for place in range(len(kept["log C"]))]
            seen = {"steps": steps, "average": kept["log C"], "all_rows": kept["of all rows"]}
            traces[f"seed {job.plan.seed}"] = seen
    return draw_normaliser(traces) if traces else None


def frontier(ledger: Ledger) -> Any:
    """Ranking against log loss after calibration, heads on features of photos."""
    found = found_of(ledger, arms(), "coco features", ("many_label",), "many_label")
    getters = {"map": at("map_class"), "loss": at("readings", "calibrated", "log_loss")}
    rows = {}
    for name in found.arms:
        cells = {key: found.mean(name, get) for key, get in getters.items()}
        rows[name] = {key: cell.mean for key, cell in cells.items() if cell is not None}
    titles = {"map": "mAP by class", "loss": "log loss a row, calibrated"}
    return draw_frontier(rows, "map", "loss", higher=("map",), percent=("map",), titles=titles) if rows else None


def found_of(ledger: Ledger, arms: list[Arm], material: str, judges: tuple[str, ...], judge: str) -> Found:
    """The figures of arms on a material."""
    return Found(ledger, jobs_of(arms, material, judges, SEEDS), judge)


def first(found: Found, arm: str) -> Figures:
    """The figures of an arm with its first seed; nothing where it was not run."""
    return found.arms[arm][0] if arm in found.arms else {}


FIGURES: dict[str, Callable[[Ledger], Any]] = {
    "evidence-reliability": reliability,
    "evidence-retrieval": retrieval,
    "evidence-scores": scores,
    "evidence-set-sizes": set_sizes,
    "evidence-normaliser": normaliser,
    "evidence-frontier": frontier,
}
