"""`evaluate`: all metrics of a table of predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from manyhot.checks import check_int, check_number, describe_type
from manyhot.errors import InputError, owned
from manyhot.evaluation.bootstrap import with_intervals
from manyhot.evaluation.passes import EvaluationOptions, run_passes
from manyhot.evaluation.result import Evaluation
from manyhot.labels import Labels
from manyhot.predictions.predictions import Predictions, PredictionTable
from manyhot.tables.columns import canonical_split

# What to pass as `split` for all rows.
ALL_ROWS = "all"
# Rows are drawn again from tables of moderate size only.
MOST_DRAWN_CELLS = 1 << 24
NO_INTERVALS = f"Intervals are left out: rows are drawn again only from tables of up to {MOST_DRAWN_CELLS:,} cells."


@owned("evaluate")
def evaluate(
    predictions: PredictionTable,
    *,
    split: str | None = None,
    bins: int = 15,
    ks: Sequence[int] = (1, 3, 5),
    top_k: int = 4,
    train_counts: Any = None,
    intervals: float | None = None,
    replicates: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Computes all metrics of the predictions of any model.

    Probabilities are those of the table, of its calibrator or of its link; without any of these, scores are not
    evaluated as probabilities. Cells are ranked by probabilities, or by scores without probabilities or where the order
    is the same.
    Sets are the decisions of the table, or else the labels with a probability of at least one half, as a note of the
    result says. Rows without labels, rows with at most one label, and labels by their number of training images are
    evaluated where there are any. Unknown cells are always left out.

    A table on disk is read in pieces: memory stays at a few pieces, but for one number a row, and 4 bytes a cell for
    the two values that rank all cells together.

    Args:
        predictions: A table with targets, in memory or on disk.
        split: The split to evaluate, or "all" for all rows. By default "test" where the table has it among others,
            on which calibrators and rules are fitted; all rows otherwise.
        bins: The number of bins of calibration errors.
        ks: Cutoffs k of the metrics of the first k labels of a row, at most the number of labels; also the sizes of
            average-K sets.
        top_k: How many of the most confident cells of a row a calibration error of its own is computed for.
        train_counts: (K,), how many training images carry each label, for values of labels with few, some and many.
        intervals: The level of bootstrap intervals, such as 0.95; for tables that fit in memory.
        replicates: How many times rows are drawn for the intervals.
        seed: The same seed draws the same rows.

    Example:
        >>> scores = torch.tensor([[2.0, -1.0], [0.5, 1.0], [-2.0, -1.0]])
        >>> table = mh.Predictions(scores=scores, targets=[["cat"], ["dog"], []], labels=["cat", "dog"])
        >>> evaluation = mh.evaluate(table)
        >>> evaluation["map"]
        1.0
        >>> evaluation.groups["probabilities"].notes
        ['Left out: these scores mean no probability until calibrated. Run calibrate.']
    """
    check_table(predictions)
    evaluated = split_to_evaluate(predictions, split)
    notes = notes_on_split(predictions, evaluated)
    table = predictions if evaluated is None else predictions.of_split(evaluated)
    options = evaluation_options(len(table.labels), bins=bins, ks=ks, top_k=top_k)
    counts = None if train_counts is None else check_train_counts(train_counts, table.labels)
    replicates = check_int("replicates", "", replicates, low=1)
    level = None if intervals is None else check_number("intervals", "", intervals, "(0, 1)")
    if level is not None and len(table) * len(table.labels) > MOST_DRAWN_CELLS:
        notes.append(NO_INTERVALS)
        level = None
    evaluation = replace(run_passes(table, options, counts), notes=notes, split=evaluated)
    if level is None:
        return evaluation
    return with_intervals(evaluation, table.read(), options, level=level, replicates=replicates, seed=seed)


# Draws of the intervals that runs and reports have, by the largest number of cells: they take a second or two, and at
# most five.
REPLICATES = {1 << 18: 200, 1 << 19: 100}
LEVEL = 0.95


def evaluate_both(table: Predictions, split: str | None) -> tuple[Evaluation, Evaluation | None]:
    """The evaluation of all rows of a split or of a table, with intervals if these are fast to compute.

    And that of the probabilities before calibration, where there are any. This is what a run keeps, and what the report
    shows of a table without a run.
    """
    replicates, before = interval_replicates(table), before_calibration(table)
    split = ALL_ROWS if split is None else split
    level = None if replicates is None else LEVEL
    after = evaluate(table, split=split, intervals=level, replicates=replicates or 1)
    return after, None if before is None else evaluate(before, split=split)


