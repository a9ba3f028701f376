"""The scikit-learn estimator, for pipelines, grid searches and cross-validation."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, Self

import numpy as np
import torch
from torch import Tensor

from manyhot.calibrate import BetaCalibration, Calibrator, SoftmaxTemperature
from manyhot.checks import as_targets, as_tensor, check_int, check_number
from manyhot.decide import Rule, Threshold
from manyhot.decide.rule import Unclipped, rule_values
from manyhot.errors import InputError
from manyhot.labels import Labels, one_hot
from manyhot.linear import LinearPath, fit_path
from manyhot.losses import BinaryCrossEntropyLoss, SoftmaxCrossEntropyLoss
from manyhot.losses.loss import Loss
from manyhot.metrics.calibration import LogLoss
from manyhot.metrics.ranking import average_precision

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        "The scikit-learn front needs scikit-learn. Install it with: pip install 'manyhot[vision]'"
    ) from None

Array = np.ndarray[Any, Any]
OWNER = "ManyHotClassifier"

# Strengths that are tried where none is given: half a decade apart.
STRENGTHS = [10.0 ** (5 - step / 2) for step in range(19)]


class ManyHotClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier for samples with zero, one or many labels, whose probabilities are calibrated.

    `fit` takes `y` as people have it: a table (N, K) of 1 present, 0 absent and -1 unknown, dense or as a sparse
    matrix; a list of names for each sample; or one class a sample. `predict` answers in the same form. Strength,
    calibrator and rule are learnt by cross-validation, from scores of samples that the scoring head has not seen; the
    head itself is then fitted on all samples.

    Args:
        loss: A loss, or a text such as "AsymmetricLoss(4, 1)"; by default cross-entropy, of each label for sets of
            labels and by softmax for one class a sample.
        strength: Of the L2 penalty, 1 / C of scikit-learn; None to choose it by cross-validation.
        calibrator: "auto" for `BetaCalibration`, or `SoftmaxTemperature` for one class per sample; a calibrator or a
            text such as "IsotonicCalibration()"; None for the link of the loss alone.
        rule: A rule or a text such as "AverageK(3)"; None for a threshold of 0.5. For sets of labels only: of
            one class a sample, the most probable one is given.
        standardise: Whether features are brought to mean 0 and variance 1.
        cv: Of the cross-validation.
        tolerance: Of the fit, see `manyhot.linear.fit_path`.
        random_state: For dealing samples to folds.

    Attributes:
        classes_: (K,) classes, names of labels or numbers of columns, in the order of the columns of `predict_proba`.
        strength_: The strength that was used.
        coef_: (K, D) weights.
        intercept_: (K,) bias.
        n_features_in_: The number D of features.

    Example:
        >>> from manyhot.estimator import ManyHotClassifier
        >>> features = [[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.0]] * 10
        >>> names = [["dog"], ["cat"], ["cat", "dog"], []] * 10
        >>> ManyHotClassifier(strength=0.1).fit(features, names).predict(features[:4])
        [['dog'], ['cat'], ['cat', 'dog'], []]
    """

    def __init__(
        self,
        loss: Loss | str | None = None,
        *,
        strength: float | None = None,
        calibrator: Calibrator | str | None = "auto",
        rule: Rule | str | None = None,
        standardise: bool = True,
        cv: int = 5,
        tolerance: float = 1e-6,
        random_state: int = 0,
    ) -> None:
        self.loss = loss
        self.strength = strength
        self.calibrator = calibrator
        self.rule = rule
        self.standardise = standardise
        self.cv = cv
        self.tolerance = tolerance
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from features (N, D) and what their labels are."""
        form, targets = read_targets(y)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        if len(targets) != len(X):
            rule = f"have as many samples as `X`, {len(X)}"
            raise InputError("y", OWNER, rule, str(len(targets)), "Pass both of the same samples.")
        features = torch.from_numpy(np.require(X, requirements=["C", "W"]))
        self.form_, self.classes_ = form, form.classes
        self.loss_, self.calibrator_, self.rule_ = self._parts()
        path, index = self._learn(features, targets)
        self.strength_ = float(path.strengths[index])
        self.coef_, self.intercept_ = path.weights[index].numpy(), path.bias[index].numpy()
        return self

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the labels (N, K); of one class a sample, scores (N, K), or (N,) for two classes."""
        scores = self._scores(X)
        if self.form_.single and scores.shape[1] == 2:
            return (scores[:, 1] - scores[:, 0]).numpy()
        return (scores if self.form_.single or self._only_ranks else self._log_odds(scores)).numpy()

    def predict_proba(self, X: Any) -> Array:
        """The probability of each label (N, K); of one class a sample, rows sum to 1."""
        return self._probs(self._scores(X)).numpy()

    def predict(self, X: Any) -> Any:
        """What is answered for each sample, in the form of the `y` that was fitted."""
        scores = self._scores(X)
        if self.form_.single:
            return self.form_.decode(one_hot(scores.argmax(1), scores.shape[1]))
        assert self.rule_ is not None
        # A rule that only compares also takes scores that mean no probabilities.
        return self.form_.decode(self.rule_(self._values(scores)).labels)

    def _learn(self, features: Tensor, targets: Tensor) -> tuple[LinearPath, int]:
        """The path on all samples, and the number of its strength; fits calibrator and rule on the way."""
        strengths = STRENGTHS
        if self.strength is not None:
            strengths = [check_number("strength", OWNER, self.strength, "(0, inf)")]
        fit = partial(
            fit_path, loss=self.loss_, strengths=strengths, standardise=self.standardise, tolerance=self.tolerance
        )
        cv = min(check_int("cv", OWNER, self.cv, low=2), len(features))
        index, link = 0, self.loss_.link
        unfitted = any(part is not None and not bool(part.fitted) for part in (self.calibrator_, self.rule_))
        if len(strengths) > 1 or unfitted or link.needs_fit:
            index, scores = cross_validate(features, targets, self.loss_, fit, cv=cv, random_state=self.random_state)
            if link.needs_fit:
                link.fit([(scores, targets)])
            if self.calibrator_ is not None:
                self.calibrator_.fit(scores, targets)
            if self.rule_ is not None:
                self.rule_.fit(self._values(scores), targets)
        return fit(features, targets), index

    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return torch.from_numpy((X @ self.coef_.T + self.intercept_).astype(self.coef_.dtype, copy=False))

    @property
    def _only_ranks(self) -> bool:
        return self.calibrator_ is None and not self.loss_.link.gives_probs

    def _values(self, scores: Tensor) -> Tensor | Unclipped:
        """What the rule decides on: probabilities, or scores where they only rank and the rule only compares."""
        assert self.rule_ is not None
        if self._only_ranks and not self.rule_.needs_probs and not isinstance(self.rule_, Threshold):
            return scores
        return rule_values(self._probs(scores), scores, self.loss_.link)

    @torch.no_grad()
    def _log_odds(self, scores: Tensor) -> Tensor:
        return self.loss_.link.log_odds(scores) if self.calibrator_ is None else self.calibrator_.log_odds(scores)

    @torch.no_grad()
    def _probs(self, scores: Tensor) -> Tensor:
        probs = self.loss_.link.probs(scores) if self.calibrator_ is None else self.calibrator_(scores)
        if self.form_.single:
            # Exactly one class is present, which a loss of each label by itself does not know.
            probs = probs / probs.sum(1, keepdim=True)
        return probs

    def _parts(self) -> tuple[Loss, Calibrator | None, Rule | None]:
        """Loss, calibrator and rule of this classifier alone, whose defaults depend on the form of `y`."""
        single, rule = self.form_.single, self.rule
        if single and rule is not None:
            hint = "Leave it out, or pass `y` as a table (N, K)."
            raise InputError("rule", OWNER, "be None for one class a sample", repr(rule), hint)
        by_default = SoftmaxCrossEntropyLoss if single else BinaryCrossEntropyLoss
        loss = by_default() if self.loss is None else self._made(self.loss, Loss)
        calibrator = None
        if isinstance(self.calibrator, str) and self.calibrator == "auto":
            # It takes the link of the loss itself, which may be fitted later.
            calibrator = SoftmaxTemperature() if single and loss.single_label else BetaCalibration(link=loss.link)
        elif self.calibrator is not None:
            calibrator = self._made(self.calibrator, Calibrator)
        if single and len(self.classes_) == 1:
            calibrator = None
        if rule is not None or not single:
            rule = Threshold(0.5) if rule is None else self._made(rule, Rule)
        return loss, calibrator, rule

    def _made(self, value: Any, base: type) -> Any:
        """A part of this classifier alone: built from a text, or copied from the object that was given."""
        from manyhot.training.build import build_loss, build_part

        argument = base.__name__.lower()
        if isinstance(value, str):
            value = build_loss(value, owner=OWNER) if base is Loss else build_part(value, base, argument, OWNER)
        if not isinstance(value, base):
            hint = "Pass an object of manyhot, or a text that makes one."
            raise InputError(argument, OWNER, f"be a {argument}", type(value).__name__, hint)
        return copy.deepcopy(value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


FitPath = Callable[[Tensor, Tensor], LinearPath]


def assign_folds(targets: Tensor, cv: int, *, random_state: int) -> Tensor:
    """(N,) the fold of each row; folds have equal sizes, and rare labels are spread evenly."""
    present = targets == 1
    order = present.sum(0).argsort(stable=True)
    # The position of a row's rarest label; rows without any come last.
    rarest = torch.where(present[:, order].any(1), present[:, order].int().argmax(1), targets.shape[1])
    shuffled = torch.randperm(len(targets), generator=torch.Generator().manual_seed(random_state))
    ordered = shuffled[rarest[shuffled].argsort(stable=True)]
    fold_of = torch.empty(len(targets), dtype=torch.int64)
    fold_of[ordered] = torch.arange(len(targets)) % cv
    return fold_of


def cross_validate(
    features: Tensor, targets: Tensor, loss: Loss, fit: FitPath, *, cv: int, random_state: int
) -> tuple[int, Tensor]:
    """Fits a path on all folds but each one, which is scored by the strength that is best over all folds.

    Returns:
        The number of that strength, and the scores (N, K) of each sample by the head that has not seen it.
    """
    fold_of = assign_folds(targets, cv, random_state=random_state)
    scorer = scorer_of(loss)
    paths, total = [], torch.zeros(())
    for fold in range(cv):
        held_out = fold_of == fold
        path = fit(features[~held_out], targets[~held_out])
        figures = path.choose(features[held_out], targets[held_out], by=scorer).figures
        # A fold without any label that can be evaluated does not count.
        total = total + figures.nan_to_num(0.0) * int(held_out.sum())
        paths.append(path)
    best = int(total.argmax())
    scores = torch.zeros(targets.shape, dtype=paths[0].weights.dtype)
    for fold, path in enumerate(paths):
        scores[fold_of == fold] = path.scores(features[fold_of == fold], best)
    return best, scores


def scorer_of(loss: Loss) -> Callable[[Tensor, Tensor], Tensor]:
    """Log-likelihood where the scores mean probabilities, and mean average precision where they only rank.

    Those of the quasibinary loss mean probabilities but for a constant, which is another one for each head.
    """
    if not loss.link.gives_probs or loss.link.needs_fit:
        return lambda scores, targets: average_precision(scores, targets).nanmean()

    def log_likelihood(scores: Tensor, targets: Tensor) -> Tensor:
        probs = loss.link.probs(scores.double())
        if loss.single_label:
            return (probs.clamp(min=1e-15).log() * (targets == 1)).sum(1).mean()
        return -torch.tensor(LogLoss().update(probs, targets).compute()["log_loss"])

    return log_likelihood


@dataclass(frozen=True)
class TargetForm:
    """The form of `y`, in which `predict` answers.

    Attributes:
        kind: One class a sample (N,), a table (N, K) of 1 present, 0 absent and -1 unknown, the same as a sparse
            matrix, or a list of names for each sample, which may be empty.
        classes: (K,) the classes or labels, in the order of the columns.
        dtype: That of a table.
    """

    kind: Literal["classes", "table", "sparse", "names"]
    classes: Array
    dtype: Any = None

    @property
    def single(self) -> bool:
        """Whether each sample has exactly one class."""
        return self.kind == "classes"

    def decode(self, labels: Tensor) -> Any:
        """Decisions (N, K) in this form."""
        if self.kind == "classes":
            return self.classes[labels.int().argmax(1).numpy()]
        if self.kind == "names":
            return Labels(self.classes.tolist()).decode(labels)
        table = labels.numpy().astype(self.dtype)
        if self.kind == "table":
            return table
        from scipy.sparse import csr_matrix

        return csr_matrix(table)


def read_targets(y: Any) -> tuple[TargetForm, Tensor]:
    """The form of `y`, and the targets (N, K) in it; the columns of a data frame are its classes."""
    from scipy.sparse import issparse
    from sklearn.exceptions import DataConversionWarning
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_y

    if y is None:
        raise ValueError(f"This {OWNER} estimator requires y to be passed, but the target y is None.")
    if lists_of_names(y):
        names = sorted({str(name) for row in y for name in row})
        if not names:
            raise InputError("y", OWNER, "name at least one label", "lists without any", "Pass some labelled samples.")
        return TargetForm("names", np.asarray(names)), Labels(names).encode(y)
    sparse = issparse(y)
    array = y.toarray() if sparse else np.asarray(y)
    if array.ndim == 2 and array.shape[1] == 1 and not sparse and not is_indicator(array):
        message = "A column-vector y was passed when a 1d array was expected. Please change the shape of y."
        warnings.warn(message, DataConversionWarning, stacklevel=3)
        array = array.ravel()
    if array.ndim == 2:
        classes = np.asarray(getattr(y, "columns", range(array.shape[1])))
        table = as_tensor(OWNER, array, "y")
        form = TargetForm("sparse" if sparse else "table", classes, array.dtype)
        return form, as_targets(OWNER, table, table, name="y")
    flat = _check_y(array, multi_output=False, y_numeric=False)
    check_classification_targets(flat)
    classes, codes = np.unique(flat, return_inverse=True)
    return TargetForm("classes", classes), one_hot(torch.from_numpy(codes), len(classes))


def is_indicator(table: Array) -> bool:
    """Whether a table holds 1, 0 and -1 alone."""
    return table.dtype.kind in "biuf" and bool(np.isin(table, (-1, 0, 1)).all())


def lists_of_names(y: Any) -> bool:
    """Whether `y` is a list of collections of strings, of which some may be empty."""
    several = isinstance(y, list | tuple) or (isinstance(y, np.ndarray) and y.dtype == object and y.ndim == 1)
    rows, kinds = y if several else (), list | tuple | set | frozenset
    return len(rows) > 0 and all(isinstance(row, kinds) and all(isinstance(name, str) for name in row) for row in rows)
