"""The scikit-learn front: what scikit-learn's own checks ask, and what they do not."""

import pickle
import re
import sys
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import torch
from joblib import parallel_config
from scipy.sparse import csr_matrix, issparse
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import manyhot as mh
from manyhot.estimator import ManyHotClassifier, assign_folds
from tests.errors.expected import raises_input_error

pytestmark = pytest.mark.slow

NAMES = np.array(["bird", "cat", "dog"])
QUICK = {"strength": 1.0, "calibrator": None}


def make_data(rows=300, *, seed=0):
    draw = np.random.default_rng(seed)
    features = draw.normal(size=(rows, 5))
    weights = 2 * draw.normal(size=(3, 5))
    return features, (draw.random((rows, 3)) < 1 / (1 + np.exp(1 - features @ weights.T))).astype(int)


def lists(targets):
    return [[str(name) for name in NAMES[row == 1]] for row in targets]


# The check of other array libraries skips itself unless the environment asks for it.
CHECKS = [
    (estimator, check)
    for estimator in (ManyHotClassifier(**QUICK), ManyHotClassifier(strength=1.0, cv=2))
    for _, check in estimator_checks_generator(estimator)
    if "array_api" not in str(check)
]


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@pytest.mark.parametrize("number", range(len(CHECKS)))
def test_what_scikit_learn_asks(number):
    estimator, check = CHECKS[number]
    check(clone(estimator))


def test_one_class_a_sample_is_logistic_regression():
    features, _ = make_data()
    classes = np.array(["no", "perhaps", "yes"])[np.digitize(features[:, 0], [-0.5, 0.5])]
    for y in (classes, classes == "yes"):
        ours = ManyHotClassifier(standardise=False, tolerance=1e-12, **QUICK).fit(features, y)
        peer = LogisticRegression(tol=1e-10, max_iter=1000).fit(features, y)
        if len(peer.classes_) > 2:
            np.testing.assert_allclose(ours.predict_proba(features), peer.predict_proba(features), atol=1e-4)
        assert (ours.predict(features) == peer.predict(features)).mean() > 0.99
        assert list(ours.classes_) == list(peer.classes_)


def test_each_label_is_logistic_regression():
    features, targets = make_data()
    ours = ManyHotClassifier(standardise=False, tolerance=1e-12, **QUICK).fit(features, targets)
    for label in range(3):
        peer = LogisticRegression(tol=1e-10, max_iter=1000).fit(features, targets[:, label])
        np.testing.assert_allclose(
            ours.predict_proba(features)[:, label], peer.predict_proba(features)[:, 1], atol=1e-4
        )
        np.testing.assert_allclose(
            ours.decision_function(features)[:, label], peer.decision_function(features), atol=1e-3
        )


def test_answers_come_in_the_form_of_y():
    features, targets = make_data()
    dense = ManyHotClassifier(**QUICK).fit(features, targets).predict(features)
    assert dense.shape == targets.shape
    assert dense.dtype == targets.dtype
    sparse = ManyHotClassifier(**QUICK).fit(features, csr_matrix(targets)).predict(features)
    assert issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    for y in (lists(targets), [set(row) for row in lists(targets)]):
        model = ManyHotClassifier(**QUICK).fit(features, y)
        assert model.predict(features) == lists(dense)
        assert list(model.classes_) == list(NAMES)


def test_losses_have_short_names():
    features, targets = make_data()
    short, long = (ManyHotClassifier(**{**QUICK, "loss": loss}) for loss in ("SPA", "StrictlyProperAsymmetricLoss()"))
    np.testing.assert_array_equal(
        short.fit(features, targets).predict_proba(features), long.fit(features, targets).predict_proba(features)
    )
    with raises_input_error(hint="Did you mean BCE?"):
        ManyHotClassifier(**{**QUICK, "loss": "BCEE"}).fit(features, targets)


def test_columns_of_a_data_frame_are_the_classes():
    import pandas

    features, targets = make_data()
    model = ManyHotClassifier(**QUICK).fit(features, pandas.DataFrame(targets, columns=NAMES))
    assert list(model.classes_) == list(NAMES)
    np.testing.assert_array_equal(
        model.predict(features), ManyHotClassifier(**QUICK).fit(features, targets).predict(features)
    )


