"""What the demonstration prints: every way to read the scores, and what rules make of the probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from manyhot.decide import AskPerson, AverageK, ExpectedF, LabelThresholds, RiskControl, Rule, Threshold
from manyhot.demo.readings import CALIBRATED, OWN, PLAIN, Reading
from manyhot.metrics import FScores, LogLoss, MeanAveragePrecision, SetAccuracy

if TYPE_CHECKING:
    from rich.table import Table

EXPLANATION = (
    "[b]mAP[/b]: how well scenes are ranked, mean over labels. [b]ECE[/b]: gap between a probability and how often it "
    "comes true. [b]No label[/b]: mean of the highest confidence in scenes without any label. Scores that only rank "
    "mean nothing until a [b]calibrator[/b] has seen held-out scenes; it also mends what a link gets wrong."
)


def wishes() -> dict[str, Rule]:
    """What to do with the probabilities: a wish, and the rule that grants it."""
    return {
        "at least 50 % sure": Threshold(0.5),
        "best F1 of each label": LabelThresholds(),
        "best F1 of each scene": ExpectedF(),
        "two labels on average": AverageK(2),
        "miss at most 10 % of labels": RiskControl(0.1),
        "leave a tenth to a person": AskPerson(ExpectedF(), at_most=0.1),
    }


def readings_table(readings: dict[str, Reading]) -> Table:
    """One row for each way to read the scores of each loss."""
    from rich.table import Table

    targets = next(iter(readings.values())).targets
    table = Table(title=f"{len(targets):,} held-out scenes, {targets.shape[1]} labels", title_style="bold")
    table.add_column("Loss")
    table.add_column("Scores read by", no_wrap=True)
    for heading in ("mAP\n%", "Log\nloss", "ECE\n%", "No label:\ntop conf. %"):
        table.add_column(heading, justify="right")
    no_label = targets.sum(1) == 0
    for name, reading in readings.items():
        mean_ap = f"{100 * MeanAveragePrecision().update(reading.test.scores, targets).compute().value:.1f}"
        for way, probs in reading.probs.items():
            first, last = way == next(iter(reading.probs)), way == CALIBRATED
            log_loss = LogLoss(epsilon=1e-6).update(probs, targets).compute().value
            confidence = f"{100 * probs[no_label].amax(1).mean():.0f}" if no_label.any() else "–"
            values = f"{log_loss:.3f}", f"{100 * reading.error(way):.1f}", confidence
            cells = (name if first else "", way, mean_ap if first else "", *values)
            table.add_row(*cells, end_section=last, style="italic" if way == PLAIN else None)
    return table


def decisions_table(name: str, reading: Reading) -> Table:
    """What each rule gives on the test scenes, after it has been fitted on the others."""
    from rich.table import Table

    val, test = reading.val, reading.test
    table = Table(title=f"What to do with the probabilities: {name}, calibrated", title_style="bold")
    table.add_column("Wish")
    table.add_column("Rule", no_wrap=True)
    for heading in ("Labels", "F1 %", "Prec. %", "Rec. %", "Person %"):
        table.add_column(heading, justify="right")
    for wish, rule in wishes().items():
        decision = rule.fit(val.rule_values(), val.targets)(test.rule_values())
        scores = FScores().update(decision, reading.targets).compute()
        size = SetAccuracy().update(decision, reading.targets).compute()["mean_size"]
        shares = [scores[key] for key in ("micro_f", "micro_precision", "micro_recall")]
        shares.append(float(decision.abstain.float().mean()))
        table.add_row(wish, type(rule).__name__, f"{size:.2f}", *(f"{100 * share:.1f}" for share in shares))
    return table


def point(readings: dict[str, Reading]) -> str:
    """What the tables show, in words."""
    spa, two_way = readings["SPA"], readings["two-way"]
    return (
        f"[b]The point[/b]: the same scores of SPA are {100 * spa.error(OWN):.1f} % off when read through the link that"
        f" belongs to the loss, and {100 * spa.error(PLAIN):.1f} % through a plain sigmoid. A calibrator makes honest"
        f" what only ranks: two-way, {100 * two_way.error(CALIBRATED):.1f} %.\n"
    )
