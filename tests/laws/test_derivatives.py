"""Derivatives by every path of torch are those of `backward`: expected failures until the losses have one path for all.

Each test states what is right. They fail strictly, so that whoever gives the losses one autograd path takes the marks
off here.
"""

import pytest
import torch

import manyhot as mh

SCORES, TARGETS = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
PAIRS = mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=1.0)


def awaited(error=AssertionError):
    """The mark of what comes right with one autograd path; `error` is how it fails until then."""
    reason = "derivatives outside of backward() come with one autograd path"
    return pytest.mark.xfail(strict=True, raises=error, reason=reason)


def backward(loss, scores, targets):
    leaf = scores.clone().requires_grad_()
    loss(leaf, targets).backward()
    return leaf.grad


@awaited()
def test_func_grad_of_cross_entropy_at_zero():
    """Where softplus is cut in two by |score|, whose derivative at 0 automatic differentiation takes for 0."""
    loss = mh.BinaryCrossEntropyLoss(reduction="sum")
    got = torch.func.grad(lambda scores: loss(scores, TARGETS[:1]))(torch.zeros(1, 2))
    torch.testing.assert_close(got, torch.tensor([[-0.5, 0.5]]))


@awaited()
def test_func_grad_of_asl_at_a_high_score():
    """Where 1 - p cancels in the plain formula; `backward` gives 1.1e-6."""
    loss, scores, targets = mh.AsymmetricLoss(reduction="sum"), torch.full((1, 1), 17.0), torch.zeros(1, 1)
    got = torch.func.grad(lambda scores: loss(scores, targets))(scores)
    torch.testing.assert_close(got, backward(loss, scores, targets), rtol=1e-3, atol=0)


@awaited()
def test_asl_gives_high_scores_a_gradient_beside_learned_soft_targets():
    """Targets with a gradient of their own leave only the plain formula, in which 1 - p cancels as well."""
    loss, scores = mh.AsymmetricLoss(reduction="sum"), torch.full((1, 1), 17.0)
    got = backward(loss, scores, torch.zeros(1, 1, requires_grad=True))
    torch.testing.assert_close(got, backward(loss, scores, torch.zeros(1, 1)), rtol=1e-3, atol=0)


@awaited()
@pytest.mark.slow
def test_compiled_quasibinary_keeps_its_normaliser():
    """A link that says it is fitted must hold the normaliser."""
    eager, compiled = mh.QuasibinaryLoss(), mh.QuasibinaryLoss()
    eager(SCORES, TARGETS)
    torch.compile(compiled, backend="aot_eager")(SCORES, TARGETS)
    assert bool(compiled.link.fitted)
    torch.testing.assert_close(compiled.link.log_normaliser, eager.link.log_normaliser)


@awaited()
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own forward mode
def test_forward_mode_sees_the_label_pairs():
    got = torch.func.jacfwd(lambda scores: PAIRS(scores, TARGETS))(SCORES)
    torch.testing.assert_close(got, backward(PAIRS, SCORES, TARGETS))


@awaited(RuntimeError)
def test_func_grad_of_the_label_pairs():
    got = torch.func.grad(lambda scores: PAIRS(scores, TARGETS))(SCORES)
    torch.testing.assert_close(got, backward(PAIRS, SCORES, TARGETS))


@awaited(RuntimeError)
@pytest.mark.parametrize("kind", [mh.AsymmetricLoss, mh.StrictlyProperAsymmetricLoss, mh.TwoWayLoss])
def test_vmap_without_gradients(kind):
    loss, many = kind(), torch.stack([SCORES, SCORES - 1])
    with torch.no_grad():
        got = torch.func.vmap(lambda scores: loss(scores, TARGETS))(many)
    torch.testing.assert_close(got, torch.stack([loss(scores, TARGETS) for scores in many]))
