"""Which losses give confidences that can be trusted, and what are they good for?

Draws scenes of handwritten digits with zero to five labels, fits the same small network with each of eight losses,
calibrates them, compares their probabilities on held-out scenes, and decides by several rules which labels to give.
Takes about a minute on two processor cores and downloads nothing.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
import torch
from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from torch import Tensor, nn

import manyhot as mh
from manyhot.data import Scenes, digit_scenes, template_features
from manyhot.data.scenes import LABEL_NAMES

mpl.use("Agg")
from matplotlib import pyplot as plt

BINS = 15
FEWEST_CELLS = 20  # A bin with fewer says little about anything, so the diagram leaves it out.
OWN, PLAIN, CALIBRATED = "own link", "plain sigmoid", "calibrator"
DARK, LIGHT, GREEN = "#0b4f8a", "#e69f00", "#3aa17e"  # Told apart without colour vision, and in grey.
LOOKS = {OWN: (DARK, "o", "-"), PLAIN: (LIGHT, "s", "--"), CALIBRATED: (GREEN, "^", ":")}

SPA = "Strictly proper (SPA)"

LOSSES: dict[str, Callable[[], mh.Loss]] = {
    "Binary cross-entropy": mh.BinaryCrossEntropyLoss,
    "Asymmetric focal": lambda: mh.AsymmetricFocalLoss(gamma_neg=4, gamma_pos=1),
    "Asymmetric (ASL)": mh.AsymmetricLoss,
    SPA: mh.StrictlyProperAsymmetricLoss,
    "SPA + label pairs": lambda: mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=0.1),
    "Quasibinary": mh.QuasibinaryLoss,
    "Two-way": mh.TwoWayLoss,
    "Softmax, labels share": mh.SoftmaxLoss,
}
# Losses whose scores are often, and wrongly, read through a plain sigmoid.
MISREAD = ("Asymmetric focal", "Asymmetric (ASL)", SPA)

# What to do with the probabilities: a wish, and the rule that grants it.
RULES: dict[str, mh.Rule] = {
    "at least 50 % sure": mh.Threshold(0.5),
    "best F1 of each label": mh.LabelThresholds(),
    "best F1 of each scene": mh.ExpectedF(),
    "two labels on average": mh.AverageK(2),
    "miss at most 10 % of labels": mh.RiskControl(0.1),
    "leave a tenth to a person": mh.AskPerson(mh.ExpectedF(), at_most=0.1),
}

EXPLANATION = (
    "[b]mAP[/b]: how well scenes are ranked, mean over labels. [b]ECE[/b]: gap between a probability and how often it "
    "comes true. [b]No label[/b]: mean of the highest confidence in scenes without any label. Scores that only rank "
    "mean nothing until a [b]calibrator[/b] has seen held-out scenes; it also mends what a link gets wrong."
)


@dataclass(frozen=True)
class Part:
    """Features (N, D) and targets (N, K) of some scenes."""

    features: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Data:
    """The scenes to fit on, those to calibrate on, and those to judge by."""

    train: Part
    val: Part
    test: Part


@dataclass(frozen=True)
class Result:
    """What a fitted network says about held-out scenes.

    Attributes:
        mean_ap: mAP of the test scenes.
        probs: (N, K) of the test scenes by the way the scores are read.
        held_out: Scores of the scenes to calibrate on and of the test scenes, and what a calibrator makes of them.
    """

    mean_ap: float
    probs: dict[str, Tensor]
    held_out: mh.Predictions


def calibration(probs: Tensor, targets: Tensor) -> mh.metrics.Outcome:
    """Errors of calibration, and the curve behind them."""
    return mh.metrics.CalibrationError(BINS).update(probs, targets).compute()


def make_data(train: Scenes, val: Scenes, test: Scenes) -> Data:
    """Frozen features, in units of the train scenes."""
    features = [template_features(scenes.images) for scenes in (train, val, test)]
    mean, std = features[0].mean(0), features[0].std(0)
    parts = zip(features, (train, val, test), strict=True)
    return Data(*(Part((values - mean) / std, scenes.targets) for values, scenes in parts))


def fit_network(loss: mh.Loss, data: Part, *, epochs: int, seed: int, advance: Callable[[], None]) -> nn.Module:
    """Fits one hidden layer and a linear head; the effort is the same for every loss."""
    torch.manual_seed(seed)
    n, num_labels = data.targets.shape
    head = mh.LinearHead(128, num_labels)
    if not isinstance(loss.link, mh.NoLink):
        head.init_bias((data.targets.sum(0) + 0.5) / (n + 1), link=loss.link)
    network = nn.Sequential(nn.Linear(data.features.shape[1], 128), nn.ReLU(), nn.Dropout(0.5), head)
    decay = {True: 1.0, False: 0.0}  # Biases hold the label rates, which are no reason to shrink them.
    groups = [{"params": [weight], "weight_decay": decay[weight.ndim > 1]} for weight in network.parameters()]
    optimizer = torch.optim.AdamW(groups, lr=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.01, total_steps=epochs * -(-n // 256))
    for _ in range(epochs):
        for rows in torch.randperm(n).split(256):
            optimizer.zero_grad()
            loss(network(data.features[rows]), data.targets[rows]).backward()
            optimizer.step()
            schedule.step()
        advance()
    return network.eval()


@torch.no_grad()
def judge(name: str, loss: mh.Loss, network: nn.Module, data: Data) -> Result:
    """Reads the scores of held-out scenes in every way that makes sense, or that people use."""
    if isinstance(loss.link, mh.QuasibinaryLink):
        loss.link.fit([(network(data.train.features), data.train.targets)])
    # The softmax loss does not care about a constant added to a row, so only its log-probabilities compare scenes.
    read = (lambda scores: scores.log_softmax(1)) if isinstance(loss, mh.SoftmaxLoss) else (lambda scores: scores)
    val, test = read(network(data.val.features)), read(network(data.test.features))
    calibrator = mh.Beta(link=loss.link).fit(val, data.val.targets)
    probs = {} if isinstance(loss.link, mh.NoLink) else {OWN: loss.link.probs(test)}
    if name in MISREAD:
        probs[PLAIN] = mh.SigmoidLink().probs(test)
    probs[CALIBRATED] = calibrator(test)
    table = mh.Predictions(
        scores=torch.cat([val, test]),
        probs=torch.cat([calibrator(val), probs[CALIBRATED]]),
        targets=torch.cat([data.val.targets, data.test.targets]),
        splits=["val"] * len(val) + ["test"] * len(test),
        labels=LABEL_NAMES,
        link=loss.link,
        calibrator=calibrator,
    )
    mean_ap = mh.metrics.MeanAveragePrecision().update(test, data.test.targets).compute().value
    return Result(mean_ap, probs, table)


@contextmanager
def progress_bar(console: Console, total: int) -> Iterator[Callable[[str], None]]:
    """Yields what is to be called after each step: a bar with the time left on a terminal, silence elsewhere."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda text: progress.update(task, advance=1, description=text)


