"""The estimator itself."""

from __future__ import annotations

import copy
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from manyhot.calibrate import Beta, Calibrator, SoftmaxTemperature
from manyhot.checks import check_count, check_number
from manyhot.decide import Rule, Threshold
from manyhot.decide.rule import Unclipped, rule_values
from manyhot.estimator.answers import OWNER, Answers, form_of
from manyhot.estimator.folds import cross_validate
from manyhot.linear import LinearPath, fit_path
from manyhot.links import NoLink, QuasibinaryLink
from manyhot.losses import BinaryCrossEntropyLoss, CrossEntropyLoss
from manyhot.losses.loss import Loss
from manyhot.refusal import refusal

try:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.utils.validation import check_is_fitted, validate_data
except ImportError:
    raise ImportError(
        "The scikit-learn front needs scikit-learn. Install it with: pip install 'manyhot[vision]'"
    ) from None

Array = np.ndarray[Any, Any]

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
        calibrator: "auto" for `Beta`, or `SoftmaxTemperature` for one class a sample; a calibrator or a text such as
            "Isotonic()"; None to believe the link of the loss.
        rule: A rule or a text such as "AverageK(3)"; None for a threshold of 0.5. For sets of labels only: of
            one class a sample, the most probable one is given.
        standardise: Whether features are brought to mean 0 and variance 1.
        folds: Of the cross-validation.
        tolerance: Of the fit, see `manyhot.linear.fit_path`.
        seed: For dealing samples to folds.

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
        folds: int = 5,
        tolerance: float = 1e-6,
        seed: int = 0,
    ) -> None:
        self.loss = loss
        self.strength = strength
        self.calibrator = calibrator
        self.rule = rule
        self.standardise = standardise
        self.folds = folds
        self.tolerance = tolerance
        self.seed = seed

    def fit(self, X: Any, y: Any) -> Self:
        """Learns from features (N, D) and what their labels are."""
        form, y = form_of(y)
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        targets = form.encode(y)
        if len(targets) != len(X):
            rule = f"have as many samples as `X`, {len(X)}"
            raise refusal("y", OWNER, rule, str(len(targets)), "Pass both of the same samples.")
        features = torch.from_numpy(np.require(X, requirements=["C", "W"]))
        self.form_, self.loss_ = form, self._make_loss(form)
        self.calibrator_, self.rule_ = self._make_calibrator(form), self._make_rule(form)
        path, index = self._learn(features, targets)
        self.strength_, self.classes_ = float(path.strengths[index]), form.classes
        self.coef_, self.intercept_ = path.weights[index].numpy(), path.bias[index].numpy()
        return self

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the labels (N, K); of one class a sample, scores (N, K), or (N,) for two classes."""
        scores = self._scores(X)
        if not self.form_.single:
            if self.calibrator_ is None and isinstance(self.loss_.link, NoLink):
                return scores.numpy()
            return self._log_odds(scores).numpy()
        if scores.shape[1] == 2:
            return (scores[:, 1] - scores[:, 0]).numpy()
        return scores.numpy()

    def predict_proba(self, X: Any) -> Array:
        """The probability of each label (N, K); of one class a sample, rows sum to 1."""
        return self._probs(self._scores(X)).numpy()

    def predict(self, X: Any) -> Any:
        """What is answered for each sample, in the form of the `y` that was fitted."""
        scores = self._scores(X)
        if self.form_.single:
            best = scores.argmax(1)
            return self.form_.decode(torch.nn.functional.one_hot(best, scores.shape[1]).bool())
        assert self.rule_ is not None
        # A rule that only compares also takes scores that mean no probabilities.
        return self.form_.decode(self.rule_(self._values(scores)).labels)

    def _learn(self, features: Tensor, targets: Tensor) -> tuple[LinearPath, int]:
        """The path on all samples, and the number of its strength; fits calibrator and rule on the way."""
        strengths = STRENGTHS
        if self.strength is not None:
            strengths = [check_number("strength", OWNER, self.strength, low=0, low_open=True)]

        def fit(some: Tensor, their_targets: Tensor) -> LinearPath:
            return fit_path(
                some,
                their_targets,
                self.loss_,
                strengths=strengths,
                standardise=self.standardise,
                tolerance=self.tolerance,
            )

        folds = min(check_count("folds", OWNER, self.folds, low=2), len(features))
        index = 0
        to_fit = [part for part in (self.calibrator_, self.rule_) if part is not None and not bool(part.fitted)]
        link = self.loss_.link
        if len(strengths) > 1 or to_fit or isinstance(link, QuasibinaryLink):
            unseen = cross_validate(features, targets, self.loss_, fit, folds=folds, seed=self.seed)
            index = unseen.best
            if isinstance(link, QuasibinaryLink):
                link.fit([(unseen.scores, targets)])
            if self.calibrator_ is not None:
                self.calibrator_.fit(unseen.scores, targets)
            if self.rule_ is not None:
                self.rule_.fit(self._values(unseen.scores), targets)
        return fit(features, targets), index

    def _scores(self, X: Any) -> Tensor:
        check_is_fitted(self)
        X = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return torch.from_numpy((X @ self.coef_.T + self.intercept_).astype(self.coef_.dtype, copy=False))

    def _values(self, scores: Tensor) -> Tensor | Unclipped:
        """What the rule decides on: probabilities, or scores where they only rank and the rule only compares."""
        assert self.rule_ is not None
        ranks = self.calibrator_ is None and isinstance(self.loss_.link, NoLink)
        if ranks and not self.rule_.needs_probs and not isinstance(self.rule_, Threshold):
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

    def _make_loss(self, form: Answers) -> Loss:
        if self.loss is None:
            return CrossEntropyLoss() if form.single else BinaryCrossEntropyLoss()
        loss: Loss = self._made(self.loss, Loss, "loss")
        return loss

    def _make_calibrator(self, form: Answers) -> Calibrator | None:
        if self.calibrator is None or (len(form.classes) == 1 and form.single):
            return None
        if isinstance(self.calibrator, str) and self.calibrator == "auto":
            return SoftmaxTemperature() if form.single and self.loss_.single_label else Beta(link=self.loss_.link)
        calibrator: Calibrator = self._made(self.calibrator, Calibrator, "calibrator")
        return calibrator

    def _make_rule(self, form: Answers) -> Rule | None:
        if self.rule is None:
            return None if form.single else Threshold(0.5)
        if form.single:
            remedy = "Leave it out, or pass `y` as a table (N, K)."
            raise refusal("rule", OWNER, "be None for one class a sample", repr(self.rule), remedy)
        rule: Rule = self._made(self.rule, Rule, "rule")
        return rule

    def _made(self, value: Any, base: type, argument: str) -> Any:
        """A part of this classifier alone: built from a text, or copied from the object that was given."""
        from manyhot.training.choices import build_loss, build_part

        if isinstance(value, str):
            value = build_loss(value, owner=OWNER) if base is Loss else build_part(value, base, argument, OWNER)
        if not isinstance(value, base):
            remedy = "Pass an object of manyhot, or a text that makes one."
            raise refusal(argument, OWNER, f"be a {base.__name__.lower()}", type(value).__name__, remedy)
        return copy.deepcopy(value)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags
