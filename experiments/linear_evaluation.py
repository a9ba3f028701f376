"""Linear evaluation of frozen features (paper 002, supplement B): what does the loss of the last layer alone change?

A linear head is fitted for each of 45 strengths of an L2 penalty, the strength is chosen on "val", and "test" is
evaluated once. Three things are not as in the paper. It trains a ResNet-50 on ImageNet by each loss and fits the same
kind of head on every one of them; here one EfficientNet-Lite0 with its ImageNet weights gives the features of all,
and only the loss of the last layer differs. It reports the best accuracy over all strengths and names no validation
rows; the best on the test rows is stored beside the unbiased figure. And the features are reduced to their first
principal components.

The classes of Tiny-ImageNet are classes of ImageNet, which the backbone was trained on, so absolute accuracies on it
are optimistic. All losses use the same features.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.stats import binomtest
from torch import Tensor

from experiments.data import ExperimentDataset, fit_settings_for, input_settings
from experiments.tables import MISSING, Cell, Column, Table
from experiments.training import old_spelling
from manyhot.data.loading import FeatureBatches
from manyhot.errors import InputError
from manyhot.files import atomic_write
from manyhot.linear import LinearPath, fit_path
from manyhot.training.build import build_loss
from manyhot.training.comparison import slug

SETS = ("flowers features", "tiny-imagenet features")
REFERENCE = "softmax"
LOSSES = {
    REFERENCE: "SoftmaxCrossEntropyLoss()",
    "BCE": "BinaryCrossEntropyLoss()",
    "two-way": "TwoWayLoss()",
    "SPA": "StrictlyProperAsymmetricLoss()",
    "quasibinary": "QuasibinaryLoss()",
}
FOLDER = "linear-evaluation"
STRENGTHS = tuple(10.0 ** (5 - 11 * step / 44) for step in range(45))
# Larger datasets are subsampled to this many rows, so that a path takes minutes on one core.
MOST_ROWS = 20_000
# Features are principal components: scaling each to a variance of 1 would amplify noise to the level of the signal.
# At a tolerance of 1e-6 softmax on Flowers took 50 % longer for the same accuracy, and three strengths got stuck.
FIT: dict[str, Any] = {"standardise": False, "tolerance": 1e-5, "max_steps": 500}
RESAMPLES = 10_000
Run = dict[str, Any]


def run(
    open_dataset: Callable[[str], ExperimentDataset],
    folder: Path,
    *,
    sets: Sequence[str] = (),
    log: Callable[[str], None] = print,
) -> None:
    """Fits and evaluates what is missing, one file for each dataset and loss.

    Args:
        open_dataset: From a name to the dataset, whose samples are features with one label each.
        folder: Of the stored runs.
        sets: Instead of `SETS`.
        log: Called with a line for each run.
    """
    for name in sets or SETS:
        missing = [loss for loss in LOSSES if find(folder, name, loss) is None]
        if not missing:
            log(f"{name}: done before.")
            continue
        splits = splits_of(name, open_dataset(name))
        for loss in missing:
            result = evaluate(splits, LOSSES[loss])
            save_run(folder, name, loss, result)
            log(f"{name}, {loss}: {result['seconds']:.1f} s, top-1 {result['top-1']:.4f}")


def settings_of(name: str, loss: str) -> Run:
    """All that decides the figures of a dataset and a loss, as JSON and as stored results spell it."""
    return {
        "material": name,
        "learnt from": input_settings(name),
        "loss": old_spelling(LOSSES[loss]),
        "strengths": list(STRENGTHS),
        "most rows": MOST_ROWS,
        "fit": FIT,
    }


def file_of(folder: Path, name: str, loss: str) -> Path:
    """The file of a run."""
    return Path(folder) / FOLDER / f"{slug(name)}-{slug(loss)}.json"


def find(folder: Path, name: str, loss: str) -> Run | None:
    """The stored run of a dataset and a loss; None if it was never computed with these settings."""
    path = file_of(folder, name, loss)
    result = json.loads(path.read_text()) if path.is_file() else None
    return result if result is not None and result["settings"] == settings_of(name, loss) else None


def save_run(folder: Path, name: str, loss: str, result: Run) -> None:
    """Writes a run atomically."""
    with atomic_write(file_of(folder, name, loss)) as part:
        part.write_text(json.dumps({"settings": settings_of(name, loss), **result}) + "\n")


def splits_of(name: str, dataset: ExperimentDataset) -> dict[str, tuple[Tensor, Tensor]]:
    """Features (N, D) and targets (N, K) of each split."""
    if dataset.backbone is not None:
        hint = f"Use {name + ' features'!r}."
        raise InputError("sets", FOLDER, "name sets of frozen features", repr(name), hint)
    result = {}
    for split, part in dataset.parts(fit_settings_for(name)).items():
        assert isinstance(part, FeatureBatches)
        result[split] = part.features, part.targets.dense()
    for split, (_, targets) in result.items():
        if bool((targets.sum(1) != 1).any()):
            rule, got = "have exactly one label a row", f"other rows in {split!r} of {name!r}"
            raise InputError("sets", FOLDER, rule, got, f"Use for example {SETS[0]!r}.")
    return result


def drawn(features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """A fixed random subset of `MOST_ROWS` rows; all rows if there are no more."""
    if len(features) <= MOST_ROWS:
        return features, targets
    rows = np.sort(np.random.default_rng(0).permutation(len(features))[:MOST_ROWS])
    return features[rows], targets[rows]


def evaluate(splits: Mapping[str, tuple[Tensor, Tensor]], loss: str) -> Run:
    """The path of one loss, the strength that is best on "val", and its accuracy on "test"."""
    features, targets = drawn(*splits["train"])
    start = time.monotonic()
    path = fit_path(features, targets, build_loss(loss), strengths=STRENGTHS, **FIT)
    seconds = time.monotonic() - start
    val, test = splits["val"], splits["test"]
    choice = path.choose(*val, by=lambda scores, targets: hits(scores, targets, 1).double().mean())
    chosen = int(choice.index)
    by_strength = [hits(path.scores(test[0], index), test[1], 1) for index in range(len(path))]
    first, five = by_strength[chosen], hits(path.scores(test[0], chosen), test[1], 5)
    return {
        "rows": {
            "train": len(features),
            "drawn from": len(splits["train"][0]),
            "val": len(val[0]),
            "test": len(test[0]),
        },
        "seconds": round(seconds, 2),
        "torch": torch.__version__,
        "chosen": {"index": chosen, "strength": float(choice.strength), **_solved(path, chosen)},
        "top-1": float(first.double().mean()),
        "top-5": float(five.double().mean()),
        "top-1 at best on test": max(float(right.double().mean()) for right in by_strength),
        "path": {
            "val top-1": [round(figure, 6) for figure in choice.figures.tolist()],
            "steps": [round(steps, 2) for steps in path.steps.double().mean(1).tolist()],
            "converged": path.converged.double().mean(1).tolist(),
        },
        "right": {"top-1": packed(first), "top-5": packed(five)},
    }


def _solved(path: LinearPath, index: int) -> Run:
    return {"problems": path.converged.shape[1], "converged": int(path.converged[index].sum())}


def hits(scores: Tensor, targets: Tensor, k: int) -> Tensor:
    """(N,) whether the label of a row is among its k highest scores; ties and NaN count against it.

    Args:
        scores: (N, K).
        targets: (N, K), one label a row.
        k: How many guesses a row has.
    """
    own = scores.gather(1, targets.argmax(1, keepdim=True))
    return (~(scores < own)).sum(1) <= k


def packed(right: Tensor) -> str:
    """Booleans (N,) as hexadecimal text, eight in two digits, for comparisons row by row."""
    return np.packbits(right.numpy()).tobytes().hex()


def unpacked(text: str, count: int) -> np.ndarray:
    """The first `count` booleans of a text from `packed`."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), dtype=np.uint8), count=count).astype(bool)