def fit_all(data: Data, console: Console, *, epochs: int, seed: int) -> dict[str, Result]:
    """Fits and judges a network with every loss."""
    results = {}
    with progress_bar(console, len(LOSSES) * epochs) as advance:
        for name, make_loss in LOSSES.items():
            start, loss = time.perf_counter(), make_loss()
            network = fit_network(loss, data.train, epochs=epochs, seed=seed, advance=lambda name=name: advance(name))
            results[name] = judge(name, loss, network, data)
            if not console.is_terminal:
                console.print(f"  {len(results)}/{len(LOSSES)} {name}: {time.perf_counter() - start:.1f} s")
    return results


def comparison(results: dict[str, Result], targets: Tensor) -> Table:
    """One row for each way to read the scores of each loss."""
    table = Table(title=f"{len(targets):,} held-out scenes, {targets.shape[1]} labels", title_style="bold")
    table.add_column("Loss")
    table.add_column("Scores read by", no_wrap=True)
    for heading in ("mAP\n%", "Log\nloss", "ECE\n%", "No label:\ntop conf. %"):
        table.add_column(heading, justify="right")
    no_label = targets.sum(1) == 0
    for name, result in results.items():
        mean_ap = f"{100 * result.mean_ap:.1f}"
        for way, probs in result.probs.items():
            first, last = way == next(iter(result.probs)), way == CALIBRATED
            log_loss = mh.metrics.LogLoss(epsilon=1e-6).update(probs, targets).compute().value
            values = f"{log_loss:.3f}", f"{100 * calibration(probs, targets).value:.1f}"
            confidence = f"{100 * probs[no_label].amax(1).mean():.0f}" if no_label.any() else "–"
            cells = (name if first else "", way, mean_ap if first else "", *values, confidence)
            table.add_row(*cells, end_section=last, style="italic" if way == PLAIN else None)
    return table


