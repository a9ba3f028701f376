"""The messages of invalid input: the argument, the constraint, the received value and a fix."""

import re

import pytest
import torch

import manyhot as mh
from tests.errors.expected import raises_input_error
from tests.losses import CASES

SCORES, TARGETS = torch.zeros(4, 3), torch.zeros(4, 3)
NAN = float("nan")


def raises_message(message):
    return raises_input_error(match=f"^{re.escape(message)}$")


def test_shape_of_targets():
    with raises_message(
        "`targets` of `TwoWayLoss` must be (N, K) like `scores` (4, 3); got (4,). "
        "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
    ):
        mh.TwoWayLoss()(SCORES, torch.zeros(4))


def test_other_number_of_labels():
    with raises_message(
        "`targets` of `BinaryCrossEntropyLoss` must be (N, K) like `scores` (4, 3); got (4, 5). "
        "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
    ):
        mh.BinaryCrossEntropyLoss()(SCORES, torch.zeros(4, 5))


def test_shape_of_scores():
    with raises_message(
        "`scores` of `AsymmetricLoss` must be (N, K); got (4,). Pass one row per sample and one column per label."
    ):
        mh.AsymmetricLoss()(torch.zeros(4), torch.zeros(4))


def test_two_heads_wanted():
    with raises_message("`scores` of `AverageKLoss` must be (N, 2, K); got (4, 3). Pass what `TwoHeads` returns."):
        mh.AverageKLoss(2)(SCORES, TARGETS)


def test_kind_of_scores():
    with raises_message(
        "`scores` of `QuasibinaryLoss` must be a tensor of floating-point numbers; got a tensor of torch.int64. "
        "Call `.float()` on them."
    ):
        mh.QuasibinaryLoss()(SCORES.long(), TARGETS)


def test_kind_of_targets():
    with raises_message(
        "`targets` of `MultiLabelSoftmaxLoss` must be a tensor of real numbers; got list. "
        "Pass `torch.as_tensor(targets)`, or encode names with `Labels`."
    ):
        mh.losses.MultiLabelSoftmaxLoss()(SCORES, [[0, 1, 0]])


@pytest.mark.parametrize("name", CASES)
def test_nan_targets(name):
    case = CASES[name]
    shape = (4, 2, 3) if case.num_heads() == 2 else (4, 3)
    targets = torch.zeros(4, 3)
    loss, aligned = case.build(targets), case.aligned(targets)
    targets[1, 2] = NAN
    with raises_input_error("targets", got="NaN", hint="Mark unknown cells with manyhot.UNKNOWN"):
        loss(torch.zeros(shape), targets, *aligned)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler against torch itself
@pytest.mark.parametrize("name", CASES)
def test_nan_targets_are_never_taken_for_unknown_where_values_are_not_read(name):
    """Compiled, or on a GPU, no value is read: the NaN must reach the loss instead of vanishing."""
    case = CASES[name]
    targets = mh.one_hot(torch.tensor([0, 2, -1, 1]), 5).double()
    loss, aligned = case.build(targets), case.aligned(targets)
    targets[1, 3] = NAN
    torch.compiler.reset()
    compiled = torch.compile(loss, fullgraph=True, backend="eager")
    scores = torch.ones((4, 2, 5) if case.num_heads() == 2 else (4, 5), dtype=torch.float64)
    assert bool(compiled(scores, targets, *aligned).isnan())


@pytest.mark.parametrize(
    ("value", "message"), [(2.0, "got 2."), (-0.5, "got -0.5."), (-3.0, "got -3."), (0.5, "got 0.5.")]
)
def test_values_of_targets(value, message):
    targets = TARGETS.clone()
    targets[2, 1] = value
    with raises_input_error(match=re.escape(f"`targets` of `TwoWayLoss` must be 1, 0 or -1; {message}")):
        mh.TwoWayLoss()(SCORES, targets)
    with raises_input_error(match=re.escape(message)):
        mh.checks.check_targets(targets)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_the_ignore_index_of_torch(dtype):
    targets = TARGETS.to(dtype)
    targets[2, 1] = -100
    for owner, take in (
        ("TwoWayLoss", mh.TwoWayLoss()),
        ("LogLoss", mh.metrics.LogLoss().update),
        ("check_targets", lambda scores, targets: mh.checks.check_targets(targets)),
    ):
        with raises_message(
            f"`targets` of `{owner}` must be 1, 0 or -1; got -100. Mark present cells with 1. "
            "Mark unknown cells with manyhot.UNKNOWN, which is -1."
        ):
            take(SCORES.sigmoid(), targets)
    targets[2, 1] = mh.UNKNOWN
    assert mh.TwoWayLoss()(SCORES, targets).isfinite()