def difference(one: np.ndarray, other: np.ndarray) -> tuple[float, float, float]:
    """The accuracy of `one` less that of `other`, and its 95 % interval by a bootstrap over rows.

    Only rows on which the two disagree count, as in McNemar's test. Their numbers in a bootstrap sample of N rows are
    multinomial, so these numbers are drawn directly instead of the rows.
    """
    count, gained, lost = len(one), int((one & ~other).sum()), int((other & ~one).sum())
    shares = np.array([gained, lost, count - gained - lost]) / count
    drawn = np.random.default_rng(0).multinomial(count, shares, size=RESAMPLES)
    low, high = np.quantile((drawn[:, 0] - drawn[:, 1]) / count, [0.025, 0.975])
    return (gained - lost) / count, float(low), float(high)


COLUMNS = (
    Column("loss"),
    Column("top-1 (95 % interval)"),
    Column("less softmax"),
    Column("top-5 (95 % interval)"),
    Column("top-1, best on test", best=None),
    Column("strength"),
    Column("solved at it"),
    Column("strengths solved"),
    Column("seconds", "plain", 0, None),
)
NOTE = """Frozen EfficientNet-Lite0 with ImageNet weights, {width} principal components; only the loss of the \
linear head differs. {strengths} strengths of the penalty; the one with the best top-1 accuracy on \
validation rows is evaluated on test rows (accuracies in percent). Bold: not significantly worse than the \
best, test rows resampled in pairs. The intervals cover what other test rows would change, given these \
heads. "Best on test" picks the strength on the test rows, as the paper seems to, which names no \
validation rows. The unit of a strength is another for each loss. "Solved" counts problems that reached \
their minimum, one per label for BCE and SPA and one in all for the others, and strengths at which all of \
them did. Tiny-ImageNet's classes are among those the backbone was trained on, which flatters all \
accuracies on it.
"""