def decisions(held_out: mh.Predictions) -> Table:
    """What each rule gives on the test scenes, after it has been fitted on the others."""
    val, test = held_out.of_split("val"), held_out.of_split("test")
    table = Table(title=f"What to do with the probabilities: {SPA}, calibrated", title_style="bold")
    table.add_column("Wish")
    table.add_column("Rule", no_wrap=True)
    for heading in ("Labels", "F1 %", "Prec. %", "Rec. %", "Person %"):
        table.add_column(heading, justify="right")
    for wish, rule in RULES.items():
        decision = rule.fit(val.probs, val.targets)(test.probs)
        scores = mh.metrics.FScores().update(decision, test.targets).compute()
        size = mh.metrics.SetAccuracy().update(decision, test.targets).compute()["mean_size"]
        shares = [scores[name] for name in ("micro_f", "micro_precision", "micro_recall")]
        shares.append(float(decision.abstain.float().mean()))
        table.add_row(wish, type(rule).__name__, f"{size:.2f}", *(f"{100 * share:.1f}" for share in shares))
    return table


def draw_reliability(results: dict[str, Result], targets: Tensor, path: Path) -> None:
    """Promised against observed frequency, and how many cells each point stands for."""
    names, heights = ("Binary cross-entropy", *MISREAD), {"height_ratios": (3, 1)}
    small = {"fontsize": 8, "title_fontsize": 8, "handlelength": 1.6}
    figure, axes = plt.subplots(2, 4, figsize=(12, 4.7), sharex=True, sharey="row", layout="constrained", **heights)
    for name, (top, bottom) in zip(names, axes.T, strict=True):
        top.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
        for way, probs in results[name].probs.items():
            color, marker, line = LOOKS[way]
            outcome = calibration(probs, targets)
            cells, promised, came_true = (outcome.details[key] for key in ("cells", "mean_prob", "share_present"))
            shown = cells >= FEWEST_CELLS
            label = f"{way}: {100 * outcome.value:.1f} %"
            top.plot(
                promised[shown], came_true[shown], color=color, marker=marker, ls=line, ms=5, label=label, zorder=3
            )
            bottom.stairs(cells, torch.linspace(0, 1, BINS + 1), color=color, ls=line, lw=1.5)
        top.set(title=name, xlim=(0, 1), ylim=(0, 1), aspect="equal")
        top.legend(loc="upper left", title="calibration error", alignment="left", frameon=False, **small)
        bottom.set(yscale="log", xlabel="promised probability")
    axes[0, 0].set_ylabel("share that came true")
    axes[1, 0].set(ylabel="cells", yticks=(10, 1_000, 100_000), yticklabels=("10", "1,000", "100,000"))
    figure.savefig(path, dpi=110)
    plt.close(figure)


