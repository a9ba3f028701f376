"""The columns of a table in memory, checked one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from manyhot.calibrate.calibrator import Calibrator
from manyhot.cells import as_probs, as_scores, as_targets
from manyhot.checks import kind_of
from manyhot.decide.rule import Decision, Rule
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.predictions.targets import dense
from manyhot.predictions.texts import Texts
from manyhot.refusal import refusal

OWNER = "Predictions"


def values(scores: Any, probs: Any) -> tuple[Tensor | None, Tensor | None]:
    """Scores and probabilities, of which one at least must be there, in one shape and on one device."""
    if scores is None and probs is None:
        remedy = "Pass what a head gives as `scores`, or what a link or a calibrator gives as `probs`."
        raise refusal("scores", OWNER, "be given, or `probs`", "neither", remedy)
    checked_scores = None if scores is None else as_scores(OWNER, scores)
    checked_probs = None if probs is None else as_probs(OWNER, probs)
    if checked_scores is not None and checked_probs is not None:
        if checked_probs.shape != checked_scores.shape:
            rule, got = f"be (N, K) like `scores` {tuple(checked_scores.shape)}", str(tuple(checked_probs.shape))
            raise refusal("probs", OWNER, rule, got, "Compute both on the same samples.")
        checked_probs = checked_probs.to(checked_scores.device)
    return checked_scores, checked_probs


def labels(names: Sequence[str] | Labels | None, count: int) -> Labels:
    """The names of `count` columns; their numbers by default."""
    if names is None:
        return numbered_labels(count)
    checked = names if isinstance(names, Labels) else Labels(names)
    if len(checked) != count:
        raise refusal("labels", OWNER, f"name the {count} columns", f"{len(checked)} names", "Pass one name a column.")
    return checked


def numbered_labels(count: int) -> Labels:
    """The labels of a table that was given none."""
    return Labels([str(column) for column in range(count)])


def targets(given: Any, like: Tensor, names: Labels, *, of: str) -> Tensor | None:
    """Targets as int8, whatever form they came in."""
    return None if given is None else as_targets(OWNER, dense(given, names), like, of=of)


def decisions(given: Any, abstain: Any, like: Tensor) -> tuple[Tensor | None, Tensor | None]:
    """Decisions (N, K) and abstentions (N,), both bool."""
    if isinstance(given, Decision):
        given, abstain = given.labels, given.abstain if abstain is None else abstain
    if given is None:
        if abstain is not None:
            raise refusal("abstain", OWNER, "come with `decisions`", "it alone", "Pass the decisions as well.")
        return None, None
    cells = _as_bool("decisions", given, tuple(like.shape), "(N, K)").to(like.device)
    if abstain is None:
        return cells, None
    return cells, _as_bool("abstain", abstain, (len(like),), "(N,)").to(like.device)


def _as_bool(name: str, given: Any, shape: tuple[int, ...], axes: str) -> Tensor:
    try:
        cells = as_tensor(given).detach()
    except (TypeError, ValueError, RuntimeError):
        raise refusal(name, OWNER, "be true or false", kind_of(given), "Pass a tensor or an array of bool.") from None
    if tuple(cells.shape) != shape:
        remedy = "Pass what a rule gives."
        raise refusal(name, OWNER, f"be {axes} with the shape {shape}", str(tuple(cells.shape)), remedy)
    if cells.dtype != torch.bool:
        other = (cells != 0) & (cells != 1)
        if bool(other.any()):
            raise refusal(
                name, OWNER, "be true or false", f"{cells[other][0].item():g}", "Apply a rule to the probabilities."
            )
        cells = cells == 1
    return cells


def ids(given: Any, rows: int) -> Texts:
    """One id a row, all different; row numbers by default. Those that are `Texts` already have been checked."""
    if given is None:
        return Texts(range(rows))
    if isinstance(given, Texts):
        return _of_length("ids", given, rows)
    checked = Texts.check("ids", given, rows)
    refuse_repeated(checked, "Make them unique, or leave them out to number the rows.")
    return checked


def refuse_repeated(given: Texts, remedy: str) -> None:
    """Refuses ids of which two are the same."""
    twice = given.repeated()
    if twice is not None:
        raise refusal("ids", OWNER, "be all different", f"{twice!r} twice", remedy)


def texts(name: str, given: Any, rows: int) -> Texts | None:
    """One text a row, or None."""
    if given is None:
        return None
    return _of_length(name, given, rows) if isinstance(given, Texts) else Texts.check(name, given, rows)


def _of_length(name: str, given: Texts, rows: int) -> Texts:
    return given if len(given) == rows else Texts.check(name, given.tolist(), rows)


def made_by(
    link: Link | None, calibrator: Calibrator | None, rule: Rule | None
) -> tuple[Link | None, Calibrator | None, Rule | None]:
    """Link, calibrator and rule; refuses anything else in their place."""
    for name, module, kind, remedy in (
        ("link", link, Link, "Pass `loss.link`, or a link such as `SigmoidLink()`."),
        ("calibrator", calibrator, Calibrator, "Pass the fitted calibrator itself."),
        ("rule", rule, Rule, "Pass the rule itself."),
    ):
        if module is not None and not isinstance(module, kind):
            raise refusal(name, OWNER, f"be a `{kind.__name__}` or None", type(module).__name__, remedy)
    return link, calibrator, rule


def row_numbers(rows: Any, count: int) -> np.ndarray[Any, Any]:
    """Row numbers (n,) of numbers or of a mask; refuses what lies outside."""
    rule = f"be (n,) whole numbers or ({count},) bool"
    remedy = "Pass row numbers, or a mask with one entry a row."
    try:
        index = as_tensor(rows).detach().cpu()
    except (TypeError, ValueError, RuntimeError):
        raise refusal("rows", "Predictions.take", rule, kind_of(rows), remedy) from None
    if index.dtype == torch.bool and index.shape == (count,):
        return index.nonzero().flatten().numpy()
    if index.numel() == 0:
        index = index.long().flatten()
    if index.ndim != 1 or index.is_floating_point() or index.dtype == torch.bool:
        got = f"{tuple(index.shape)} of {index.dtype}"
        raise refusal("rows", "Predictions.take", rule, got, remedy)
    if index.numel() and not (int(index.min()) >= 0 and int(index.max()) < count):
        bad = int(index.min()) if int(index.min()) < 0 else int(index.max())
        remedy = "Count the rows from 0."
        raise refusal("rows", "Predictions.take", f"lie between 0 and {count - 1}", str(bad), remedy)
    return index.long().numpy()


def as_tensor(values: Any) -> Tensor:
    """A tensor of tensors, lists or arrays; read-only arrays are copied, because torch would warn of them."""
    if isinstance(values, Tensor) or not hasattr(values, "__array__"):
        return torch.as_tensor(values)
    return torch.as_tensor(np.require(values, requirements=["C", "W"]))
