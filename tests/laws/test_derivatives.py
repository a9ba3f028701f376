"""Derivatives by every path of torch are those of `backward`."""

import dataclasses
import functools
import shutil

import pytest
import torch

import manyhot as mh
from tests.losses import CASES

SCORES, TARGETS = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([[1, 0], [0, 0]])
PAIRS = mh.LabelPairRegulariser(mh.StrictlyProperAsymmetricLoss(), weight=1.0)


def backward(loss, scores, targets):
    leaf = scores.clone().requires_grad_()
    loss(leaf, targets).backward()
    return leaf.grad


def test_func_grad_of_cross_entropy_at_zero():
    """Where softplus is cut in two by |score|, whose derivative at 0 automatic differentiation takes for 0."""
    loss = mh.BinaryCrossEntropyLoss(reduction="sum")
    got = torch.func.grad(lambda scores: loss(scores, TARGETS[:1]))(torch.zeros(1, 2))
    torch.testing.assert_close(got, torch.tensor([[-0.5, 0.5]]))


def test_func_grad_of_asl_at_a_high_score():
    """Where 1 - p cancels in the plain formula; `backward` gives 1.1e-6."""
    loss, scores, targets = mh.AsymmetricLoss(reduction="sum"), torch.full((1, 1), 17.0), torch.zeros(1, 1)
    got = torch.func.grad(lambda scores: loss(scores, targets))(scores)
    torch.testing.assert_close(got, backward(loss, scores, targets), rtol=1e-3, atol=0)


def test_asl_gives_high_scores_a_gradient_beside_learned_soft_targets():
    """Targets with a gradient of their own leave only the plain formula, in which 1 - p cancels as well."""
    loss, scores = mh.AsymmetricLoss(reduction="sum"), torch.full((1, 1), 17.0)
    got = backward(loss, scores, torch.zeros(1, 1, requires_grad=True))
    torch.testing.assert_close(got, backward(loss, scores, torch.zeros(1, 1)), rtol=1e-3, atol=0)


@pytest.mark.slow
def test_compiled_quasibinary_keeps_its_normaliser():
    """A link that says it is fitted must hold the normaliser."""
    eager, compiled = mh.QuasibinaryLoss(), mh.QuasibinaryLoss()
    eager(SCORES, TARGETS)
    torch.compile(compiled, backend="aot_eager")(SCORES, TARGETS)
    assert bool(compiled.link.fitted)
    torch.testing.assert_close(compiled.link.log_normaliser, eager.link.log_normaliser)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own forward mode
def test_forward_mode_sees_the_label_pairs():
    got = torch.func.jacfwd(lambda scores: PAIRS(scores, TARGETS))(SCORES)
    torch.testing.assert_close(got, backward(PAIRS, SCORES, TARGETS))


def test_func_grad_of_the_label_pairs():
    got = torch.func.grad(lambda scores: PAIRS(scores, TARGETS))(SCORES)
    torch.testing.assert_close(got, backward(PAIRS, SCORES, TARGETS))


@pytest.mark.parametrize("kind", [mh.AsymmetricLoss, mh.StrictlyProperAsymmetricLoss, mh.TwoWayLoss])
def test_vmap_without_gradients(kind):
    loss, many = kind(), torch.stack([SCORES, SCORES - 1])
    with torch.no_grad():
        got = torch.func.vmap(lambda scores: loss(scores, TARGETS))(many)
    torch.testing.assert_close(got, torch.stack([loss(scores, TARGETS) for scores in many]))


class Paths:
    """One loss in float32 on scores up to +-20: value, gradient, buffers and probabilities by every path of torch."""

    def __init__(self, name):
        self.case = dataclasses.replace(CASES[name], dtype=torch.float32)
        example = self.case.example()
        scores, self.targets = (6 * example.scores.float()).clamp(-20, 20), example.targets
        self.scores = [scores, scores.flip(0)]
        self.aligned = self.case.aligned(self.targets)

    def build(self):
        return self.case.build(self.targets)

    def outputs(self, loss, scores):
        value = loss(scores, self.targets, *self.aligned)
        rank_only = isinstance(loss.link, mh.links.NoLink)
        return value, torch.zeros(()) if rank_only else loss.link.probs(scores)

    def eager(self, scores, compiled=None):
        loss, leaf = self.build(), scores.clone().requires_grad_()
        value, probs = (self.outputs if compiled is None else compiled)(loss, leaf)
        value.backward()
        return [value.detach(), leaf.grad, probs.detach(), *loss.buffers()]

    def func(self, loss, scores, buffers):
        def run(scores):
            state = dict(loss.named_parameters()) | {name: buffer.clone() for name, buffer in buffers.items()}
            state = {f"loss.{name}": tensor for name, tensor in state.items()}
            value, probs = torch.func.functional_call(Outputs(loss, self), state, scores)
            return value, (value, probs, *(state[f"loss.{name}"] for name in buffers))

        gradient, (value, *others) = torch.func.grad(run, has_aux=True)(scores)
        return [value, gradient, *others]


class Outputs(torch.nn.Module):
    def __init__(self, loss, paths):
        super().__init__()
        self.loss, self.paths = loss, paths

    def forward(self, scores):
        return self.paths.outputs(self.loss, scores)


def assert_alike(got, want):
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other, rtol=2e-5, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", CASES)
def test_func_and_vmap_give_what_backward_gives(name):
    paths = Paths(name)
    want = [paths.eager(scores) for scores in paths.scores]
    loss = paths.build()
    buffers = dict(loss.named_buffers())
    assert_alike(paths.func(loss, paths.scores[0], buffers), want[0])
    many = {name: torch.stack([buffer] * 2) for name, buffer in buffers.items()}
    with torch.no_grad():
        got = torch.func.vmap(functools.partial(paths.func, loss))(torch.stack(paths.scores), many)
    assert_alike(got, [torch.stack(both) for both in zip(*want, strict=True)])


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler against torch itself
@pytest.mark.parametrize("backend", ["aot_eager", pytest.param("inductor", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", CASES)
def test_compilers_give_what_backward_gives(name, backend):
    if backend == "inductor" and not shutil.which("g++"):
        backend = "aot_eager"
    paths = Paths(name)
    torch.compiler.reset()
    compiled = torch.compile(paths.outputs, backend=backend, fullgraph=True)
    assert_alike(paths.eager(paths.scores[0], compiled), paths.eager(paths.scores[0]))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's compiler against torch itself
@pytest.mark.parametrize("name", CASES)
def test_compilers_take_scores_without_a_gradient(name):
    """As validation losses have them."""
    paths = Paths(name)
    torch.compiler.reset()
    compiled = torch.compile(paths.outputs, backend="eager", fullgraph=True)
    with torch.no_grad():
        got, want = compiled(paths.build(), paths.scores[0]), paths.outputs(paths.build(), paths.scores[0])
    assert_alike(got, want)
