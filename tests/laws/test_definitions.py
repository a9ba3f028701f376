"""What the losses are by definition: reductions, special cases, oracles by loops, and second derivatives."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh


def batch(rows=6, labels=5, seed=0):
    draw = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, labels, generator=draw, dtype=torch.float64) * 2
    targets = (torch.rand(rows, labels, generator=draw) < 0.4).int()
    targets[0] = 0
    return scores, targets


ADDITIVE = {
    "bce": mh.BinaryCrossEntropyLoss,
    "focal": mh.FocalLoss,
    "asl": mh.AsymmetricLoss,
    "spa": mh.StrictlyProperAsymmetricLoss,
}


@pytest.mark.parametrize("make", ADDITIVE.values(), ids=ADDITIVE)
class TestAdditive:
    def test_reductions_agree(self, make):
        scores, targets = batch()
        targets[2, 1] = targets[4] = -1
        cells = make(reduction="none")(scores, targets)
        assert cells.shape == scores.shape
        assert bool((cells[targets < 0] == 0).all())
        torch.testing.assert_close(make(reduction="sum")(scores, targets), cells.sum())
        torch.testing.assert_close(make()(scores, targets), cells.sum() / (targets >= 0).sum())
        torch.testing.assert_close(make(reduction="batchmean")(scores, targets), cells.sum() / 5)

    def test_soft_targets_mix_the_branches(self, make):
        scores, _ = batch()
        loss = make()
        present, absent = loss(scores, torch.ones_like(scores)), loss(scores, torch.zeros_like(scores))
        torch.testing.assert_close(loss(scores, torch.full_like(scores, 0.3)), 0.3 * present + 0.7 * absent)

    def test_soft_targets_can_be_learned(self, make):
        scores, _ = batch()
        targets = torch.full_like(scores, 0.3).requires_grad_()
        loss = make(reduction="sum")
        (gradient,) = torch.autograd.grad(loss(scores, targets), targets)
        none = make(reduction="none")
        want = none(scores, torch.ones_like(scores)) - none(scores, torch.zeros_like(scores))
        torch.testing.assert_close(gradient, want)

    def test_pos_weight_multiplies_present_labels(self, make):
        scores, targets = batch()
        weight = torch.tensor([0.5, 1.0, 2.0, 3.0, 10.0], dtype=torch.float64)
        plain = make(reduction="none")(scores, targets)
        weighted = make(reduction="none", pos_weight=weight)(scores, targets)
        torch.testing.assert_close(weighted, torch.where(targets > 0, plain * weight, plain))

    def test_second_derivatives(self, make):
        scores, targets = batch(3, 3)
        assert torch.autograd.gradgradcheck(lambda s: make()(s, targets), scores.requires_grad_())

    @pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32, torch.float16])
    def test_kinds_of_targets(self, make, dtype):
        scores, targets = batch()
        assert make()(scores, targets.to(dtype)).item() == pytest.approx(make()(scores, targets).item(), abs=1e-15)


def test_a_small_weight_keeps_its_digits():
    scores, targets = batch()
    loss = mh.StrictlyProperAsymmetricLoss(pos_weight=1e-6, reduction="none")
    torch.testing.assert_close(loss(scores.float(), targets), loss(scores, targets).float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("loss", [mh.FocalLoss(0.5, 0.5), mh.AsymmetricLoss(0.7, 0.5, 0.2)], ids=str)
def test_plain_formulas_have_finite_gradients_too(loss):
    scores = torch.tensor([[-1e3, -100.0, 100.0, 1e3]])
    targets = torch.tensor([[1.0, 0.0, 0.0, 1.0]])
    assert bool(torch.func.grad(loss)(scores, targets).isfinite().all())
    leaf = scores.clone().requires_grad_()
    assert bool(torch.autograd.grad(loss(leaf, targets.requires_grad_()), leaf)[0].isfinite().all())


def test_half_precision_spares_what_was_learnt():
    """A loss inside of a model that is turned to half keeps its weights and its normaliser exact."""
    scores, targets = batch()
    for dtype in (torch.float16, torch.bfloat16):
        loss = mh.BinaryCrossEntropyLoss(pos_weight=[300.3, 1e5, 1.0, 1.0, 1.0])
        want = loss(scores, targets).item()
        assert loss.to(dtype)(scores, targets).item() == want
        quasibinary = mh.QuasibinaryLoss().to(dtype)
        quasibinary(scores, targets)
        assert quasibinary.link.log_normaliser.dtype == torch.float64


def test_pairs_keep_the_link_of_the_loss_where_they_are_compared_by_it():
    loss = mh.LabelPairRegulariser(mh.FocalLoss(), weight=0.1)
    assert loss.pair_link is loss.link is loss.loss.link
    loss = mh.LabelPairRegulariser(mh.AsymmetricLoss(), weight=0.1, link=mh.SigmoidLink())
    assert isinstance(loss.link, mh.links.NoLink)
    assert isinstance(loss.pair_link, mh.SigmoidLink)
    same = mh.links.StrictlyProperAsymmetricLink()
    assert mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=0.1, link=same).link.gives_probs


def test_focal_without_focus_is_cross_entropy():
    scores, targets = batch()
    want = F.binary_cross_entropy_with_logits(scores, targets.double())
    for loss in (mh.FocalLoss(0, 0), mh.AsymmetricLoss(0, 0, 0), mh.BinaryCrossEntropyLoss()):
        torch.testing.assert_close(loss(scores, targets), want)


def test_spa_of_equal_branches_is_cross_entropy():
    scores, targets = batch()
    loss = mh.StrictlyProperAsymmetricLoss(zeta_neg=1, k_neg=1, b_neg=0)
    torch.testing.assert_close(loss(scores, targets), mh.BinaryCrossEntropyLoss()(scores, targets))
    torch.testing.assert_close(loss.link.probs(scores), torch.sigmoid(scores))


def test_cross_entropy_is_that_of_torch():
    scores, _ = batch()
    labels = torch.tensor([0, 1, 4, 2, 2, 3])
    want = F.cross_entropy(scores, labels)
    one_hot = mh.one_hot(labels, 5)
    torch.testing.assert_close(mh.losses.SoftmaxCrossEntropyLoss()(scores, one_hot), want)
    torch.testing.assert_close(mh.losses.MultiLabelSoftmaxLoss()(scores, one_hot), want)
    torch.testing.assert_close(mh.TwoWayLoss("sample", temperature_pos=2.5)(scores, one_hot), want)


def test_two_way_second_derivatives():
    scores, targets = batch(4, 3)
    assert torch.autograd.gradgradcheck(lambda s: mh.TwoWayLoss()(s, targets), scores.requires_grad_())


def test_a_row_with_all_labels_costs_the_two_way_loss_nothing():
    assert mh.TwoWayLoss("sample")(torch.tensor([[500.0, -500.0]]), torch.tensor([[1, 1]])).item() == 0.0


def pair_loop(scores, targets):
    """Every pair by itself."""
    rows = []
    for s, y in zip(scores.tolist(), targets.tolist(), strict=True):
        known = [v for v in y if v >= 0]
        pairs = sum(
            math.log1p(math.exp(-abs(n - p))) + max(n - p, 0)
            for p, yp in zip(s, y, strict=True)
            for n, yn in zip(s, y, strict=True)
            if yp == 1 and yn == 0
        )
        rows.append(pairs * 2 / (len(known) * (len(known) - 1)) if len(known) > 1 else 0.0)
    return rows


def warp_loop(scores, targets, ramp=None):
    """The formula with two loops."""
    rows = []
    for s, y in zip(scores.tolist(), targets.tolist(), strict=True):
        total = 0.0
        absent = [n for n, yn in zip(s, y, strict=True) if yn == 0]
        for p, yp in zip(s, y, strict=True):
            if yp == 1:
                rank = sum(n + 1 > p for n in absent)
                hinges = [max(0.0, 1 - p + n) for n in absent]
                hinges = [min(h, 1 - ramp) for h in hinges] if ramp is not None else hinges
                total += sum(1 / j for j in range(1, rank + 1)) * sum(hinges)
        if ramp is not None:
            alone = (1 - v if yv == 1 else 1 + v for v, yv in zip(s, y, strict=True) if yv >= 0)
            total += sum(min(max(a, 0.0), 1 - ramp) for a in alone)
        rows.append(total)
    return rows


cells = st.integers(1, 6).flatmap(
    lambda k: st.lists(
        st.tuples(
            st.lists(st.integers(-6, 6).map(lambda i: i / 2), min_size=k, max_size=k),
            st.lists(st.sampled_from([1, 0, 0, -1]), min_size=k, max_size=k),
        ),
        min_size=1,
        max_size=5,
    )
)


@settings(deadline=None, max_examples=150)
@given(cells)
def test_pairs_and_ranks_agree_with_loops(rows):
    """On any batch, with ties and unknown cells: the sorted sums are the pair sums."""
    scores = torch.tensor([row[0] for row in rows], dtype=torch.float64)
    targets = torch.tensor([row[1] for row in rows])
    known_rows = max(1, int((targets >= 0).any(1).sum()))
    pairs = mh.LabelPairRegulariser(mh.BinaryCrossEntropyLoss(), weight=1.0)(scores, targets)
    want = mh.BinaryCrossEntropyLoss()(scores, targets).item() + sum(pair_loop(scores, targets)) / known_rows
    assert pairs.item() == pytest.approx(want, abs=1e-12)
    warp = mh.losses.WARPLoss(reduction="none")(scores, targets).tolist()
    assert warp == pytest.approx(warp_loop(scores, targets), abs=1e-12)
    rml = mh.losses.RMLLoss(floor=-0.5, reduction="none")(scores, targets).tolist()
    assert rml == pytest.approx(warp_loop(scores, targets, ramp=-0.5), abs=1e-12)


def test_pairs_have_no_second_derivative_and_say_so():
    scores, targets = batch()
    scores.requires_grad_()
    value = mh.LabelPairRegulariser(mh.BinaryCrossEntropyLoss(), weight=1.0)(scores, targets)
    (first,) = torch.autograd.grad(value, scores, create_graph=True)
    with pytest.raises(
        RuntimeError, match="`LabelPairRegulariser` has no second derivatives; leave `create_graph` out"
    ):
        torch.autograd.grad(first.sum(), scores)


def test_what_a_loss_takes_besides_has_a_name():
    scores, _ = batch()
    observed = mh.one_hot(torch.tensor([0, 1, 4, 2, 2, 3]), 5)
    role = mh.losses.ROLELoss(observed, expected_labels=1.5)
    rows = torch.tensor([5, 4, 3, 2, 1, 0])
    assert role(scores, observed[rows], rows=rows).item() == role(scores, observed[rows], rows).item()
    noise = torch.randn(6, 3, 5)
    top = mh.losses.NoisedTopKLoss(2)
    assert top(scores, observed, noise=noise).item() == top(scores, observed, noise).item()


class TestQuasibinary:
    def test_average_only_while_training(self):
        scores, targets = batch()
        loss = mh.QuasibinaryLoss()
        loss(scores, targets)
        before = loss.link.log_normaliser.clone()
        loss.eval()(scores + 3, targets)
        assert loss.link.log_normaliser.item() == before.item()
        loss.train()(scores + 3, targets)
        assert loss.link.log_normaliser.item() > before.item()

    def test_batch_without_labels_changes_nothing(self):
        scores, targets = batch()
        loss = mh.QuasibinaryLoss()
        assert loss(scores, targets * 0).item() == 0.0
        assert not loss.link.fitted
        loss(scores, targets)
        before = loss.link.log_normaliser.clone()
        loss(scores, targets * 0)
        assert loss.link.log_normaliser.item() == before.item()

    def test_share_of_violations(self):
        scores = torch.tensor([[9.0, 0.0, 0.0, 0.0]])
        loss = mh.QuasibinaryLoss()
        loss(scores, torch.tensor([[1, 1, 0, 0]]))
        assert loss.violation_share.item() == 0.25

    def test_the_gradient_flows_through_the_normaliser(self):
        scores, targets = batch()
        scores.requires_grad_()
        (gradient,) = torch.autograd.grad(mh.QuasibinaryLoss(penalty_weight=0)(scores, targets), scores)
        q = torch.exp(scores - torch.logsumexp(scores.flatten(), 0)) * targets.sum()
        torch.testing.assert_close(gradient, (q - targets) / len(scores))


class TestAverageK:
    def test_sets_average_k(self):
        draw = torch.Generator().manual_seed(3)
        scores = torch.randn(20, 2, 8, generator=draw)
        targets = mh.one_hot(torch.randint(8, (20,), generator=draw), 8)
        for k, count in ((1, 0), (1.5, 10), (2.3, 26), (3, 40), (100, 140)):
            loss = mh.AverageKLoss(k)
            candidates = loss.candidates(loss.check(scores, targets))
            assert int(candidates.sum()) == count
            assert not bool((candidates * targets).any())

    def test_rows_without_labels_are_left_out(self):
        draw = torch.Generator().manual_seed(3)
        scores = torch.randn(6, 2, 4, generator=draw)
        targets = mh.one_hot(torch.tensor([0, 1, -1, 2, -1, 3]), 4)
        some = [0, 1, 3, 5]
        loss = mh.AverageKLoss(2)
        torch.testing.assert_close(loss(scores, targets), loss(scores[some], targets[some]))


def test_noised_top_k_draws_noise_by_itself():
    scores, _ = batch()
    targets = mh.one_hot(torch.tensor([0, 1, 2, 3, 4, 0]), 5)
    torch.manual_seed(0)
    first = mh.losses.NoisedTopKLoss(2)(scores, targets)
    torch.manual_seed(0)
    assert mh.losses.NoisedTopKLoss(2)(scores, targets).item() == first.item()
    assert mh.losses.NoisedTopKLoss(2)(scores, targets).item() != first.item()


def test_role_starts_from_what_was_observed():
    targets = mh.one_hot(torch.tensor([0, 2]), 3)
    guesses = torch.sigmoid(mh.losses.ROLELoss(targets, 1.0).guesses)
    assert bool((guesses[targets > 0] - 0.995).abs().max() < 1e-6)
    others = guesses[targets == 0]
    assert 0.4 <= others.min().item() <= others.max().item() <= 0.6


@pytest.mark.parametrize("make", [*ADDITIVE.values(), mh.losses.MultiLabelSoftmaxLoss, mh.QuasibinaryLoss], ids=str)
def test_transforms_of_torch_func(make):
    """`torch.func.grad` and `vmap` see the plain formula: the same gradient, for each of several batches at once."""
    scores, targets = batch()
    several = torch.stack([scores, scores.flip(0), 2 * scores])
    loss = make().eval()
    got = torch.func.vmap(torch.func.grad(loss), in_dims=(0, None))(several, targets.double())
    for one, gradient in zip(several, got, strict=True):
        leaf = one.clone().requires_grad_()
        (want,) = torch.autograd.grad(loss(leaf, targets), leaf)
        torch.testing.assert_close(gradient, want)
