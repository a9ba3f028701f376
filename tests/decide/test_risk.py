"""Promises about new data: kept on populations that are known, and held against plain searches and MAPIE."""

import math

import numpy as np
import pytest
import torch
from mapie.risk_control import MultiLabelClassificationController
from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

import manyhot as mh
from manyhot.decide.risk import allowed_loss

SEEDS = 1000


def population(rows, seed):
    """Samples with values that are no probabilities, and with rows without labels."""
    draw = torch.Generator().manual_seed(seed)
    chances = torch.rand(rows, 5, generator=draw, dtype=torch.float64) ** 3
    targets = (torch.rand(rows, 5, generator=draw) < chances).int()
    return chances + 0.15 * torch.randn(rows, 5, generator=draw, dtype=torch.float64), targets


def missed(values, targets, threshold):
    """Share of present labels that is missed, for rows with a label; plainly."""
    present = targets == 1
    rows = present.any(1)
    return ((present & (values < threshold)).sum(1) / present.sum(1).clamp(min=1))[rows]


def wrong(values, targets, threshold):
    """Share of given labels that is wrong, for rows with a known cell; plainly."""
    given = (values >= threshold) & (targets >= 0)
    return ((given & (targets == 0)).sum(1) / given.sum(1).clamp(min=1))[(targets >= 0).any(1)]


def largest_wrong(values, targets, threshold):
    """The largest share of wrong labels at any threshold from this one on: it changes at the row's own values only."""
    shares, known = [torch.zeros(len(values), dtype=torch.float64)], targets >= 0
    for cut in values.split(1, dim=1):
        given = (values >= cut) & known
        share = (given & (targets == 0)).sum(1) / given.sum(1).clamp(min=1).double()
        shares.append(torch.where(cut.squeeze(1) >= threshold, share, 0.0))
    return torch.stack(shares).amax(0)[known.any(1)]


def with_unknown(values, targets, seed=0):
    hidden = torch.rand(targets.shape, generator=torch.Generator().manual_seed(seed)) < 0.2
    return values, torch.where(hidden, -1, targets)


class TestAgainstPlainSearch:
    """Every threshold that can make a difference is tried."""

    @pytest.mark.parametrize("digits", [8, 1], ids=["distinct", "ties"])
    @pytest.mark.parametrize("delta", [None, 0.2])
    @pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5])
    def test_misses(self, alpha, delta, digits):
        values, targets = with_unknown(*population(60, 1))
        values = values.round(decimals=digits)
        rule = mh.ConformalRiskControl(alpha, delta=delta).fit(values, targets)
        rows = int((targets == 1).any(1).sum())
        budget = allowed_loss(rows, alpha, delta)
        fine = [t for t in values[targets == 1].tolist() if missed(values, targets, t).sum() <= budget + 1e-9]
        assert rule.threshold.item() == (max(fine) if budget >= 0 else -math.inf)
        assert bool(rule.reached) == (budget >= 0)

    @pytest.mark.parametrize("digits", [8, 1], ids=["distinct", "ties"])
    @pytest.mark.parametrize("delta", [None, 0.2])
    @pytest.mark.parametrize("alpha", [0.1, 0.3, 0.6])
    def test_errors(self, alpha, delta, digits):
        values, targets = with_unknown(*population(60, 2))
        values = values.round(decimals=digits)
        rule = mh.ConformalRiskControl(alpha, "false_discoveries", delta=delta).fit(values, targets)
        budget = allowed_loss(int((targets >= 0).any(1).sum()), alpha, delta)
        known = values[targets >= 0].unique()
        if delta is None:
            bad = [t for t in known.tolist() if largest_wrong(values, targets, t).sum() > budget + 1e-9]
        else:
            bad = [t for t in known.tolist() if wrong(values, targets, t).sum() > budget + 1e-9]
        want = known > max(bad, default=-math.inf)
        assert bool(rule.reached)
        assert torch.equal(known >= rule.threshold, want)

    def test_rows_without_labels_change_nothing_for_misses(self):
        values, targets = population(80, 3)
        labelled = (targets == 1).any(1)
        assert not labelled.all()
        whole = mh.ConformalRiskControl(0.2).fit(values, targets)
        part = mh.ConformalRiskControl(0.2).fit(values[labelled], targets[labelled])
        assert whole.threshold == part.threshold


@pytest.mark.slow
class TestPromises:
    """Over many held-out sets, on a large sample of the population that none of them has seen."""

    values, targets = population(40_000, 10**6)

    @staticmethod
    def thresholds(rows, *arguments, **options):
        rules = [mh.ConformalRiskControl(*arguments, **options).fit(*population(rows, seed)) for seed in range(SEEDS)]
        return np.array([rule.threshold.item() for rule in rules])

    def risks(self, loss, thresholds):
        """The risk at each threshold, read off a fine table of the population."""
        grid = np.unique(np.quantile(thresholds[np.isfinite(thresholds)], np.linspace(0, 1, 60)))
        table = [loss(self.values, self.targets, cut).mean().item() for cut in grid]
        return np.interp(thresholds, grid, table)

    @pytest.mark.parametrize(("rows", "alpha"), [(60, 0.1), (200, 0.3)])
    def test_misses_on_average(self, rows, alpha):
        risk = self.risks(missed, self.thresholds(rows, alpha)).mean()
        labelled = rows * (self.targets == 1).any(1).double().mean().item()
        assert alpha - 2 / (labelled + 1) - 0.005 <= risk <= alpha + 0.004

    @pytest.mark.slow
    @pytest.mark.parametrize(("rows", "alpha"), [(60, 0.3), (200, 0.45)])
    def test_errors_on_average(self, rows, alpha):
        thresholds = self.thresholds(rows, alpha, "false_discoveries")
        assert self.risks(wrong, thresholds).mean() <= alpha + 0.004
        # What is controlled is the largest share so far, and what is allowed of it is used.
        assert alpha - 2 / (rows + 1) - 0.005 <= self.risks(largest_wrong, thresholds).mean() <= alpha + 0.004

    def test_misses_with_high_probability(self):
        risks = self.risks(missed, self.thresholds(200, 0.2, delta=0.1))
        assert (risks > 0.2).mean() <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / SEEDS)
        assert risks.mean() > 0.1, "the promise is kept without giving everything"

    def test_errors_with_high_probability(self):
        risks = self.risks(wrong, self.thresholds(200, 0.3, "false_discoveries", delta=0.1))
        assert (risks > 0.3).mean() <= 0.1 + 3 * math.sqrt(0.1 * 0.9 / SEEDS)
        assert risks.mean() > 0.15, "the promise is kept without giving nothing"


