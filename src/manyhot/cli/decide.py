"""`manyhot decide`: from probabilities to labels."""

from __future__ import annotations

import json
from collections.abc import Callable
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.options import (
    AtMostOption,
    FitOnOption,
    FitTableOption,
    JsonOption,
    Kind,
    KindOption,
    OutOption,
    OverwriteOption,
    PredictionsFile,
    SaveOption,
    SeedOption,
    TargetsOption,
)
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from torch import Tensor

    from manyhot.decide import Rule
    from manyhot.decide.rule import Unclipped
    from manyhot.predictions import Predictions

RuleOption = Annotated[
    str,
    typer.Option(
        "--rule",
        "-r",
        help="Threshold, LabelThresholds, CostThresholds, TopK, AverageK, ExpectedF, UniformThreshold, "
        "ClassThresholds, RiskControl, NoneOfThese or AskPerson, with options as in Python; or a fitted one in JSON.",
    ),
]
OnOption = Annotated[
    Kind, typer.Option("--on", help="What the rule looks at. Scores only rank: most rules want probabilities.")
]


def decide(
    predictions: PredictionsFile,
    rule: RuleOption,
    fit_on: FitOnOption = None,
    fit_table: FitTableOption = None,
    on: OnOption = Kind.probs,
    kind: KindOption = None,
    targets: TargetsOption = None,
    out: OutOption = None,
    save: SaveOption = None,
    at_most: AtMostOption = 1_000_000,
    seed: SeedOption = 0,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Fit a rule on one split and write all rows with their decisions.

    The rows of `test`, or else those it was not fitted on, are judged where their true labels are known.

    [b]Examples[/b]

    manyhot decide calibrated.parquet --rule "AverageK(3)" --fit-on val

    manyhot decide calibrated.parquet --rule "LabelThresholds(precision=0.9)" --fit-on val --save rule.json

    manyhot decide calibrated.parquet --rule "RiskControl(0.1)" --fit-on val

    manyhot decide calibrated.parquet --rule "AskPerson(ExpectedF(), at_most=0.1)" --fit-on val

    manyhot decide tomorrow.parquet --rule rule.json
    """
    import manyhot
    from manyhot.cli.fitting import Lesson, build_or_load, rewrite
    from manyhot.decide import Rule

    tell = options.console()
    chosen = build_or_load(rule, Rule, argument="--rule", owner="manyhot decide")
    path = options.table_path(out or options.beside(predictions, "decided"), overwrite=overwrite, save=save)
    table = options.open_table(predictions, kind, targets, tell)
    look = looker(chosen, on)
    if bool(chosen.fitted) and fit_on is not None:
        table.of_split(fit_on)  # nothing is learnt from it, but a mistyped split would be judged
    lesson = Lesson("manyhot decide", table, predictions, fit_on, fit_table, kind, targets, tell)
    if not bool(chosen.fitted):
        chosen.fit(*lesson.rows(look, at_most=at_most, seed=seed))
    if save:
        manyhot.save(chosen, save)
    judge = Judge(chosen)
    for before, after in rewrite(table, path, lambda part: decided(part, chosen, look), "Deciding", tell):
        judge.update(after, lesson.rows_to_judge(before))
    report(judge, chosen, path, len(table), as_json=as_json)


def looker(rule: Rule, on: Kind) -> Callable[[Predictions], Tensor | Unclipped]:
    """What the rule looks at in a batch."""
    from manyhot.links import NoLink

    if on is Kind.scores and rule.needs_probs:
        remedy = "Leave --on out."
        raise refusal("--on", "manyhot decide", f"be probs for {type(rule).__name__}", "scores", remedy)

    def look(part: Predictions) -> Tensor | Unclipped:
        if on is Kind.probs:
            if part.probs is None and part.calibrator is None and (part.link is None or isinstance(part.link, NoLink)):
                remedy = "Run `manyhot calibrate` first, or pass --on scores to a rule that only compares."
                raise refusal("PREDICTIONS", "manyhot decide", "hold probabilities", "scores alone", remedy)
            return part.rule_values()
        if part.scores is None:
            raise refusal("--on", "manyhot decide", "be a kind that the table holds", "scores", "Leave --on out.")
        return part.scores

    return look


def decided(part: Predictions, rule: Rule, look: Callable[[Predictions], Tensor | Unclipped]) -> Predictions:
    """A batch with its decisions."""
    decision = rule(look(part))
    return part.replace(decisions=decision.labels, abstain=decision.abstain, rule=rule)


class Judge:
    """How many labels were given, and how right they are on the rows that were not learnt from.

    Args:
        rule: What decides; of one that promises a risk, that risk is told as well.
    """

    def __init__(self, rule: Rule) -> None:
        from manyhot.decide import RiskControl
        from manyhot.metrics import FScores, SetAccuracy
        from manyhot.metrics.sets import GivenLabels

        self.given, self.scores, self.sets = GivenLabels(), FScores(), SetAccuracy()
        self.promise = next((part for part in rule.modules() if isinstance(part, RiskControl)), None)
        self.rows = self.judged = self.abstained = self.risked = 0
        self.lost = 0.0

    def update(self, part: Predictions, rows: Tensor) -> None:
        """Collects a batch."""
        from manyhot.decide import Decision

        assert part.decisions is not None
        assert part.abstain is not None
        self.given.update(Decision(part.decisions, part.abstain), None)
        self.rows += len(part)
        self.abstained += int(part.abstain.sum())
        if part.targets is not None:
            rows = rows & ~part.abstain & (part.targets >= 0).any(1)
            self.judged += int(rows.sum())
            self.scores.update(part.decisions[rows], part.targets[rows])
            self.sets.update(part.decisions[rows], part.targets[rows])
            if self.promise is not None:
                losses = self.promise.row_losses(part.decisions[rows], part.targets[rows])
                self.lost, self.risked = self.lost + float(losses.sum()), self.risked + len(losses)

    def figures(self) -> dict[str, float]:
        """What people ask first, as fractions."""
        # None where every row is left to a person.
        given = {name: 0.0 if value != value else value for name, value in self.given.compute().values.items()}
        figures = {
            "labels a row": given["mean_size"],
            "rows without labels": given["empty_share"],
            "rows for a person": self.abstained / max(self.rows, 1),
        }
        if self.judged:
            sets = self.sets.compute().values
            figures |= self.scores.compute().values | sets | {"known_size": sets["mean_size"]}
            del figures["mean_size"]
        if self.promise is not None and self.risked:
            figures |= {"risk": self.lost / self.risked, "promised risk": self.promise.alpha}
        return figures


def report(judge: Judge, rule: Any, path: Any, rows: int, *, as_json: bool) -> None:
    """Says what was written, and how good the decisions are."""
    from manyhot.evaluation.result import too_small

    figures = judge.figures()
    small = too_small({"rows": judge.judged, "rows without known cells": 0}) if judge.judged else None
    if as_json:
        told = {"written": str(path), "rows": rows, "judged rows": judge.judged, "too_small": small, **figures}
        typer.echo(json.dumps(told))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(markup=False)
    table = Table(title=f"{rows:,} rows, {judge.judged:,} of them judged", title_style="bold", title_justify="left")
    table.add_column("")
    table.add_column("", justify="right")
    for name, text in SHOWN.items():
        if name in figures and (small is None or name in COUNTED):
            table.add_row(text, f"{figures[name]:.2f}" if name == "labels a row" else f"{100 * figures[name]:.1f} %")
    if judge.promise is not None and "risk" in figures and small is None:
        promised = f"{RISKS[judge.promise.risk]}, at most {100 * figures['promised risk']:g} % promised"
        table.add_row(promised, f"{100 * figures['risk']:.1f} %")
    console.print(table)
    if small is not None:
        console.print(small, highlight=False)
    console.print(f"{rule!r}", highlight=False)
    next_step = f"manyhot evaluate {quote(str(path))}"
    console.print(f"Wrote {rows:,} rows to {path}. Next: {next_step}", soft_wrap=True, highlight=False)


RISKS = {
    "false_negatives": "labels of a row that are missed",
    "false_discoveries": "labels given to a row that are wrong",
}
# What people ask first; --json has all of it.
SHOWN = {
    "labels a row": "labels given a row",
    "rows without labels": "rows given none",
    "rows for a person": "rows for a person",
    "micro_f": "F1 of all cells",
    "macro_f": "F1 over labels",
    "micro_precision": "precision of all cells",
    "micro_recall": "recall of all cells",
    "exact_match": "rows wholly right",
}
# Those of them that need no true labels.
COUNTED = ("labels a row", "rows without labels", "rows for a person")
