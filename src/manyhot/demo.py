"""The demonstration: from images on disk to decisions, in a minute and without a download."""

from __future__ import annotations

import csv
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyhot.backbones.create import DIGIT_BACKBONE
from manyhot.data import read_data
from manyhot.data.digits import LABEL_NAMES, digit_scenes
from manyhot.decide import Abstain, AverageK, ConformalRiskControl, ExpectedFBeta, LabelThresholds, Rule, Threshold
from manyhot.files import atomic_write
from manyhot.labels import Labels
from manyhot.links import SigmoidLink
from manyhot.metrics import CalibrationError, FScores, LogLoss, MeanAveragePrecision, SetAccuracy
from manyhot.predictions import Predictions
from manyhot.report import draw_examples, draw_reliability, save_png
from manyhot.report.page import try_report
from manyhot.settings import ALL_LOSSES
from manyhot.training import Comparison, Run, TrainSettings, compare
from manyhot.training.comparison import announced, slug
from manyhot.training.run import link_last_run

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import Console
    from rich.table import Table

LOSSES = ("BCE", "focal", "ASL", "SPA", "SPA + LPR", "quasibinary", "two-way", "softmax")
CHOSEN = "SPA + LPR"


def run_demo(folder: Path, console: Console, *, samples: int = 6000, epochs: int = 20, seed: int = 0) -> Comparison:
    """Writes scenes, trains with several losses, calibrates, compares, decides, draws, and says what to do next.

    Args:
        folder: Where everything goes.
        console: The console to print to.
        samples: Scenes to train on; a quarter more than that are held out.
        epochs: Passes over the scenes for each loss.
        seed: Of scenes and networks.
    """
    start = time.perf_counter()
    torch.set_num_threads(1)  # The matrices are small: threads would mostly wait for each other.
    console.print(f"Drawing {samples:,} scenes to train on, {samples // 4:,} to calibrate on, {samples:,} to test on.")
    table = write_scenes(folder / "scenes", samples=samples, seed=seed)
    data = read_data(table, labels=Labels(LABEL_NAMES))
    for note in data.notes:
        console.print(f"  {note}", style="dim", markup=False, soft_wrap=True)
    console.print(f"Training a small network with each of {len(LOSSES)} losses.")
    comparison = compare(
        data,
        {name: ALL_LOSSES[name] for name in LOSSES},
        demo_settings(epochs=epochs, seed=seed),
        folder=folder / "runs",
        source={"paths": [str(table)]},
        progress=announced(console),
        overwrite=True,
    )
    results = {name: read_result(name, Run(comparison.folder / slug(name))) for name in comparison.rows}
    console.print(results_table(results))
    console.print(EXPLANATION)
    console.print(conclusion(results))
    console.print(decisions_table(CHOSEN, results[CHOSEN]))
    save_png(draw_results(results), folder / "reliability.png")
    save_png(draw_scenes(results[CHOSEN], folder / "scenes"), folder / "scenes.png")
    link_last_run(folder / "runs" / slug(CHOSEN))
    try_report(Run(folder / "runs" / slug(CHOSEN)), lambda line: console.print(line, markup=False))
    console.print(f"\nDone in {time.perf_counter() - start:.0f} s.", highlight=False)
    return comparison


def demo_settings(*, epochs: int, seed: int) -> TrainSettings:
    """How the networks of the demonstration are trained: one hidden layer on frozen features of digits."""
    return TrainSettings(
        backbone=DIGIT_BACKBONE,
        hidden=128,
        dropout=0.5,
        epochs=epochs,
        batch_size=256,
        lr=0.01,
        weight_decay=1.0,
        schedule="one-cycle",
        seed=seed,
        workers=0,
        cache="none",
        flip=False,
        accelerator="cpu",
        devices=1,
    )


def write_scenes(folder: Path, *, samples: int, seed: int) -> Path:
    """Writes scenes to train on, as many to test on and a quarter of that to calibrate on, and their table.

    Args:
        folder: Where the images go.
        samples: Scenes to train on.
        seed: Of the scenes.

    Returns:
        The table, with the columns path, labels and split.
    """
    from PIL import Image

    # Digits of train scenes are in no other scene; those of val and test come from the same writers.
    parts = {
        "train": digit_scenes(samples, seed=seed),
        "val": digit_scenes(max(samples // 4, 1), seed=seed + 1, split="test"),
        "test": digit_scenes(samples, seed=seed, split="test"),
    }
    table = folder / "scenes.csv"
    with atomic_write(table) as part, part.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "labels", "split"])
        for split, scenes in parts.items():
            (folder / split).mkdir(exist_ok=True)
            pixels = (255 * scenes.images).round().to(torch.uint8).numpy()  # light strokes on black
            labels = Labels(scenes.names).decode(scenes.targets)
            for number, (image, names) in enumerate(zip(pixels, labels, strict=True)):
                path = f"{split}/{number:05d}.png"
                Image.fromarray(image).save(folder / path, compress_level=1)
                writer.writerow([path, "|".join(names), split])
    return table


OWN, PLAIN, CALIBRATED = "its own link", "a plain sigmoid", "a calibrator"
# Losses whose scores are often, and wrongly, read through a plain sigmoid.
MISREAD = ("focal", "ASL", "SPA")
BINS = 15


@dataclass(frozen=True)
class LossResult:
    """The predictions of one loss.

    Attributes:
        test: Scores, targets, and calibrated probabilities of the test scenes.
        val: The same of the scenes that were calibrated on.
        targets: (N, K) of the test scenes.
        probs: (N, K) of the test scenes by the way the scores are read.
    """

    test: Predictions
    val: Predictions
    targets: Tensor
    probs: dict[str, Tensor]

    def error(self, way: str) -> float:
        """Expected calibration error of one way to read the scores."""
        return CalibrationError(BINS).update(self.probs[way], self.targets).compute().value


