"""Losses on photos, with equal budgets: a pretrained network fine-tuned, or a head on frozen features, with each loss.

The data are a table that `manyhot train` reads, with splits: paths of photos and labels, or an npz file of features.
For COCO photos scaled to 128 x 128 pixels, 82,081 to train on (6,000 of them for calibration), 35,185 to test on:

    python experiments/photos.py labels.csv --name photos --set tune=all size=128 epochs=8 precision=bf16 ema=0.998
        val=0.0731

The runs are stored in `--runs`; a loss with a run is not trained again, and `--render` makes the page of the runs.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from manyhot.data import read_data
from manyhot.engine import ProgressLines
from manyhot.settings import ALL_LOSSES, parse_overrides
from manyhot.training import TrainSettings, compare
from manyhot.training.comparison import slug
from manyhot.training.run import FIGURES, Run, compared_values

LOSSES = ("BCE", "ASL", "two-way", "SPA", "SPA + LPR", "quasibinary")
RESULTS = Path(__file__).parent / "results"
COLUMNS = {
    "map": ("mAP by class %", 100, 2),
    "map_sample": ("mAP by sample %", 100, 2),
    "log_loss_per_row": ("log loss", 1, 3),
    "ece": ("ECE %", 100, 2),
    "ace": ("ACE %", 100, 2),
    "mce": ("MCE %", 100, 2),
}
RANKING = ("map", "map_sample")
Figures = dict[str, Any]


def collect(runs: Path) -> dict[str, Figures]:
    """Figures of the runs that are finished, by the name of the loss."""
    results = {}
    for name in LOSSES:
        if not (runs / slug(name) / FIGURES).is_file():
            continue
        run = Run(runs / slug(name))
        after, before = run.evaluation, run.evaluation_before
        assert after is not None
        results[name] = {
            "rows": run.figures["rows"],
            "seconds": round(run.figures["seconds"], 1),
            "before": None if before is None else compared_values(before),
            "after": compared_values(after),
        }
    return results


def page(results: dict[str, Figures], command: str, note: str) -> str:
    """The table as Markdown: ranking, then probabilities through the loss's own link and after calibration."""
    rows = next(iter(results.values()))["rows"]
    sizes = ", ".join(f"{name} {count:,}" for name, count in rows.items())
    others = [name for name in COLUMNS if name not in RANKING]
    titles = [COLUMNS[name][0] for name in RANKING]
    titles += [f"{COLUMNS[name][0]}, {when}" for name in others for when in ("own link", "calibrated")]
    lines = [
        "# Losses on photos",
        "",
        f"Rows: {sizes}. {note}",
        "",
        "Figures are of `test`; the calibrator, `BetaCalibration()`, was fitted and the epoch chosen on `val`.",
        "Made by",
        "",
        f"    {command}",
        "",
        "| loss | " + " | ".join(titles) + " | seconds |",
        "|---|" + "---|" * (len(titles) + 1),
    ]
    for name, row in results.items():
        cells = [shown(row["after"], figure) for figure in RANKING]
        for figure in others:
            cells += [shown(row["before"], figure), shown(row["after"], figure)]
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {row['seconds']:.0f} |")
    missing = [name for name in LOSSES if name not in results]
    if missing:
        lines += ["", f"Not run: {', '.join(missing)}."]
    return "\n".join(lines) + "\n"


def shown(values: Figures | None, figure: str) -> str:
    _, unit, digits = COLUMNS[figure]
    return "–" if values is None or values[figure] is None else f"{unit * values[figure]:.{digits}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", help="table of photos or features with splits")
    parser.add_argument("--name", required=True, help="of the page in experiments/results")
    parser.add_argument("--runs", type=Path, help="where the runs go (default: runs/NAME)")
    parser.add_argument("--set", nargs="*", default=[], help="train settings, as name=value")
    parser.add_argument("--render", action="store_true", help="train nothing, make the page of the stored runs")
    parser.add_argument("--note", default="", help="a sentence for the page, such as the machine")
    options = parser.parse_args()
    runs = options.runs or Path("runs") / options.name
    if not options.render:
        losses = {name: ALL_LOSSES[name] for name in LOSSES}
        settings = TrainSettings.build(parse_overrides(options.set))
        compare(read_data(options.data), losses, settings, folder=runs, progress=lambda name: ProgressLines())
    results = collect(runs)
    table = Path(options.data).name if options.data else "DATA"
    command = f"python experiments/photos.py {table} --name {options.name} --set {' '.join(options.set)}"
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{options.name}.json").write_text(json.dumps(results, indent=1) + "\n")
    text = page(results, command, options.note)
    (RESULTS / f"{options.name}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
