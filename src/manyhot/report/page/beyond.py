"""Rows without labels, and search: what honest probabilities are for, beyond single labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from manyhot.links import NoLink
from manyhot.metrics import RetrievalCurve
from manyhot.report.looks import drawn_names
from manyhot.report.page.gathering import Subject, sample
from manyhot.report.page.pieces import Drawing, Grid, Rows, Section
from manyhot.report.page.shares import percent
from manyhot.report.retrieval import draw_retrieval
from manyhot.report.zero_labels import count_zero_labels, draw_zero_labels

# Queries of up to so many labels, and how many of each kind are drawn.
LONGEST_QUERY, EACH = 4, 60
# Rows that queries are judged on; more make a query no clearer.
ROWS = 20_000


def no_labels(subjects: Sequence[Subject]) -> Section | None:
    """How sure the model is of rows that have no label, against the others."""
    groups: dict[str, Any] = {}
    rows = []
    for name, subject in zip(drawn_names([one.name for one in subjects]), subjects, strict=True):
        if subject.probs is None or not subject.facts.empty_rows or not subject.facts.labelled_rows:
            continue
        groups[name] = count_zero_labels(subject.probs, subject.targets)
        found = groups[name]
        rows.append([subject.name, *(percent(found[key]) for key in ("mmc_in", "mmc_out", "auroc"))])
    if not groups:
        return None
    words = (
        "A model that knows its limits promises little where there is nothing to find. MMC is the mean of the largest "
        "probability of each row; AUROC the chance that a row with labels has the larger one."
    )
    told = "; ".join(f"{row[0]}: mean {row[1]} with labels, {row[2]} without, AUROC {row[3]}" for row in rows)
    drawing = Drawing(
        "no-labels",
        "The largest probability of each row, with labels (IN) and without (OUT).",
        f"Histograms of the largest probability of rows with and without labels. {told}.",
        lambda dark: draw_zero_labels(groups, dark=dark),
    )
    head = ["model", "MMC with labels", "MMC without labels", "AUROC"]
    grid = Grid("Rows with and without labels", head, [Rows("", rows)])
    return Section("no-labels", "Rows without labels", [words], drawings=[drawing], grids=[grid])


def search(subjects: Sequence[Subject]) -> Section | None:
    """How well samples are found by what is in them and what is not."""
    curves: dict[str, Any] = {}
    for name, subject in zip(drawn_names([one.name for one in subjects]), subjects, strict=True):
        odds = log_odds(subject)
        if odds is None or len(subject.labels) < 2 or not subject.facts.labelled_rows:
            continue
        some = sample(len(odds), ROWS)
        most = min(LONGEST_QUERY, len(subject.labels))
        outcome = RetrievalCurve(most, each=EACH).update(odds[some], subject.targets[some]).compute()
        if outcome["map"] == outcome["map"]:
            curves[name] = {"map": outcome["map"]} | {
                key: kept(outcome.details[key]) for key in ("by_length", "low", "high")
            }
    if not curves:
        return None
    words = (
        "Queries such as “dog and sofa, but not cat”, ranked by their probability. The more labels a query names, the "
        "harder it is to put its matches first. Queries are drawn; the bars say how much that matters."
    )
    told = "; ".join(f"{name}: {percent(curve['map'])} over all" for name, curve in curves.items())
    drawing = Drawing(
        "search",
        "Mean average precision of queries by the number of labels that they name.",
        f"Mean average precision by the length of queries. {told}.",
        lambda dark: draw_retrieval(curves, dark=dark),
    )
    return Section("search", "Search", [words], drawings=[drawing])


def log_odds(subject: Subject) -> Tensor | None:
    """What queries are ranked by; None without probabilities."""
    table = subject.table
    if subject.probs is None:
        return None
    if (
        table.calibrator is None
        and table.scores is not None
        and table.link is not None
        and not isinstance(table.link, NoLink)
    ):
        with torch.no_grad():
            return table.link.log_odds(table.scores).cpu()
    return torch.logit(subject.probs.double())


def kept(values: Tensor) -> list[float | None]:
    """Values as a figure reads them; None where no query had a match."""
    return [None if value != value else value for value in values.tolist()]
