"""Which losses give confidences that can be trusted? One network, eight losses, the same scenes and the same effort.

Draws scenes of handwritten digits with zero to five labels, fits a small network with each loss, and compares the
probabilities on held-out scenes. Takes about a minute on two processor cores and downloads nothing.
"""

import argparse
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

mpl.use("Agg")
from matplotlib import pyplot as plt

BINS = 15
FEWEST_CELLS = 20  # A bin with fewer says little about anything, so the diagram leaves it out.
OWN, PLAIN = "own link", "plain sigmoid"
DARK, LIGHT = "#0b4f8a", "#e69f00"  # Told apart without colour vision, and in grey.

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

EXPLANATION = (
    "[b]mAP[/b]: how well scenes are ranked, mean over labels. [b]ECE[/b]: gap between a probability and how often it "
    "comes true. [b]No label[/b]: mean of the highest confidence in scenes without any label. [b]–[/b]: these scores "
    "only rank; to mean a probability they need a calibrator."
)


@dataclass(frozen=True)
class Data:
    """Features (N, D) and targets (N, K) of the scenes to fit on and of the scenes to judge by."""

    features: Tensor
    targets: Tensor
    test_features: Tensor
    test_targets: Tensor


@dataclass(frozen=True)
class Result:
    """What a fitted network says about the test scenes: its mAP, and probs (N, K) by the way the scores are read."""

    mean_ap: float
    probs: dict[str, Tensor]


def average_precision(scores: Tensor, targets: Tensor) -> Tensor:
    """Sum over distinct scores of the share of positives there times the precision down to there; (N,) each."""
    order = scores.argsort(descending=True)
    ranked = scores[order]
    last_of_ties = torch.cat([ranked[1:] != ranked[:-1], torch.ones(1, dtype=torch.bool)]).nonzero()[:, 0]
    hits = targets[order].double().cumsum(0)[last_of_ties]
    return (hits.diff(prepend=hits.new_zeros(1)) * hits / (last_of_ties + 1)).sum() / hits[-1]


def reliability(probs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Cells, mean probability and share of present labels in each of 15 equal bins; the means are NaN without cells."""
    probs, targets = probs.double().flatten(), targets.double().flatten()
    index = torch.bucketize(probs, torch.arange(1, BINS, dtype=torch.double) / BINS)
    cells = torch.bincount(index, minlength=BINS)
    return cells, torch.bincount(index, probs, BINS) / cells, torch.bincount(index, targets, BINS) / cells


def calibration_error(probs: Tensor, targets: Tensor) -> float:
    """Expected calibration error: the mean over cells of the gap between promise and truth in their bin."""
    cells, mean_prob, share_present = reliability(probs, targets)
    return float((cells * (mean_prob - share_present).abs()).nansum() / cells.sum())


def log_loss(probs: Tensor, targets: Tensor) -> float:
    """Mean surprise of a cell in nats; probabilities of exactly 0 and 1 are taken for 1e-6 off."""
    probs = probs.double().clamp(1e-6, 1 - 1e-6)
    return float(nn.functional.binary_cross_entropy(probs, targets.double()))


def make_data(train: Scenes, test: Scenes) -> Data:
    """Frozen features, in units of the train scenes."""
    features, test_features = template_features(train.images), template_features(test.images)
    mean, std = features.mean(0), features.std(0)
    return Data((features - mean) / std, train.targets, (test_features - mean) / std, test.targets)


def fit_network(loss: mh.Loss, data: Data, *, epochs: int, seed: int, advance: Callable[[], None]) -> nn.Module:
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
    """Reads the scores of the test scenes in every way that makes sense, or that people use."""
    if isinstance(loss.link, mh.QuasibinaryLink):
        loss.link.fit([(network(data.features), data.targets)])
    scores = network(data.test_features)
    # The softmax loss does not care about a constant added to a row, so only its log-probabilities compare scenes.
    ranking = scores.log_softmax(1) if isinstance(loss, mh.SoftmaxLoss) else scores
    columns = zip(ranking.T, data.test_targets.T, strict=True)
    mean_ap = torch.stack([average_precision(*column) for column in columns if column[1].any()]).mean()
    probs = {} if isinstance(loss.link, mh.NoLink) else {OWN: loss.link.probs(scores)}
    if name in MISREAD:
        probs[PLAIN] = mh.SigmoidLink().probs(scores)
    return Result(float(mean_ap), probs)


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
            network = fit_network(loss, data, epochs=epochs, seed=seed, advance=lambda name=name: advance(name))
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
        if not result.probs:
            table.add_row(name, "ranking only", mean_ap, "–", "–", "–", end_section=True)
        for way, probs in result.probs.items():
            first, last = way == OWN, way == list(result.probs)[-1]
            values = f"{log_loss(probs, targets):.3f}", f"{100 * calibration_error(probs, targets):.1f}"
            confidence = f"{100 * probs[no_label].amax(1).mean():.0f}" if no_label.any() else "–"
            cells = (name if first else "", way, mean_ap if first else "", *values, confidence)
            table.add_row(*cells, end_section=last, style=None if first else "italic")
    return table


def draw_reliability(results: dict[str, Result], targets: Tensor, path: Path) -> None:
    """Promised against observed frequency, and how many cells each point stands for."""
    names, heights = ("Binary cross-entropy", *MISREAD), {"height_ratios": (3, 1)}
    small = {"fontsize": 8, "title_fontsize": 8, "handlelength": 1.6}
    figure, axes = plt.subplots(2, 4, figsize=(12, 4.7), sharex=True, sharey="row", layout="constrained", **heights)
    for name, (top, bottom) in zip(names, axes.T, strict=True):
        top.plot([0, 1], [0, 1], color="0.7", lw=1, zorder=0)
        for way, probs in results[name].probs.items():
            color, marker, line = (DARK, "o", "-") if way == OWN else (LIGHT, "s", "--")
            cells, promised, came_true = reliability(probs, targets)
            shown = cells >= FEWEST_CELLS
            label = f"{way}: {100 * calibration_error(probs, targets):.1f} %"
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

    console.print(f"Drawing {options.samples:,} scenes to fit on and {options.samples // 2:,} to judge by ...")
    train = digit_scenes(options.samples, seed=options.seed)
    test = digit_scenes(options.samples // 2, seed=options.seed, split="test")
    console.print("Describing them by their likeness to typical digits ...")
    data = make_data(train, test)
    console.print(f"Fitting a small network with each of {len(LOSSES)} losses ...")
    results = fit_all(data, console, epochs=options.epochs, seed=options.seed)

    console.print(comparison(results, test.targets))
    own, plain = (100 * calibration_error(probs, test.targets) for probs in results[SPA].probs.values())
    console.print(EXPLANATION)
    console.print(
        f"[b]The point[/b]: the same scores of SPA are {own:.1f} % off when read through the link that belongs to the "
        f"loss, and {plain:.1f} % off through a plain sigmoid."
    )
    options.output.mkdir(parents=True, exist_ok=True)
    draw_reliability(results, test.targets, options.output / "reliability.png")
    draw_scenes(test, results[SPA].probs[OWN], options.output / "scenes.png")
    console.print(
        f"\nDone in {time.perf_counter() - start:.0f} s. Pictures:\n"
        f"  {options.output / 'reliability.png'}  what was promised, and what came true\n"
        f"  {options.output / 'scenes.png'}  scenes, their labels and the probabilities of SPA\n"
        "Try next: --seed 1 for other scenes; --samples 1000 --epochs 200 to see honesty suffer when a few scenes are "
        "learnt by heart; --help for the rest."
    )


if __name__ == "__main__":
    main()