def read_result(name: str, run: Run) -> LossResult:
    """The readings of one run."""
    table = run.predictions()
    test, val = table.of_split("test").read(), table.of_split("val").read()
    assert test.scores is not None
    assert test.targets is not None
    probs = {}
    if test.link is not None and test.link.gives_probs:
        probs[OWN] = test.link.probs(test.scores)
    if name in MISREAD:
        probs[PLAIN] = SigmoidLink().probs(test.scores)
    probs[CALIBRATED] = test.probabilities()
    return LossResult(test, val, test.targets, probs)


EXPLANATION = (
    "[b]mAP[/b]: how well scenes are ranked, mean over labels. [b]ECE[/b]: gap between the predicted probability and "
    "the observed frequency. [b]No label[/b]: mean of the highest confidence in scenes without any label. Scores "
    "that only rank mean nothing until a [b]calibrator[/b] has seen held-out scenes; it also corrects what a link gets "
    "wrong."
)


def new_table(title: str, first: str, second: str, numbers: Sequence[str]) -> Table:
    """An empty table with two columns of text and columns of numbers."""
    from rich.table import Column, Table

    columns = (Column(heading, justify="right") for heading in numbers)
    return Table(first, Column(second, no_wrap=True), *columns, title=title, title_style="bold")


def results_table(results: dict[str, LossResult]) -> Table:
    """One row for each way to read the scores of each loss."""
    targets = next(iter(results.values())).targets
    numbers = ("mAP\n%", "Log\nloss", "ECE\n%", "No label:\ntop conf. %")
    table = new_table(f"{len(targets):,} held-out scenes, {targets.shape[1]} labels", "Loss", "Scores read by", numbers)
    no_label = targets.sum(1) == 0
    for name, result in results.items():
        mean_ap = f"{100 * MeanAveragePrecision().update(result.test.scores, targets).compute().value:.1f}"
        for way, probs in result.probs.items():
            first, last = way == next(iter(result.probs)), way == CALIBRATED
            log_loss = LogLoss(epsilon=1e-6).update(probs, targets).compute().value
            confidence = f"{100 * probs[no_label].amax(1).mean():.0f}" if no_label.any() else "–"
            values = f"{log_loss:.3f}", f"{100 * result.error(way):.1f}", confidence
            cells = (name if first else "", way, mean_ap if first else "", *values)
            table.add_row(*cells, end_section=last, style="italic" if way == PLAIN else None)
    return table


def decisions_table(name: str, result: LossResult) -> Table:
    """What each rule gives on the test scenes, after it has been fitted on the others."""
    goals: dict[str, Rule] = {
        "at least 50 % sure": Threshold(0.5),
        "best F1 of each label": LabelThresholds(),
        "best F1 of each scene": ExpectedFBeta(),
        "two labels on average": AverageK(2),
        "miss at most 10 % of labels": ConformalRiskControl(0.1),
        "abstain on a tenth": Abstain(ExpectedFBeta(), at_most=0.1),
    }
    val, test = result.val, result.test
    numbers = ("Labels", "F1 %", "Prec. %", "Rec. %", "Abstained %")
    table = new_table(f"What to do with the probabilities: {name}, calibrated", "Goal", "Rule", numbers)
    for goal, rule in goals.items():
        decision = rule.fit(val.rule_values(), val.targets)(test.rule_values())
        scores = FScores().update(decision, result.targets).compute()
        size = SetAccuracy().update(decision, result.targets).compute()["mean_size"]
        shares = [scores[key] for key in ("micro_f", "micro_precision", "micro_recall")]
        shares.append(float(decision.abstain.float().mean()))
        table.add_row(goal, type(rule).__name__, f"{size:.2f}", *(f"{100 * share:.1f}" for share in shares))
    return table


def conclusion(results: dict[str, LossResult]) -> str:
    """What the tables show, in words."""
    spa, two_way = results["SPA"], results["two-way"]
    return (
        f"[b]The point[/b]: the same scores of SPA are {100 * spa.error(OWN):.1f} % off when read through the link that"
        f" belongs to the loss, and {100 * spa.error(PLAIN):.1f} % through a plain sigmoid. A calibrator makes honest"
        f" what only ranks: two-way, {100 * two_way.error(CALIBRATED):.1f} %.\n"
    )


def draw_results(results: dict[str, LossResult]) -> Figure:
    """Predicted against observed frequency of each loss, by the way its scores are read."""
    curves = {
        name: {way: (probs, results[name].targets) for way, probs in results[name].probs.items()}
        for name in ("BCE", *MISREAD)
    }
    return draw_reliability(curves, bins=BINS)


def draw_scenes(result: LossResult, folder: Path) -> Figure:
    """Test scenes with few and many labels, and the probability of each label."""
    from PIL import Image

    test, probs, targets = result.test, result.test.probabilities(), result.targets
    assert test.paths is not None
    assert test.decisions is not None
    counts: list[int] = targets.sum(1).tolist()
    examples: dict[int, dict[str, Any]] = {}
    for wanted in (0, 0, 1, 1, 2, 2, 3, 4):
        row = min(set(range(len(counts))) - set(examples), key=lambda row: (abs(counts[row] - wanted), row))
        columns = probs[row].tolist(), test.decisions[row].tolist(), targets[row].tolist()
        labels = list(zip(test.labels.names, *columns, strict=True))
        title = ", ".join(name for name, _, _, present in labels if present) or "no label"
        examples[row] = {"image": Image.open(folder / test.paths[row]), "title": title, "labels": labels}
    return draw_examples(list(examples.values()))
