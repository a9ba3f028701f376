"""The page: what the stored runs say, no more and no less."""

import json

from experiments import default, linear_evaluation, tuning
from experiments.__main__ import RUNS
from experiments.evidence import DOCS, folded, machine_table, page_of, write_page
from experiments.runs import RunStore
from experiments.studies import STUDIES, Scope
from manyhot.training.comparison import slug


def test_the_page_is_what_the_kept_runs_give():
    page = (DOCS / "evidence.md").read_text(encoding="utf-8")
    assert page == page_of(RunStore(RUNS)), "run `python -m experiments page`"
    assert "{{" not in page


def test_every_kept_run_is_found_by_its_settings():
    """A key that is added to the settings must not hide runs that were made before: they are migrated with it."""
    store = RunStore(RUNS)
    comparison = default.DefaultComparison(store)
    jobs = [job for study in STUDIES.values() for job in study.runs(Scope())]
    jobs += [*tuning.jobs(), *tuning.pair_jobs(store)]
    for dataset in default.SETS:
        jobs += [*comparison.trials(dataset), *comparison.jobs(dataset)]
        jobs += [job for method in default.FIRST_METHODS for job in comparison.first_jobs(dataset, method)]
    result = {RUNS / job.file() for job in jobs if store.find(job) is not None}
    stored = {path for path in RUNS.rglob("*.json") if path.parent.name != linear_evaluation.FOLDER}
    assert stored - result == set()


def test_every_kept_run_of_the_linear_evaluation_is_found_by_its_settings():
    runs = [(RUNS, name, loss) for name in linear_evaluation.SETS for loss in linear_evaluation.LOSSES]
    result = {linear_evaluation.file_of(*run) for run in runs if linear_evaluation.find(*run) is not None}
    assert result == set((RUNS / linear_evaluation.FOLDER).iterdir())
    assert len(result) == 7


def test_no_section_says_that_there_are_no_runs_where_some_are_kept():
    page = (DOCS / "evidence.md").read_text(encoding="utf-8")
    without = [dataset for dataset in default.SETS if not (RUNS / "default" / slug(dataset)).exists()]
    assert page.count("No runs yet.") == len(without)
    assert all(f"### {dataset}\n\nNo runs yet." in page for dataset in without)


def test_a_page_without_runs_has_no_figures(tmp_path):
    write_page(RunStore(tmp_path / "runs"), tmp_path)
    page = (tmp_path / "evidence.md").read_text(encoding="utf-8")
    assert page.count("**not run**") == 11
    assert not list(tmp_path.rglob("*.png"))


def test_long_tables_are_folded():
    short = "a title:\n\n| x |\n| --- |\n| 1 |\n"
    long = "another:\n\n| x |\n| --- |\n" + "| 1 |\n" * 20
    text = folded(f"{short}\n{long}")
    assert "a title:\n\n| x |" in text
    assert '??? note "another"\n\n    | x |' in text


def test_tuned_hyperparameters_are_read_and_written_as_they_are_stored():
    stored = json.loads(tuning.TUNED.read_text())
    for family, (_, methods) in tuning.FAMILIES.items():
        for name, trials in methods.items():
            record = stored[family][name]
            scores = [trial["choice"] for trial in record["tried"]]
            assert tuning.shown(tuning.tuned(family, name), trials, scores) == record


def test_a_run_that_studies_share_is_counted_once(tmp_path):
    store = RunStore(tmp_path)
    studies = STUDIES["ranking"], STUDIES["many-labels"]
    ranked, evaluated = ({job.file(): job for job in study.runs(Scope())} for study in studies)
    shared = ranked.keys() & evaluated.keys()
    assert shared
    for file in shared:
        store.save(ranked[file], {"figures": {}, "device": "CPU", "samples a second": 1000})
    assert machine_table(store).splitlines()[2:] == [f"| coco features | CPU | {len(shared)} | 1,000 to 1,000 |"]