class TestBudget:
    def test_the_mean_promise_leaves_room_for_the_new_row(self):
        for rows in (10, 57, 300):
            assert (allowed_loss(rows, 0.1, None) + 1) / (rows + 1) == pytest.approx(0.1)

    @pytest.mark.parametrize("rows", [5, 40, 300, 20_000])
    @pytest.mark.parametrize("alpha", [0.02, 0.1, 0.5, 0.9])
    @pytest.mark.parametrize("delta", [0.01, 0.1, 0.5])
    def test_the_sure_promise_uses_the_p_values_of_hoeffding_and_bentkus(self, rows, alpha, delta):
        budget = allowed_loss(rows, alpha, delta)
        means = np.array([max(budget, 0.0), max(budget, 0.0) + 0.002]) / rows
        below, above = compute_hoeffding_bentkus_p_value(means, rows, alpha).flatten()
        if budget < 0:
            assert below > delta
        else:
            assert below <= delta * (1 + 1e-6)
            assert above > delta or math.ceil(budget + 1e-9) > rows

    @pytest.mark.parametrize(("risk", "want"), [("false_negatives", -math.inf), ("false_discoveries", math.inf)])
    @pytest.mark.parametrize("delta", [None, 0.1])
    def test_too_few_rows_take_the_safe_end(self, risk, want, delta):
        values, targets = population(9, 0)
        rule = mh.ConformalRiskControl(0.05, risk, delta=delta).fit(values, targets)
        assert rule.threshold.item() == want
        assert not rule.reached

    @pytest.mark.parametrize("rows", range(1, 60))
    def test_the_least_number_of_rows_is_not_lost_to_rounding(self, rows):
        rule = mh.ConformalRiskControl(1 / (rows + 1)).fit(torch.arange(float(rows)).unsqueeze(1), torch.ones(rows, 1))
        assert rule.reached
        assert rule.threshold.item() == 0.0

    def test_one_row_more_is_enough(self):
        values = torch.arange(9.0).unsqueeze(1)
        targets = torch.ones(9, 1)
        assert mh.ConformalRiskControl(0.1).fit(values, targets).threshold.item() == 0.0
        assert not mh.ConformalRiskControl(0.1).fit(values[1:], targets[1:]).reached


def test_errors_that_never_happen_let_everything_pass():
    rule = mh.ConformalRiskControl(0.1, "false_discoveries").fit(torch.rand(50, 3), torch.ones(50, 3))
    assert rule.threshold.item() == -math.inf
    assert rule.reached


@pytest.mark.slow
class TestAgainstMapie:
    @pytest.mark.parametrize("alpha", [0.1, 0.25])
    def test_misses_agree_where_all_rows_have_labels(self, alpha):
        values, targets = population(120, 5)
        labelled = (targets == 1).any(1)
        probs, targets = torch.sigmoid(values[labelled]), targets[labelled]
        points = np.concatenate([[0.0], np.unique(probs.numpy())])
        grid = (points[:-1] + points[1:]) / 2
        peer = MultiLabelClassificationController(
            predict_function=lambda x: x, method="crc", target_level=1 - alpha, predict_params=grid
        ).calibrate(probs.numpy(), targets.numpy())
        rule = mh.ConformalRiskControl(alpha).fit(probs, targets)
        assert np.array_equal(rule(probs).labels.numpy(), peer.predict(probs.numpy())[:, :, 0])

    def test_the_peer_refuses_rows_without_labels_and_this_rule_does_not(self):
        values, targets = population(60, 5)
        probs = torch.sigmoid(values)
        peer = MultiLabelClassificationController(predict_function=lambda x: x, method="crc", target_level=0.8)
        with pytest.raises(ValueError, match="All observations should contain at least one label"):
            peer.calibrate(probs.numpy(), targets.numpy())
        assert mh.ConformalRiskControl(0.2).fit(probs, targets).reached


@pytest.mark.parametrize("rows", [2, 200], ids=["few", "enough"])
@pytest.mark.parametrize("delta", [None, 0.1])
def test_errors_of_infinite_value_are_not_given(rows, delta):
    values = torch.tensor([[torch.inf, 1.0]]).expand(rows, 2)
    rule = mh.ConformalRiskControl(0.2, "false_discoveries", delta=delta).fit(
        values, torch.tensor([[0, 1]]).expand(rows, 2)
    )
    assert not rule(values).labels.any()


def test_labels_of_infinite_value_are_given():
    values = torch.tensor([[torch.inf, 1.0]]).expand(200, 2)
    rule = mh.ConformalRiskControl(0.2).fit(values, torch.tensor([[1, 0]]).expand(200, 2))
    assert rule(values).labels[0].tolist() == [True, False]
