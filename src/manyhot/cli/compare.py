"""`manyhot compare`: the same data and effort with each of several losses."""

from __future__ import annotations

import json
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any

import typer

from manyhot.cli import options
from manyhot.cli.data_options import (
    CorrectionsOption,
    DataArgument,
    LabelsColumnOption,
    LayoutOption,
    PathColumnOption,
    RootOption,
    SeparatorOption,
    SplitColumnOption,
    UnlistedOption,
)
from manyhot.cli.options import JsonOption, OverwriteOption
from manyhot.cli.train_options import (
    BackboneOption,
    BadImageOption,
    BatchOption,
    CalibratorOption,
    ConfigOption,
    EpochsOption,
    RateOption,
    RuleOption,
    RunOption,
    SeedOption,
    SetOption,
    SizeOption,
    TuneOption,
    WorkersOption,
    build_recipe,
    describe_source,
    extraction_bar,
    read_source,
)
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from rich.table import Table

    from manyhot.training import Comparison

LossesOption = Annotated[
    list[str] | None,
    typer.Option("--losses", "-l", help="A loss as in Python or by its short name; repeat it, or say all (default)."),
]


def compare(
    data: DataArgument,
    losses: LossesOption = None,
    out: RunOption = None,
    backbone: BackboneOption = None,
    size: SizeOption = None,
    tune: TuneOption = None,
    epochs: EpochsOption = None,
    batch_size: BatchOption = None,
    lr: RateOption = None,
    calibrator: CalibratorOption = None,
    rule: RuleOption = None,
    config: ConfigOption = None,
    set_: SetOption = None,
    seed: SeedOption = None,
    workers: WorkersOption = None,
    on_bad_image: BadImageOption = None,
    layout: LayoutOption = None,
    path_column: PathColumnOption = None,
    labels_column: LabelsColumnOption = None,
    split_column: SplitColumnOption = None,
    separator: SeparatorOption = None,
    root: RootOption = None,
    unlisted: UnlistedOption = None,
    corrections: CorrectionsOption = None,
    overwrite: OverwriteOption = False,
    as_json: JsonOption = False,
) -> None:
    """Train with each of several losses on the same rows for the same number of steps, and learn which suits your data.

    Runs that are there already, from the same settings, are not trained again.

    [b]Examples[/b]

    manyhot compare photos.csv

    manyhot compare photos.csv -l BCE -l SPA -l "AsymmetricLoss(gamma_neg=2)" --epochs 10

    manyhot compare photos.csv --losses all -o runs/photos-losses
    """
    given = dict(locals())
    from manyhot.distributed import rank
    from manyhot.training import compare as compare_losses
    from manyhot.training.choices import losses_for
    from manyhot.training.comparing import slug
    from manyhot.training.run import stem_of

    tell = options.console()
    recipe, _ = build_recipe(config, set_, given)
    source = describe_source(data, given)
    dataset = read_source(source, "compare", tell, recipe)
    if dataset.targets is None:
        raise refusal("DATA", "manyhot compare", "have labels", "none", "Pass a table with labels.")
    chosen, notes = losses_for(losses or ["all"], dataset.targets)
    if len({slug(name) for name in chosen}) < len(chosen):
        raise refusal("--losses", "manyhot compare", "be different", ", ".join(chosen), "Name each loss once.")
    options.tell_notes(notes, tell)
    # Always the same one for the same data, so that a comparison can be taken up again.
    folder = out or Path("runs") / f"{stem_of(source['paths'][0])}-losses"
    watch = lambda total: extraction_bar(total, tell)  # noqa: E731
    shown = Announced(tell, len(chosen))
    comparison = compare_losses(
        dataset,
        chosen,
        recipe,
        folder=folder,
        source=source,
        progress=shown.of,
        watch=watch,
        overwrite=overwrite,
        notes=lambda note: options.tell_notes([note], tell),
    )
    if rank() > 0:
        return
    show(comparison, as_json=as_json)


class Announced:
    """Says which loss is trained, and shows a bar for it in a terminal.

    Args:
        tell: Where to.
        total: How many losses there are.
    """

    def __init__(self, tell: Any, total: int) -> None:
        self.tell, self.total, self.begun = tell, total, 0

    def of(self, name: str) -> Any:
        """What shows the training with one loss."""
        from manyhot.engine import Bar, Silent

        self.begun += 1
        self.tell.print(f"{self.begun}/{self.total} {name}")
        return Bar(self.tell) if self.tell.is_terminal else Silent()


def show(comparison: Comparison, *, as_json: bool) -> None:
    """The table for people, and where the picture lies."""
    picture = None if comparison.too_small else draw(comparison)
    if as_json:
        typer.echo(json.dumps({"folder": str(comparison.folder), "picture": picture, **comparison.to_dict()}))
        return
    from rich.console import Console

    console = Console(highlight=False)
    if comparison.too_small:
        console.print(f"On the rows of {comparison.judged!r}: {comparison.too_small}", markup=False)
        console.print(f"Wrote {comparison.folder}: comparison.json, one run a loss.", markup=False, soft_wrap=True)
        return
    console.print(as_table(comparison))
    best = comparison.best("log_loss_per_row")
    console.print(
        f"Best probabilities: {best}. Best ranking: {comparison.best('map')}. Of losses that hardly differ, "
        "take the one with the lower log loss: everything else follows from honest probabilities.",
        markup=False,
    )
    where = f"{picture}" if picture else "no picture, for which: pip install 'manyhot[report]'"
    console.print(f"Wrote {comparison.folder}: comparison.json, one run a loss, {where}.", markup=False, soft_wrap=True)
    text = comparison.rows[best]["loss"]
    console.print(f"Next: manyhot train DATA --loss {quote(text)}", markup=False, soft_wrap=True)


def draw(comparison: Comparison) -> str | None:
    """Writes the picture; None without matplotlib."""
    from manyhot.training.drawing import draw_comparison

    try:
        figure = draw_comparison(comparison)
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        return None
    path = comparison.folder / "comparison.png"
    figure.savefig(path, dpi=120)
    return str(path)


def as_table(comparison: Comparison) -> Table:
    """One row a loss: ranking, probabilities before and after calibration, decisions."""
    from rich.table import Table

    table = Table(title=f"Judged on the rows of {comparison.judged!r}", title_style="bold")
    table.add_column("Loss")
    for heading in ("mAP\n%", "mAP rows\n%", "Log loss\nown link", "Log loss\ncalibr.", "ACE %\nown", "ACE %\ncalibr."):
        table.add_column(heading, justify="right")
    table.add_column("F1\n%", justify="right")
    table.add_column("Time\ns", justify="right")
    for name, row in comparison.rows.items():
        before, after = row["before"] or {}, row["after"]
        cells = [
            cell(comparison, name, "map", after, 100, 1),
            cell(comparison, name, "map_sample", after, 100, 1),
            cell(None, name, "log_loss_per_row", before, 1, 3),
            cell(comparison, name, "log_loss_per_row", after, 1, 3),
            cell(None, name, "ace", before, 100, 1),
            cell(comparison, name, "ace", after, 100, 1),
            cell(comparison, name, "micro_f", after, 100, 1),
        ]
        table.add_row(name, *cells, f"{row['seconds']:.0f}")
    return table


def cell(
    comparison: Comparison | None, loss: str, figure: str, values: dict[str, Any], unit: float, digits: int
) -> str:
    """A figure as text, bold for the best loss."""
    value = values.get(figure)
    if value is None:
        return "–"
    text = f"{unit * value:.{digits}f}"
    return f"[b]{text}[/b]" if comparison is not None and comparison.best(figure) == loss else text
