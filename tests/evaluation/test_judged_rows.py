"""Which rows are evaluated, and the message where they are too few."""

import pytest
import torch

import manyhot as mh
from manyhot.cli.train import print_comparison as show_comparison
from manyhot.cli.train import print_run
from manyhot.data import from_arrays
from manyhot.evaluation.result import value_rows
from manyhot.training.run import summary
from tests.errors.expected import raises_input_error
from tests.evaluation import tables


def with_splits(*names, rows=400):
    table = tables.with_link(rows=rows)
    probs = table.probabilities()
    splits = [names[row % len(names)] for row in range(rows)]
    return table.replace(probs=probs, decisions=mh.Threshold()(probs), rule=mh.Threshold(), splits=splits)


@pytest.mark.parametrize("stored", [False, True])
def test_the_split_test_is_judged_where_there_is_one(tmp_path, stored):
    table = with_splits("val", "test", "val", "val")
    if stored:
        table.save(tmp_path / "table.parquet")
        table = mh.Predictions.open(tmp_path / "table.parquet")
    found, want = mh.evaluate(table), mh.evaluate(table.of_split("test"))
    assert found.counts["rows"] == 100
    assert found.values == pytest.approx(want.values, nan_ok=True)
    assert str(found).startswith("Evaluation of 100 rows of the split 'test' x 6 labels")
    assert any("left out: 'val' (300)" in note for note in found.notes)
    assert found.to_dict()["split"] == "test"


def test_a_split_that_is_called_otherwise_is_judged_like_test():
    found = mh.evaluate(with_splits("Validation", "Testing", "Validation", "train"))
    assert (found.split, found.counts["rows"]) == ("Testing", 100)
    assert mh.evaluate(with_splits("eval", "test")).split == "test"
    rosy = mh.evaluate(with_splits("Validation", "fold 1")).notes
    assert any("'Validation'" in note and "too optimistic" in note for note in rosy)


def test_another_split_or_all_rows_are_judged_when_asked_for():
    table = with_splits("val", "test")
    assert mh.evaluate(table, split="val").values == pytest.approx(
        mh.evaluate(table.of_split("val")).values, nan_ok=True
    )
    whole = mh.evaluate(table, split="all")
    assert (whole.split, whole.counts["rows"]) == (None, 400)
    with raises_input_error(got="'dev'"):
        mh.evaluate(table, split="dev")


def test_rows_that_were_learnt_from_are_said_to_be_so():
    assert any("'val'" in note and "too optimistic" in note for note in mh.evaluate(with_splits("val")).notes)
    assert any("'val'" in note and "too optimistic" in note for note in mh.evaluate(with_splits("val", "dev")).notes)
    assert mh.evaluate(with_splits("test")).notes == []
    assert mh.evaluate(tables.with_link()).notes == []


def test_a_run_shows_its_figures_to_the_digits_of_the_evaluation():
    evaluation = mh.evaluate(with_splits("val", "test"))
    printed = {
        title: value for group in evaluation.groups.values() for title, value, *_ in value_rows(group, evaluation)
    }
    closing = {title: value for title, _, value in summary(evaluation, None, calibrated=True)[1:]}
    assert len(closing) == 8
    assert closing.items() <= printed.items()


def small(rows):
    draw = torch.Generator().manual_seed(0)
    targets = torch.randint(2, (rows, 3), generator=draw)
    return mh.Predictions(scores=4.0 * targets - 2, targets=targets, link=mh.SigmoidLink())


def test_too_few_rows_are_told_of_instead_of_figures():
    few = mh.evaluate(small(1))
    assert few["map_sample"] == 1.0
    for shown in (str(few), few._repr_html_(), str(few.by_label())):
        assert "100.00" not in shown
        assert "100.0" not in shown
    for shown in (str(few), few._repr_html_()):
        assert "Too few rows to evaluate: 1 row with known labels" in shown
    assert few.to_dict()["too_small"].startswith("Too few rows to evaluate")
    enough = mh.evaluate(small(30))
    assert enough.too_small is None
    assert "mAP over labels  " in str(enough)
    assert "100.00 %" in str(enough)


def test_rows_of_which_nothing_is_known_do_not_count():
    table = small(30)
    table.targets[0] = -1
    assert "29 rows" in mh.evaluate(table).too_small


def test_a_training_on_ten_rows_claims_nothing(tmp_path, capsys):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(10, 4, generator=draw)
    data = from_arrays(features.numpy(), (features[:, :2] > 0).int().numpy())
    run = mh.train(data, mh.TrainSettings.build({"epochs": 1, "hidden": 0}), folder=tmp_path / "run")
    print_run(run, None)
    shown = " ".join(capsys.readouterr().out.split())
    assert run.figures["judged"] == "test"
    assert "On the rows of 'test', held out from training. Too few rows to evaluate: 1 row" in shown
    assert "mAP" not in shown
    assert "Too few rows to evaluate" in run._repr_html_()
    assert "Too few rows to evaluate" in run.figures["after"]["too_small"]


def test_a_comparison_on_too_few_rows_names_no_winner(tmp_path, capsys):
    draw = torch.Generator().manual_seed(0)
    features = torch.randn(10, 4, generator=draw)
    data = from_arrays(features.numpy(), (features[:, :2] > 0).int().numpy())
    recipe = mh.TrainSettings.build({"epochs": 1, "hidden": 0})
    comparison = mh.compare(data, {"BCE": "BCE"}, recipe, folder=tmp_path / "runs")
    show_comparison(comparison, as_json=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Too few rows to evaluate: 1 row" in shown
    assert "Best" not in shown
    assert "Too few rows to evaluate" in comparison._repr_html_()