def draw_scenes(scenes: Scenes, probs: Tensor, path: Path) -> None:
    """Test scenes with few and many labels, and the probability of each label as a bar."""
    counts, chosen = scenes.targets.sum(1).tolist(), []
    for wanted in (0, 0, 1, 1, 2, 2, 3, 4):
        chosen.append(min(set(range(len(counts))) - set(chosen), key=lambda row: (abs(counts[row] - wanted), row)))
    figure, axes = plt.subplots(2, 8, figsize=(12, 4.7), layout="constrained", width_ratios=[1.6, 1] * 4)
    figure.suptitle("Probability of each label (dark: in the scene, light: not in it)")
    for row, (picture, bars) in zip(chosen, axes.reshape(-1, 2), strict=True):
        present = scenes.targets[row].bool().tolist()
        names = [name for name, is_present in zip(scenes.names, present, strict=True) if is_present]
        picture.imshow(scenes.images[row].numpy(), cmap="gray_r", vmin=0, vmax=1)
        picture.set(xticks=[], yticks=[])
        picture.set_title(", ".join(names) or "no label", fontsize=10)
        bars.barh(
            range(len(present)), probs[row].tolist(), color=[DARK if is_present else LIGHT for is_present in present]
        )
        bars.set(xlim=(0, 1), xticks=(0, 0.5, 1), xticklabels=("0", "0.5", "1"))
        bars.set_yticks(range(len(present)), scenes.names)
        bars.invert_yaxis()
        bars.tick_params(labelsize=8, length=0)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=12_000, help="scenes to fit on; half as many are held out")
    parser.add_argument("--epochs", type=int, default=20, help="passes over the scenes for each loss")
    parser.add_argument("--seed", type=int, default=0, help="seed of scenes and networks")
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the pictures")
    options = parser.parse_args()
    if options.samples < 100 or options.epochs < 1:
        parser.error("--samples must be at least 100 and --epochs at least 1, or there is nothing to compare")
    console, start = Console(), time.perf_counter()
    torch.set_num_threads(1)  # The matrices are small: threads would mostly wait for each other.

    held_out = options.samples // 2
    console.print(
        f"Drawing {options.samples:,} scenes to fit on, {held_out // 2:,} to calibrate on, {held_out:,} to judge ..."
    )
    train = digit_scenes(options.samples, seed=options.seed)
    test = digit_scenes(held_out, seed=options.seed, split="test")
    val = digit_scenes(held_out // 2, seed=options.seed + 1, split="test")
    console.print("Describing them by their likeness to typical digits ...")
    data = make_data(train, val, test)
    console.print(f"Fitting a small network with each of {len(LOSSES)} losses ...")
    results = fit_all(data, console, epochs=options.epochs, seed=options.seed)

    console.print(comparison(results, test.targets))
    spa = results[SPA]
    readings = (spa.probs[OWN], spa.probs[PLAIN], results["Two-way"].probs[CALIBRATED])
    own, plain, two_way = (100 * calibration(probs, test.targets).value for probs in readings)
    console.print(EXPLANATION)
    console.print(
        f"[b]The point[/b]: the same scores of SPA are {own:.1f} % off when read through the link that belongs to the "
        f"loss, and {plain:.1f} % through a plain sigmoid. A calibrator makes honest what only ranks: two-way, "
        f"{two_way:.1f} %.\n"
    )
    console.print(decisions(spa.held_out))
    options.output.mkdir(parents=True, exist_ok=True)
    draw_reliability(results, test.targets, options.output / "reliability.png")
    draw_scenes(test, spa.probs[CALIBRATED], options.output / "scenes.png")
    spa.held_out.save(options.output / "predictions.parquet")
    console.print(
        f"\nDone in {time.perf_counter() - start:.0f} s. {what_next(options.output)}", soft_wrap=True, highlight=False
    )


def what_next(output: Path) -> str:
    """What was written, and what to try with it."""
    return (
        f"In {output}:\n"
        "  reliability.png      what was promised, and what came true\n"
        "  scenes.png           scenes, their labels and the probabilities of SPA\n"
        "  predictions.parquet  scores, probabilities and targets of SPA\n"
        "Try next:\n"
        f"  {command()} evaluate {output}/predictions.parquet --split test --by-label\n"
        f'  {command()} decide {output}/predictions.parquet --rule "AverageK(1.5)" --fit-on val\n'
        f"  {os.path.relpath(sys.executable)} {sys.argv[0]} --seed 1   other scenes; --help for the rest"
    )


def command() -> str:
    """How to call the command line from here."""
    beside = Path(sys.executable).with_name("manyhot")
    return os.path.relpath(beside) if beside.exists() else "manyhot"


if __name__ == "__main__":
    main()
