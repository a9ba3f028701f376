"""The linear evaluation of frozen features, on small generated data."""

import json
import math

import numpy as np
import pytest
import torch

from experiments import linear_evaluation as study
from experiments.data import Generated
from tests.errors.expected import raises_input_error

NAME = "flowers features"


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(study, "STRENGTHS", (1e3, 1.0, 1e-2))
    monkeypatch.setattr(study, "LOSSES", {key: study.LOSSES[key] for key in ("softmax", "BCE", "two-way")})


def test_the_strengths_are_those_of_the_paper():
    assert len(study.STRENGTHS) == 45
    assert study.STRENGTHS[0] == 1e5
    assert math.isclose(study.STRENGTHS[-1], 1e-6)
    assert np.allclose(np.diff(np.log10(study.STRENGTHS)), -0.25)


def test_all_losses_run_once_and_give_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(study, "STRENGTHS", (10.0, 0.1))
    messages = []
    assert study.page(tmp_path, sets=[NAME]) == "No runs yet.\n"
    study.run(Generated(), tmp_path, sets=[NAME], log=messages.append)
    stored = sorted(path.name for path in tmp_path.rglob("*"))
    losses = ("bce", "quasibinary", "softmax", "spa", "two-way")
    assert stored == sorted([study.FOLDER, *(f"flowers-features-{loss}.json" for loss in losses)])
    assert len(messages) == 5
    monkeypatch.setattr(study, "evaluate", lambda splits, loss: pytest.fail("fitted again"))
    study.run(Generated(), tmp_path, sets=[NAME], log=messages.append)
    assert messages[-1] == f"{NAME}: done before."
    page = study.page(tmp_path, sets=[NAME])
    assert "120 rows to train on, 60 to choose on, 60 to evaluate on:" in page
    assert [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")][2:] == [
        f"| {loss}" for loss in study.LOSSES
    ]


def test_other_settings_are_computed_anew(tmp_path, quick, monkeypatch):
    study.run(Generated(), tmp_path, sets=[NAME], log=str)
    assert study.find(tmp_path, NAME, "BCE")["rows"] == {"train": 120, "drawn from": 120, "val": 60, "test": 60}
    monkeypatch.setattr(study, "MOST_ROWS", 50)
    assert study.find(tmp_path, NAME, "BCE") is None
    study.run(Generated(), tmp_path, sets=[NAME], log=str)
    assert study.find(tmp_path, NAME, "BCE")["rows"]["train"] == 50
    assert "50 rows drawn from 120 to train on" in study.page(tmp_path, sets=[NAME])


def test_softmax_is_the_multinomial_regression_of_scikit_learn(quick):
    from sklearn.linear_model import LogisticRegression

    splits = study.splits_of(NAME, Generated()(NAME))
    result = study.evaluate(splits, study.LOSSES["softmax"])
    train, val, test = ((x.double().numpy(), y.argmax(1).numpy()) for x, y in (splits[s] for s in splits))
    heads = [LogisticRegression(C=1 / s, max_iter=5000, tol=1e-8).fit(*train) for s in study.STRENGTHS]
    figures = [head.score(*val) for head in heads]
    assert result["path"]["val top-1"] == pytest.approx(figures, abs=1e-6)
    best = int(np.argmax(figures))
    assert result["chosen"]["index"] == best
    assert result["top-1"] == pytest.approx(heads[best].score(*test))
    assert result["top-1 at best on test"] == pytest.approx(max(head.score(*test) for head in heads))
    guesses = np.argsort(-heads[best].decision_function(test[0]), axis=1)[:, :5]
    assert result["top-5"] == pytest.approx((guesses == test[1][:, None]).any(1).mean())
    assert study.unpacked(result["right"]["top-1"], 60).tolist() == (guesses[:, 0] == test[1]).tolist()


def test_val_alone_chooses(quick):
    splits = study.splits_of(NAME, Generated()(NAME))
    before = study.evaluate(splits, study.LOSSES["BCE"])
    features, targets = splits["test"]
    after = study.evaluate({**splits, "test": (-features, targets)}, study.LOSSES["BCE"])
    assert after["top-1"] != before["top-1"]
    assert (after["chosen"], after["path"]) == (before["chosen"], before["path"])


def test_rows_are_drawn_once_and_for_all(monkeypatch):
    monkeypatch.setattr(study, "MOST_ROWS", 4)
    features, targets = torch.arange(10.0).unsqueeze(1), torch.arange(10).unsqueeze(1)
    one, other = study.drawn(features, targets), study.drawn(features, targets)
    assert one[0].flatten().tolist() == one[1].flatten().tolist() == other[1].flatten().tolist()
    assert len(set(one[1].flatten().tolist())) == 4
    assert torch.equal(study.drawn(features[:4], targets[:4])[0], features[:4])


def test_ties_and_what_is_not_a_number_are_no_hits():
    scores = torch.tensor([[3.0, 2.0, 1.0], [1.0, 1.0, 0.0], [torch.nan, 0.0, 0.0], [2.0, torch.nan, 0.0]])
    targets = torch.tensor([[1, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    assert study.hits(scores, targets, 1).tolist() == [True, False, False, False]
    assert study.hits(scores, targets, 2).tolist() == [True, True, False, True]
    assert study.hits(scores, targets.flip(1), 2).tolist() == [False, False, False, False]


def test_truth_values_survive_as_text():
    right = torch.rand(83, generator=torch.Generator().manual_seed(0)) < 0.7
    assert study.unpacked(study.packed(right), 83).tolist() == right.tolist()


def test_differences_are_those_of_resampled_rows():
    generator = np.random.default_rng(1)
    one = generator.random(300) < 0.8
    other = np.where(generator.random(300) < 0.1, ~one, one)
    mean, low, high = study.difference(one, other)
    assert mean == pytest.approx(one.mean() - other.mean())
    gaps = one.astype(int) - other.astype(int)
    by_rows = gaps[generator.integers(300, size=(10_000, 300))].mean(1)
    assert (low, high) == pytest.approx(np.quantile(by_rows, [0.025, 0.975]), abs=0.005)
    assert study.difference(one, other) == (mean, low, high)
    assert study.difference(one, one) == (0, 0, 0)


def test_bold_are_the_best_and_what_may_equal_it(tmp_path, quick):
    study.run(Generated(), tmp_path, sets=[NAME], log=str)
    shares = {"softmax": 60, "BCE": 59, "two-way": 30}
    for loss, count in shares.items():
        path = study.file_of(tmp_path, NAME, loss)
        result = json.loads(path.read_text())
        result["right"]["top-1"] = study.packed(torch.arange(60) < count)
        path.write_text(json.dumps(result))
    rows = [line for line in study.page(tmp_path, sets=[NAME]).splitlines() if line.startswith("| ")][2:]
    cells = [row.strip("| ").split(" | ")[:3] for row in rows]
    assert cells[0][1:] == ["**100.0 (94.0 to 100.0)**", "–"]
    assert cells[1][1:] == ["**98.3 (91.1 to 99.7)**", "-1.7 (-5.0 to +0.0)"]
    assert cells[2][1] == "50.0 (37.7 to 62.3)"


def test_what_is_not_one_label_a_row_of_features_is_refused(tmp_path):
    with raises_input_error(rule="name sets of frozen features", got="'flowers'", hint="Use 'flowers features'."):
        study.run(Generated(), tmp_path, sets=["flowers"], log=str)
    with raises_input_error(rule="have exactly one label a row", got="other rows in 'train' of 'coco features'"):
        study.run(Generated(), tmp_path, sets=["coco features"], log=str)
