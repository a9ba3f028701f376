"""What the passes over a table found, put together into groups and a table of labels."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from manyhot.evaluation import passes
from manyhot.evaluation.groups import ERRORS, Options, Plan, plan
from manyhot.evaluation.label_table import LabelTable
from manyhot.evaluation.names import NAMES
from manyhot.evaluation.passes import Measure, has_probs
from manyhot.evaluation.result import Group, Value
from manyhot.evaluation.survey import Survey, survey
from manyhot.metrics import by_shots
from manyhot.metrics.metric import Outcome, mean_of_defined
from manyhot.predictions.table import Table

# Cells that may be held at once to be ranked together.
MOST_RANKED_CELLS = 1 << 27


@dataclass(frozen=True)
class Findings:
    """The outcomes of all passes.

    Attributes:
        facts: What there is.
        plans: What each group is made of.
        outcomes: The outcomes of the measures that add up over rows.
        ap: (K,), the average precision of each label.
        auroc: (K,), the area under the ROC curve of each label.
        cells: The values of all cells in one ranking, None where there are too many.
        mass: The calibration errors in bins of equal mass, None without probabilities.
        train_counts: (K,), the training images of each label, where they are known.
    """

    facts: Survey
    plans: dict[str, Plan]
    outcomes: dict[Measure, Outcome]
    ap: Tensor
    auroc: Tensor
    cells: Outcome | None
    mass: Outcome | None
    train_counts: Tensor | None

    def outcome(self, name: str) -> Outcome | None:
        """The outcome that holds the value of this name; None where it was left out."""
        found = (outcome for measure, outcome in self.outcomes.items() if name in measure.names.values())
        return next(found, None)

    def groups(self) -> dict[str, Group]:
        """The groups, their values in the usual order."""
        groups = {name: self._group(name) for name in self.plans}
        if self.train_counts is not None:
            groups["shots"] = Group(shot_values(self.ap, self.train_counts))
        return groups

    def _group(self, name: str) -> Group:
        values, notes = self._values(self.plans[name]), list(self.plans[name].notes)
        if name == "ranking":
            values |= self._label_values() | named(self.cells, {"map_cell": "map_cell", "auroc_cell": "auroc_cell"})
            if self.cells is None:
                notes.append(f"All cells are ranked together only up to {MOST_RANKED_CELLS:,} of them.")
        if name == "probabilities":
            values |= named(self.mass, {error: f"mass_{error}" for error in ERRORS})
        empty = self.outcome("jaccard")
        if name == "sets" and empty is not None and empty.counts["rows without labels and decisions"]:
            notes.append("Rows without labels and decisions count as 0 in F1 over rows, and as 1 in Jaccard.")
        behind = self.outcome({"probabilities": "ece", "sets": "mean_size"}.get(name, ""))
        order = {name: place for place, name in enumerate(NAMES)}
        ordered = dict(sorted(values.items(), key=lambda item: order[item[0].partition("@")[0]]))
        return Group(ordered, notes, {} if behind is None else behind.details)

    def _values(self, plan: Plan) -> dict[str, Value]:
        found: dict[str, Value] = {}
        for measure in plan.measures:
            found |= named(self.outcomes[measure], measure.names)
        return found

    def _label_values(self) -> dict[str, Value]:
        present, known = self.facts.present, self.facts.known
        empty, full = int((present == 0).sum()), int(((present > 0) & (present == known)).sum())
        ranked = {"labels": len(present) - empty, "labels without positives": empty}
        compared = ranked | {"labels": len(present) - empty - full, "labels without negatives": full}
        return {
            "map": Value(mean_of_defined(self.ap), ranked),
            "auroc": Value(mean_of_defined(self.auroc), compared),
        }

    def label_table(self, names: list[str]) -> LabelTable:
        """The values of each label."""
        columns = {"known": self.facts.known, "present": self.facts.present, "ap": self.ap, "auroc": self.auroc}
        if self.train_counts is not None:
            columns = {"train_count": self.train_counts} | columns
        calibration, brier, log_loss = (self.outcome(name) for name in ("label_ece", "brier", "log_loss"))
        if calibration is not None and brier is not None and log_loss is not None:
            columns["ece"] = calibration.details["ece"]
            columns |= {"brier": brier.details["by_label"], "log_loss": log_loss.details["by_label"]}
        sets = self.outcome("micro_f")
        if sets is not None:
            columns |= {"given": sets.details["chosen"]}
            columns |= {name: sets.details[name] for name in ("precision", "recall", "f")}
        return LabelTable(names, {name: column.cpu() for name, column in columns.items()})


def find(table: Table, options: Options, train_counts: Tensor | None) -> Findings:
    """Goes through a table as often as it takes."""
    facts = survey(table)
    plans = plan(table, facts, options)
    measures = [measure for group in plans.values() for measure in group.measures]
    outcomes = dict(zip(measures, passes.add_up(table, measures), strict=True))
    ap, auroc = passes.rank_labels(table)
    cells = passes.rank_cells(table, facts) if facts.known_cells <= MOST_RANKED_CELLS else None
    mass = passes.equal_mass(table, facts, options.bins) if has_probs(table) else None
    return Findings(facts, plans, outcomes, ap, auroc, cells, mass, train_counts)


def shot_values(ap: Tensor, train_counts: Tensor) -> dict[str, Value]:
    """The mean average precision of labels with few, some and many training images."""
    outcome = by_shots(ap, train_counts)
    missing = "labels without a value"
    return {
        f"{name}_map": Value(value, {"labels": outcome.counts[name], missing: outcome.counts[missing]})
        for name, value in outcome.values.items()
    }


def named(outcome: Outcome | None, names: dict[str, str]) -> dict[str, Value]:
    """Values of an outcome under other names; none of what was left out."""
    if outcome is None:
        return {}
    return {name: Value(outcome[key], outcome.counts) for key, name in names.items()}