def interval_replicates(table: PredictionTable) -> int | None:
    """How many draws the intervals of a run or a report have; None for a table that is too large for any."""
    cells = len(table) * len(table.labels)
    return next((replicates for most, replicates in REPLICATES.items() if cells <= most), None)


def before_calibration(table: Predictions) -> Predictions | None:
    """The table with the probabilities of its own link; None without a link or without a calibrator."""
    if table.calibrator is None or table.scores is None or table.link is None or not table.link.gives_probs:
        return None
    with torch.no_grad():
        return table.replace(probs=table.link.probs(table.scores), decisions=None)


def split_to_evaluate(table: PredictionTable, wanted: str | None = None) -> str | None:
    """The split to evaluate: the requested one, else "test" or the like, else the only one; None for all."""
    sizes = table.split_sizes()
    if wanted == ALL_ROWS and ALL_ROWS not in sizes:
        return None
    if wanted is not None or not sizes:
        return wanted
    called_test = sorted((name for name in sizes if canonical_split(name) == "test"), key=lambda name: name != "test")
    return called_test[0] if called_test else next(iter(sizes)) if len(sizes) == 1 else None


def notes_on_split(table: PredictionTable, evaluated: str | None) -> list[str]:
    """Notes on rows that are left out, and on rows that a model, calibrator or rule may have been fitted on."""
    sizes, notes = table.split_sizes(), []
    others = ", ".join(f"{name!r} ({rows:,})" for name, rows in sizes.items() if name != evaluated)
    if evaluated is not None and others:
        notes.append(
            f'Evaluated on the split {evaluated!r}; left out: {others}. Choose with `split`, or "all" for all rows.'
        )
    rosy = {name: canonical_split(name) for name in sizes if evaluated in (None, name)}
    tuned_splits = [name for name, usual in rosy.items() if usual in ("train", "val")]
    if tuned_splits and (table.calibrator is not None or table.rule is not None or "train" in rosy.values()):
        names = " and ".join(repr(name) for name in tuned_splits)
        rule = "too optimistic, as models, calibrators and rules are fitted on them"
        notes.append(f"Rows of {names} are included: {rule}.")
    return notes


def check_table(predictions: Any) -> None:
    """Raises an error for anything but a table of predictions with targets."""
    if not isinstance(predictions, PredictionTable):
        hint = "Pass `Predictions(scores=..., targets=...)`, or open a file with `Predictions.open`."
        raise InputError("predictions", "", "be a table of predictions", describe_type(predictions), hint)
    if "targets" not in predictions.kinds:
        hint = "Add the true labels with `replace(targets=...)`."
        raise InputError("predictions", "", "hold targets", ", ".join(predictions.kinds), hint)


def evaluation_options(labels: int, *, bins: int = 15, ks: Any = (1, 3, 5), top_k: int = 4) -> EvaluationOptions:
    """The checked options; numbers of cells of a row are at most the number of labels."""
    bins, top_k = check_int("bins", "", bins, low=1), check_int("top_k", "", top_k, low=1)
    if isinstance(ks, str) or not isinstance(ks, Sequence) or not ks:
        raise InputError("ks", "", "be one or more whole numbers", describe_type(ks), "Pass for example (1, 3, 5).")
    most = max(1, labels)
    cutoffs = {min(check_int("ks", "", k, low=1), most) for k in ks}
    return EvaluationOptions(bins, tuple(sorted(cutoffs)), min(top_k, most))


def check_train_counts(counts: Any, labels: Labels) -> Tensor:
    """(K,), the training images of each label, given in order or by name."""
    if isinstance(counts, Mapping):
        missing = [name for name in labels.names if name not in counts]
        if missing:
            got = f"none for {missing[0]!r}"
            raise InputError("train_counts", "", "name every label", got, "Pass 0 for a label without images.")
        counts = [counts[name] for name in labels.names]
    rule, hint = f"have one number for each of the {len(labels)} labels", "Count the images of these labels."
    try:
        result = torch.as_tensor(counts)
    except (TypeError, ValueError, RuntimeError):
        raise InputError("train_counts", "", rule, describe_type(counts), hint) from None
    if result.shape != (len(labels),):
        raise InputError("train_counts", "", rule, str(tuple(result.shape)), hint)
    if result.numel() and not bool((result >= 0).all()):
        raise InputError("train_counts", "", "not be negative", f"{float(result.min()):g}", hint)
    return result.cpu()