def page(folder: Path, *, sets: Sequence[str] = ()) -> str:
    """A table for each dataset with runs, as Markdown.

    Args:
        folder: Of the stored runs.
        sets: Instead of `SETS`.
    """
    sections = []
    for name in sets or SETS:
        runs = {loss: result for loss in LOSSES if (result := find(folder, name, loss)) is not None}
        if runs:
            sections.append(f"**{name}**, {_rows_of(runs)}\n\n{Table(COLUMNS, _lines(runs)).markdown()}")
    if not sections:
        return "No runs yet.\n"
    width = input_settings(SETS[0])["features"]
    return "\n".join([NOTE.format(width=width, strengths=len(STRENGTHS)), *sections])


def _rows_of(runs: Mapping[str, Run]) -> str:
    rows = next(iter(runs.values()))["rows"]
    drawn = f" drawn from {rows['drawn from']:,}" if rows["train"] < rows["drawn from"] else ""
    return f"{rows['train']:,} rows{drawn} to train on, {rows['val']:,} to choose on, {rows['test']:,} to evaluate on:"


def _lines(runs: Mapping[str, Run]) -> list[list[Cell]]:
    """A line for each loss."""
    tops = {top: {loss: _right(result, top) for loss, result in runs.items()} for top in ("top-1", "top-5")}
    lines: list[list[Cell]] = []
    for loss, result in runs.items():
        first, five = (_accuracy(tops[top], loss) for top in tops)
        reference = tops["top-1"].get(REFERENCE)
        gap = MISSING if loss == REFERENCE or reference is None else _gap(tops["top-1"][loss], reference)
        chosen, converged = result["chosen"], result["path"]["converged"]
        solved = f"{chosen['converged']} of {chosen['problems']}"
        strengths = f"{sum(share == 1 for share in converged)} of {len(converged)}"
        at_best = result["top-1 at best on test"]
        # Two digits, and 100 rather than 1e+02.
        strength = f"{float(format(chosen['strength'], '.2g')):g}"
        lines.append([loss, first, gap, five, at_best, strength, solved, strengths, result["seconds"]])
    return lines


def _right(result: Run, top: str) -> np.ndarray:
    return unpacked(result["right"][top], result["rows"]["test"])


def _accuracy(right: Mapping[str, np.ndarray], loss: str) -> str:
    """An accuracy with its Wilson interval, bold unless the paired difference to the best is significant."""
    own = right[loss]
    interval = binomtest(int(own.sum()), len(own)).proportion_ci(method="wilson")
    text = f"{100 * own.mean():.1f} ({100 * interval.low:.1f} to {100 * interval.high:.1f})"
    best = max(right.values(), key=lambda values: values.mean())
    is_best = difference(own, best)[2] >= 0
    return f"**{text}**" if is_best and len(right) > 1 else text


def _gap(one: np.ndarray, other: np.ndarray) -> str:
    mean, low, high = (100 * value for value in difference(one, other))
    return f"{mean:+z.1f} ({low:+z.1f} to {high:+z.1f})"