def test_unknown_cells_teach_nothing():
    features, targets = make_data()
    hidden = targets.copy()
    hidden[100:, 0] = -1
    model = ManyHotClassifier(standardise=False, **QUICK).fit(features, hidden)
    few = ManyHotClassifier(standardise=False, **QUICK).fit(features[:100], targets[:100])
    np.testing.assert_allclose(model.coef_[0], few.coef_[0], atol=1e-3)


def test_labels_that_are_never_or_always_there_are_answered_calmly():
    features, targets = make_data()
    targets[:, 0], targets[:, 1] = 0, 1
    for model in (
        ManyHotClassifier(**QUICK),
        ManyHotClassifier(strength=1.0),
        ManyHotClassifier(**QUICK, rule="AverageK(2)"),
    ):
        probs = model.fit(features, targets).predict_proba(features)
        assert (probs[:, 0] < 0.02).all()
        assert (probs[:, 1] > 0.98).all()
        assert np.isfinite(model.decision_function(features)).all()


def test_rows_without_labels_are_ordinary():
    features, targets = make_data()
    assert (targets.sum(1) == 0).any()
    answers = ManyHotClassifier(**QUICK).fit(features, lists(targets)).predict(features)
    assert [] in answers


def test_the_strength_is_chosen_and_pays():
    draw = np.random.default_rng(0)
    features = draw.normal(size=(700, 60))
    targets = (draw.random((700, 3)) < 1 / (1 + np.exp(1 - features[:, :3]))).astype(int)
    chosen = ManyHotClassifier(calibrator=None).fit(features[:200], targets[:200])
    weak = ManyHotClassifier(strength=1e-4, calibrator=None).fit(features[:200], targets[:200])
    assert 1 < chosen.strength_ < 1e4
    losses = [log_loss(targets[200:].ravel(), model.predict_proba(features[200:]).ravel()) for model in (chosen, weak)]
    assert losses[0] < 0.7 * losses[1]


def test_calibration_makes_overfitted_probabilities_honest():
    draw = np.random.default_rng(0)
    features = draw.normal(size=(3000, 60))
    targets = (draw.random((3000, 3)) < 1 / (1 + np.exp(1 - features[:, :3]))).astype(int)
    raw, calibrated = (
        ManyHotClassifier(strength=1e-3, calibrator=calibrator).fit(features[:300], targets[:300])
        for calibrator in (None, "auto")
    )
    losses = [log_loss(targets[300:].ravel(), m.predict_proba(features[300:]).ravel()) for m in (raw, calibrated)]
    assert losses[1] < losses[0]


@pytest.mark.parametrize(
    "loss", ["AsymmetricLoss(4, 1, 0.05)", "two-way-loss", mh.StrictlyProperAsymmetricLoss(), "FocalLoss"]
)
@pytest.mark.parametrize("rule", ["AverageK(1)", mh.TopK(1), "LabelThresholds()"])
def test_losses_and_rules_by_object_and_by_text(loss, rule):
    features, targets = make_data()
    model = ManyHotClassifier(loss, strength=1.0, rule=rule).fit(features, targets)
    assert f1_score(targets, model.predict(features), average="micro") > 0.5
    if "Label" not in str(rule):
        assert model.predict(features).sum(1).mean() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("options", [{}, {"calibrator": None}, {"strength": 1.0, "calibrator": None}], ids=str)
def test_the_constant_of_the_quasibinary_loss_is_found(options):
    features, targets = make_data(150)
    model = ManyHotClassifier("QuasibinaryLoss()", cv=3, **options).fit(features, targets)
    probs = model.predict_proba(features)
    assert probs.shape == targets.shape
    assert 0.7 < probs.sum() / np.sum(targets) < 1.3


def test_the_objects_that_were_given_stay_as_they_were():
    features, targets = make_data()
    rule, calibrator = mh.AverageK(1), mh.BetaCalibration()
    ManyHotClassifier(strength=1.0, rule=rule, calibrator=calibrator).fit(features, targets)
    assert not bool(rule.fitted)
    assert not bool(calibrator.fitted)