def test_soft_targets_only_where_losses_add_over_labels():
    soft = torch.full((4, 3), 0.5)
    assert mh.BinaryCrossEntropyLoss()(SCORES, soft).item() == pytest.approx(0.6931, abs=1e-4)
    with raises_input_error(hint="Round them, or use a loss that adds over labels"):
        mh.QuasibinaryLoss()(SCORES, soft)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16, torch.float16])
def test_a_single_soft_target_among_many_hard_ones_is_found(dtype):
    targets = torch.ones(300, 300, dtype=dtype)
    mh.checks.check_targets(targets)
    targets[7, 5] = 0.002
    with raises_input_error(rule="be 1, 0 or -1", got="0.00"):
        mh.checks.check_targets(targets)


def test_sparse_targets():
    for owner, take in (
        ("BinaryCrossEntropyLoss", mh.BinaryCrossEntropyLoss()),
        ("LogLoss", mh.metrics.LogLoss().update),
    ):
        with raises_message(f"`targets` of `{owner}` must be dense; got a sparse tensor. Call `.to_dense()` on them."):
            take(SCORES.sigmoid(), torch.ones(4, 3).to_sparse())


def test_one_label_a_row():
    with raises_message(
        "`targets` of `SoftmaxCrossEntropyLoss` must have at most one label per row; got a row with several. "
        "Use a loss for several labels, such as `MultiLabelSoftmaxLoss` or `BinaryCrossEntropyLoss`."
    ):
        mh.losses.SoftmaxCrossEntropyLoss()(SCORES, torch.ones(4, 3))


@pytest.mark.parametrize(
    "make",
    [
        mh.TwoWayLoss,
        mh.losses.WARPLoss,
        mh.losses.MultiLabelSoftmaxLoss,
        lambda: mh.AverageKLoss(2),
        lambda: mh.losses.EPRLoss(2),
    ],
)
def test_no_probabilities_without_a_link(make):
    loss = make()
    with raises_message(
        f"`link` of `{type(loss).__name__}` must be that of a loss which adds over labels to give probabilities; "
        "got a loss whose scores only rank. Fit a calibrator on held-out scores and targets."
    ):
        loss.link.probs(SCORES)
    for ask in (loss.link.log_odds, loss.link.scores, mh.GlobalBatch(loss).link.probs):
        with raises_input_error(hint="Fit a calibrator"):
            ask(SCORES)


