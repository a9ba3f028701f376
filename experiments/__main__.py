"""Repeats the experiments: trains what is missing, prints the tables, and writes the page."""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from experiments import default, linear_evaluation, tuning
from experiments.data import Catalogue, Generated
from experiments.runs import SEEDS, RunStore, run_all, shorten
from experiments.studies import STUDIES, Scope
from manyhot.errors import InputError

RUNS = Path(__file__).parent / "results" / "runs"
EXAMPLES = """examples:
  python -m experiments list
  python -m experiments one-label --data DATA              train what is missing, print the table
  python -m experiments uniform --data DATA --sets cub cars --results mine
  python -m experiments all --smoke                        seconds, on generated data
  python -m experiments tune --data DATA                   six trials for every method, on validation data
  python -m experiments linear-evaluation --data DATA      linear classifiers on frozen features
  python -m experiments default --data DATA                the default settings against the papers, on DATA/tables/*.npz
  python -m experiments page                               docs/evidence.md and its figures, from the stored runs

DATA holds one folder a data set, such as DATA/tiny-imagenet, in its usual layout; see experiments/README.md.
"""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description=__doc__,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [*STUDIES, *OTHERS, "all", "list"]
    parser.add_argument("names", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", default=[], help="data sets to use instead of those of the study")
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS), help="seeds of the runs")
    parser.add_argument("--results", type=Path, default=RUNS, help="folder of the stored runs")
    parser.add_argument("--weights", type=Path, help="safetensors file of EfficientNet-Lite0, if not installed")
    parser.add_argument("--workers", type=int, default=1, help="runs at once, each in a process of its own")
    parser.add_argument("--minutes", type=float, help="begin no further run after so long")
    parser.add_argument("--render", action="store_true", help="train nothing, print the tables of the stored runs")
    parser.add_argument("--smoke", action="store_true", help="two epochs on small generated data, nothing is stored")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Runs the named studies and commands; returns 1 if a run failed, 2 for a mistake on the command line."""
    options = parse(arguments)
    try:
        return _run(options)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    if "list" in options.names:
        for study in STUDIES.values():
            print(f"{study.name:18s} {study.title} ({', '.join(study.sets)})")
        print(f"{'linear-evaluation':18s} Linear classifiers on frozen features ({', '.join(linear_evaluation.SETS)})")
        print(f"{'default':18s} The default settings against the papers ({'; '.join(default.SETS)})")
        return 0
    studies = [name for name in options.names if name in STUDIES or name == "all"]
    others = [name for name in OTHERS if name in options.names]
    if options.smoke:
        if others:
            rule, hint = "be given with studies alone", "Leave it out, or name other studies."
            raise InputError("--smoke", "experiments", rule, ", ".join(others), hint)
        with tempfile.TemporaryDirectory() as folder:
            return _studies(studies, options, Generated(), RunStore(Path(folder)))
    needs_data = not options.render and options.names != ["page"]
    if needs_data and (options.data is None or not options.data.is_dir()):
        hint = "Make one folder a data set in it; see --help."
        raise InputError("--data", "experiments", "be the folder of the data sets", str(options.data), hint)
    catalogue = None if options.data is None else Catalogue(options.data, weights=options.weights)
    store = RunStore(options.results)
    failed = 0
    for name in others:
        failed += OTHERS[name](options, catalogue, store)
    return max(failed, _studies(studies, options, catalogue, store)) if studies else failed


def _studies(
    names: list[str], options: argparse.Namespace, catalogue: Catalogue | Generated | None, store: RunStore
) -> int:
    chosen = list(STUDIES.values()) if "all" in names else [STUDIES[name] for name in names]
    scope = Scope(tuple(options.sets), tuple(options.seeds), shorten if options.smoke else None)
    failed = 0
    if not options.render:
        assert catalogue is not None
        jobs = [job for study in chosen for job in study.runs(scope)]
        failed = run_all(jobs, catalogue, store, workers=options.workers, minutes=options.minutes)
    for study in chosen:
        print(f"\n## {study.title}\n\n{study.page(scope, store)}")
    return min(failed, 1)


def _linear(options: argparse.Namespace, catalogue: Catalogue | Generated | None, store: RunStore) -> int:
    sets = tuple(options.sets) or linear_evaluation.SETS
    if not options.render:
        assert catalogue is not None
        linear_evaluation.run(catalogue, store.folder, sets=sets, log=print)
    print(linear_evaluation.page(store.folder))
    return 0


def _default(options: argparse.Namespace, catalogue: Catalogue | None, store: RunStore) -> int:
    sets = tuple(options.sets) or default.SETS
    comparison = default.DefaultComparison(store, seeds=tuple(options.seeds))
    if not options.render:
        comparison.run(default.FeatureFiles(options.data / "tables"), sets)
    print(comparison.page(sets))
    return 0


def _tune(options: argparse.Namespace, catalogue: Catalogue | None, store: RunStore) -> int:
    failed = 0
    if not options.render:
        assert catalogue is not None
        run = partial(run_all, open_dataset=catalogue, store=store, workers=options.workers, minutes=options.minutes)
        failed = run(tuning.jobs())
        failed += run(tuning.pair_jobs(store))
    tuning.write(store)
    return min(failed, 1)


def _page(options: argparse.Namespace, catalogue: Catalogue | None, store: RunStore) -> int:
    from experiments.evidence import write_page

    write_page(store)
    return 0


OTHERS = {"tune": _tune, "linear-evaluation": _linear, "default": _default, "page": _page}


if __name__ == "__main__":
    sys.exit(main())