def test_it_works_with_the_tools_of_scikit_learn():
    features, targets = make_data()
    pipeline = make_pipeline(StandardScaler(), ManyHotClassifier(**QUICK))
    search = GridSearchCV(pipeline, {"manyhotclassifier__strength": [0.1, 1000.0]}, scoring="f1_micro", cv=2)
    search.fit(features, targets)
    assert search.best_params_ == {"manyhotclassifier__strength": 0.1}
    probs = cross_val_predict(ManyHotClassifier(**QUICK), features, targets, method="predict_proba", cv=3)
    assert probs.shape == targets.shape
    assert ((probs > 0.5) == targets).mean() > 0.75
    with parallel_config("threading"):  # other processes are told by the pickle below, and take seconds to start
        scores = cross_val_score(ManyHotClassifier(**QUICK), features, targets, scoring="f1_macro", n_jobs=2, cv=2)
    assert scores.min() > 0.5
    model = pickle.loads(pickle.dumps(ManyHotClassifier(**QUICK))).fit(features, targets)
    there = pickle.loads(pickle.dumps(model))
    assert np.array_equal(there.predict_proba(features), model.predict_proba(features))


def test_folds_are_of_one_size_and_share_rare_labels():
    targets = torch.zeros(103, 3, dtype=torch.int8)
    targets[:10, 0], targets[5:60, 1] = 1, 1
    dealt = assign_folds(targets, 5, random_state=0)
    assert dealt.bincount().tolist() == [21, 21, 21, 20, 20]
    assert dealt[:10].bincount().tolist() == [2, 2, 2, 2, 2]
    assert torch.equal(dealt, assign_folds(targets, 5, random_state=0))
    assert not torch.equal(dealt, assign_folds(targets, 5, random_state=1))


@pytest.mark.parametrize(
    ("words", "y", "sentence"),
    [
        ({"loss": "NoLoss()"}, [[0], [1]], "`loss` of `ManyHotClassifier` must name something known; got 'NoLoss'."),
        (
            {"loss": "BetaCalibration()"},
            [[0], [1]],
            "`loss` of `ManyHotClassifier` must be a loss; got BetaCalibration.",
        ),
        ({"calibrator": mh.TopK(1)}, [[0], [1]], "`calibrator` of `ManyHotClassifier` must be a calibrator; got TopK."),
        ({"rule": 3}, [[0], [1]], "`rule` of `ManyHotClassifier` must be a rule; got int."),
        (
            {"rule": "TopK(1)"},
            [0, 1],
            "`rule` of `ManyHotClassifier` must be None for one class a sample; got 'TopK(1)'.",
        ),
        ({"strength": -1}, [[0], [1]], "`strength` of `ManyHotClassifier` must be a number above 0; got -1."),
        ({"cv": 1}, [[0], [1]], "`cv` of `ManyHotClassifier` must be a whole number, at least 2; got 1."),
        ({}, [[0, 3], [1, 1]], "`targets` of `ManyHotClassifier` must be 1, 0 or -1; got 3."),
        ({}, [[], []], "`y` of `ManyHotClassifier` must name at least one label; got lists without any."),
        ({}, [["cat"], [], ["dog"]], "`y` of `ManyHotClassifier` must have as many samples as `X`, 2; got 3."),
    ],
)
def test_what_cannot_be_taken_is_refused(words, y, sentence):
    with raises_input_error(match=re.escape(sentence)):
        ManyHotClassifier(**words).fit([[0.0], [1.0]], y)


def test_probabilities_of_scores_that_only_rank_are_refused():
    features, targets = make_data()
    model = ManyHotClassifier("TwoWayLoss()", rule=mh.TopK(1), strength=1.0, calibrator=None)
    with raises_input_error(got="a loss whose scores only rank"):
        model.fit(features, targets).predict_proba(features)
    assert model.decision_function(features).shape == targets.shape


def test_it_says_what_it_needs(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    for name in [name for name in sys.modules if name.startswith("manyhot.estimator")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=r"needs scikit-learn. Install it with: pip install 'manyhot\[vision\]'$"):
        import_module("manyhot.estimator")


@pytest.mark.parametrize("page", ["linear.md", "sklearn.md"])
def test_the_examples_of_the_guides_run(page):
    names: dict[str, object] = {}
    state = torch.get_rng_state()
    for code in re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / "docs" / page).read_text(), re.DOTALL):
        exec(code, names)
    torch.set_rng_state(state)
    assert names