def test_reduction():
    with raises_message("`reduction` of `TwoWayLoss` must be one of 'mean'; got 'none'. Pick one of these."):
        mh.losses.Loss.__init__(mh.TwoWayLoss(), None, "none")
    with raises_message(
        "`reduction` of `BinaryCrossEntropyLoss` must be one of 'mean', 'batchmean', 'sum', 'none'; got 'avg'. "
        "Pick one of these."
    ):
        mh.BinaryCrossEntropyLoss(reduction="avg")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: mh.AsymmetricLoss(gamma_neg=-1),
            "`gamma_neg` of `AsymmetricLink` must be a number at least 0; got -1.",
        ),
        (
            lambda: mh.AsymmetricLoss(margin=1),
            "`margin` of `AsymmetricLink` must be a number at least 0 and below 1; got 1.",
        ),
        (
            lambda: mh.StrictlyProperAsymmetricLoss(k_pos=0),
            "`k_pos` of `StrictlyProperAsymmetricLoss` must be a number above 0",
        ),
        (
            lambda: mh.QuasibinaryLoss(alpha=NAN),
            "`alpha` of `QuasibinaryLoss` must be a number above 0 and at most 1; got nan.",
        ),
        (lambda: mh.AverageKLoss("3"), "`k` of `AverageKLoss` must be a number at least 1; got '3'."),
        (lambda: mh.TwoWayLoss("rows"), "`axis` of `TwoWayLoss` must be one of 'both', 'sample', 'class'; got 'rows'."),
        (
            lambda: mh.uniform_classifier("bce-x", 2, 2),
            "`name` of `uniform_classifier` must be one of 'soft-0', 'soft-d'",
        ),
        (
            lambda: mh.SigmoidLink(pos_weight=[1.0, 0.0]),
            "`pos_weight` of `SigmoidLink` must be (K,) of positive numbers",
        ),
        (
            lambda: mh.losses.optimal_bias(1, 0, 1),
            "`num_labels` of `optimal_bias` must be at least 2 with low < high; got 1 labels",
        ),
        (
            lambda: mh.losses.NoisedTopKLoss(2.7),
            "`k` of `NoisedTopKLoss` must be a whole number, at least 1; got 2.7. Pass an int.",
        ),
        (
            lambda: mh.AsymmetricLoss(float("inf")),
            "`gamma_neg` of `AsymmetricLink` must be a number at least 0; got inf.",
        ),
        (
            lambda: mh.links.phi(torch.ones(1), gamma_neg=-1),
            "`gamma_neg` of `phi` must be a number at least 0; got -1.",
        ),
        (
            lambda: mh.CosineHead(2, 3).init_diverse_bias(1),
            "`bias` of `CosineHead.init_diverse_bias` must have one number per label; got shared.",
        ),
        (
            lambda: mh.Labels(["a"]).encode([["a"]], unknown=[[], []]),
            "`unknown` of `Labels.encode` must have as many rows as `rows`, 1; got 2.",
        ),
        (
            lambda: mh.losses.ROLELoss(torch.full((2, 2), 0.5), 1.0),
            "`targets` of `ROLELoss` must be 1, 0 or -1; got 0.5.",
        ),
        (lambda: mh.heads.diverse_bias(8, 3), "`mode` of `diverse_bias` must be 0 to 7; got 8."),
        (lambda: mh.losses.ROLELoss(torch.zeros(3), 1.0), "`targets` of `ROLELoss` must be (M, K); got (3,)."),
        (lambda: mh.LinearHead(0, 3), "`in_features` of `LinearHead` must be a whole number, at least 1; got 0."),
        (
            lambda: mh.LinearHead(2, 3)(torch.zeros(4, 5)),
            "`features` of `LinearHead` must be (N, D) with D = 2; got (4, 5).",
        ),
        (
            lambda: mh.LinearHead(2, 3, bias="none").init_bias(torch.zeros(3)),
            "`bias` of `LinearHead.init_bias` must exist",
        ),
        (
            lambda: mh.LinearHead(2, 3).init_bias(torch.tensor([0.0, 0.5, 0.5])),
            "`rates` of `LinearHead.init_bias` must be (3,) between 0 and 1; got a rate of 0, 1 or beyond.",
        ),
        (
            lambda: mh.LinearHead(2, 1).init_bias(torch.tensor([0.99]), link=mh.AsymmetricLoss().link),
            "`rates` of `LinearHead.init_bias` must be within the range of the link; got 0.99.",
        ),
        (
            lambda: mh.heads.TwoHeads.select(torch.zeros(1, 2, 3), "first"),
            "`head` of `TwoHeads.select` must be one of 'single'",
        ),
        (
            lambda: mh.LabelPairRegulariser(mh.TwoWayLoss(), 1.0),
            "`loss` of `LabelPairRegulariser` must have a link; got TwoWayLoss.",
        ),
        (
            lambda: mh.LabelPairRegulariser(mh.AsymmetricLoss(), 1.0),
            "`link` of `LabelPairRegulariser` must keep log-odds finite; got AsymmetricLink, which gives probabilities "
            "of exactly 0 or 1. Take margin=0, or pass link=SigmoidLink().",
        ),
        (
            lambda: mh.LabelPairRegulariser(mh.QuasibinaryLoss(), 1.0),
            "`link` of `LabelPairRegulariser` must keep log-odds finite; got QuasibinaryLink",
        ),
        (
            lambda: mh.LabelPairRegulariser(mh.BinaryCrossEntropyLoss(reduction="sum"), 1.0),
            "`loss` of `LabelPairRegulariser` must be a mean; got reduction='sum'.",
        ),
        (
            lambda: mh.GlobalBatch(mh.BinaryCrossEntropyLoss(reduction="none")),
            "`loss` of `GlobalBatch` must be a manyhot loss that returns one number",
        ),
        (
            lambda: mh.one_hot(torch.tensor([3]), 3),
            "`labels` of `one_hot` must lie between -1 (no label) and 2; got 3.",
        ),
        (lambda: mh.one_hot(torch.tensor([0.0]), 3), "`labels` of `one_hot` must be (N,) of whole numbers; got (1,)"),
        (lambda: mh.Labels(["a", "b", "a"]), "`names` of `Labels` must be distinct; got 'a' twice."),
        (lambda: mh.Labels("abc"), "`names` of `Labels` must be a list of strings; got str."),
        (
            lambda: mh.Labels(["cat", "dog"]).encode([["dgo"]]),
            "must be one of the 2 names; got 'dgo'. Did you mean 'dog'?",
        ),
        (lambda: mh.Labels(["a"]).decode(torch.zeros(2, 2)), "`decisions` of `Labels` must be (N, 1); got (2, 2)."),
    ],
)
def test_construction(make, message):
    with raises_input_error(match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: mh.BinaryCrossEntropyLoss(pos_weight=[1.0, 2.0])(SCORES, TARGETS),
            "`pos_weight` of `SigmoidLink` must have one weight per label; got 2 weights for 3 labels.",
        ),
        (
            lambda: mh.losses.ClassWiseLoss(5)(SCORES, TARGETS),
            "`scores` of `ClassWiseLoss` must have K = 5 labels; got 3 labels.",
        ),
        (
            lambda: mh.losses.NoisedTopKLoss(3)(SCORES, TARGETS),
            "`k` of `NoisedTopKLoss` must be below the number of labels 3; got 3.",
        ),
        (
            lambda: mh.losses.NoisedTopKLoss(1)(SCORES, TARGETS, torch.zeros(4, 3)),
            "`noise` of `NoisedTopKLoss` must be (N, draws, K) with N = 4 and K = 3; got (4, 3).",
        ),
        (
            lambda: mh.losses.ROLELoss(torch.zeros(9, 3), 1.0)(SCORES, TARGETS),
            "`rows` of `ROLELoss` must be (N,) = (4,) of whole numbers; got nothing. Call loss(scores, targets, rows)",
        ),
        (
            lambda: mh.losses.ROLELoss(torch.zeros(9, 2), 1.0)(SCORES, TARGETS, torch.arange(4)),
            "`targets` of `ROLELoss` must have K = 2 labels; got 3 labels.",
        ),
        (
            lambda: mh.LabelPairRegulariser(mh.losses.SoftmaxCrossEntropyLoss(), 1.0)(SCORES, torch.ones(4, 3)),
            "`targets` of `LabelPairRegulariser` must have at most one label per row; got a row with several.",
        ),
        (
            lambda: mh.losses.ROLELoss(torch.zeros(3, 3), 1.0)(SCORES, TARGETS, torch.arange(4)),
            "`rows` of `ROLELoss` must lie between 0 and 2; got 0 to 3.",
        ),
        (
            lambda: mh.BinaryCrossEntropyLoss()(SCORES, TARGETS, TARGETS),
            "`arguments` of `BinaryCrossEntropyLoss` must be at most 2; got 3. Leave the others out.",
        ),
        (
            lambda: mh.QuasibinaryLoss().link.scores(torch.tensor([0.5])),
            "`link` of `QuasibinaryLoss` must have seen a label before it gives probabilities; got none yet.",
        ),
        (
            lambda: mh.SigmoidLink().probs("0.0"),
            "`scores` of `SigmoidLink` must be a table of real numbers; got str. Pass a tensor or an array.",
        ),
        (
            lambda: mh.SigmoidLink().probs(torch.zeros(1).int().numpy()),
            "`scores` of `SigmoidLink` must be floating-point numbers; got a tensor of torch.int32. Convert them to",
        ),
        (
            lambda: mh.links.phi(torch.tensor([0.5, 1.5]), gamma_neg=4),
            "`probs` of `phi` must lie between 0 and 1; got 1.5. Pass sigmoid(scores), or give the scores to "
            "`AsymmetricLink`.",
        ),
        (lambda: mh.links.phi([-0.25], gamma_neg=4), "`probs` of `phi` must lie between 0 and 1; got -0.25."),
        (lambda: mh.links.phi([float("nan")], gamma_neg=4), "`probs` of `phi` must lie between 0 and 1; got nan."),
        (lambda: mh.links.phi("0.5", gamma_neg=4), "`probs` of `phi` must be a table of real numbers; got str."),
    ],
)
def test_use(call, message):
    with raises_input_error(match=re.escape(message)):
        call()


def test_an_invalid_batch_leaves_the_state_alone():
    loss = mh.QuasibinaryLoss()
    loss(torch.zeros(2, 3), torch.eye(2, 3))
    before = {name: value.clone() for name, value in loss.state_dict().items()}
    with raises_input_error(got="NaN"):
        loss(torch.ones(2, 3), torch.full((2, 3), NAN))
    assert all(torch.equal(before[name], value) for name, value in loss.state_dict().items())
