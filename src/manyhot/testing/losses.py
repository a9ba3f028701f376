"""Properties of losses and of their links."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from manyhot.links import Link, QuasibinaryLink, SoftmaxLink, ratio_link
from manyhot.losses.loss import Loss
from manyhot.testing.batches import Example, assert_same, edge_batches, random_batch, require


@dataclasses.dataclass(frozen=True)
class LossCase:
    """A loss under test.

    Args:
        make: Builds a fresh loss for targets (N, K). Most losses need no targets and ignore them.
        aligned: Further arguments of the loss, one entry per row, from the targets; they must not depend on chance.
        single_label: Whether rows carry at most one label; taken from the loss by default.
        any_number_of_labels: Whether the loss can be tested on other numbers of labels than 5.
        value_is_potential: Whether the gradient is the derivative of the value. It is not where a part of the loss is
            held constant on purpose.
        device: The device to test on.
        dtype: The type of the scores; float64 has the tightest tolerance.
    """

    make: Callable[[Tensor], nn.Module]
    aligned: Callable[[Tensor], tuple[Tensor, ...]] = lambda targets: ()
    single_label: bool | None = None
    any_number_of_labels: bool = True
    value_is_potential: bool = True
    device: str = "cpu"
    dtype: torch.dtype = torch.float64

    @property
    def tolerance(self) -> float:
        """How far results in this type may differ when they should be the same."""
        return {torch.float64: 1e-10, torch.float32: 2e-5}.get(self.dtype, 2e-2)

    def build(self, targets: Tensor) -> nn.Module:
        """A fresh loss on the device; its parameters in the type of the scores where that is not half precision."""
        loss = self.make(targets).to(self.device)
        return loss.to(self.dtype) if self.dtype in (torch.float32, torch.float64) else loss

    def one_label(self) -> bool:
        """Whether rows carry at most one label."""
        own = getattr(self.make(torch.zeros(1, 4)), "single_label", False)
        return bool(own if self.single_label is None else self.single_label)

    def num_heads(self) -> int:
        """How many heads the scores come from, which the loss says by its attribute `heads`; 1 without one."""
        return int(getattr(self.make(torch.zeros(1, 4)), "heads", 1))

    def example(self, rows: int = 6, labels: int = 5, *, unknown: float = 0.2, seed: int = 0) -> Example:
        """A random batch with a row without labels, and one with all of them unless rows carry one label."""
        single_label, heads = self.one_label(), self.num_heads()
        return random_batch(rows, labels, single_label=single_label, heads=heads, unknown=unknown, seed=seed)

    def edges(self) -> Iterator[Example]:
        """Batches at the edges: nothing in them, one of everything, all present, all absent, all unknown, all equal."""
        return edge_batches(self.example, single_label=self.one_label(), any_labels=self.any_number_of_labels)

    def inputs(self, example: Example, aligned: tuple[Tensor, ...] | None = None) -> tuple[Tensor, ...]:
        """The arguments of the loss on the device: scores that take a gradient, targets, and further ones."""
        scores = example.scores.to(self.device, self.dtype).detach().requires_grad_()
        aligned = self.aligned(example.targets) if aligned is None else aligned
        return scores, *(tensor.to(self.device) for tensor in (example.targets, *aligned))

    def evaluate(
        self, example: Example, loss: nn.Module | None = None, *, aligned: tuple[Tensor, ...] | None = None
    ) -> tuple[Tensor, Tensor]:
        """Value and gradient by the scores, for a fresh loss or a given one."""
        loss = self.build(example.targets) if loss is None else loss
        inputs = self.inputs(example, aligned)
        value: Tensor = loss(*inputs)
        require(value.requires_grad, f"the loss of {example.name} is not attached to the graph")
        (gradient,) = torch.autograd.grad(value, inputs[0])
        return value.detach(), gradient


def check_loss(make: Callable[[Tensor], Any], **options: Any) -> None:
    """Checks every property that applies to a loss, and those of its link.

    Args:
        make: Builds a fresh loss for targets (N, K); most losses ignore them.
        **options: As in `LossCase`.

    Example:
        >>> import manyhot
        >>> check_loss(lambda targets: manyhot.BinaryCrossEntropyLoss())
    """
    case = LossCase(make, **options)
    for check in LOSS_PROPERTIES:
        check(case)
    loss = case.build(torch.zeros(1, 4))
    link = getattr(loss, "link", None)
    if link is not None and link.gives_probs and not isinstance(link, QuasibinaryLink | SoftmaxLink):
        check_link(link)
    if isinstance(loss, Loss) and loss.adds_over_labels:
        check_link_is_slope_ratio(loss)


def check_gradient(case: LossCase) -> None:
    """The gradient is the derivative of the value; in other types than float64, both are those of float64."""
    batch = case.example()
    exact = dataclasses.replace(case, dtype=torch.float64)
    if case.dtype != torch.float64:
        batch = batch._replace(scores=batch.scores.to(case.dtype).double())
        for got, want in zip(case.evaluate(batch), exact.evaluate(batch), strict=True):
            assert_same(got.double(), want, f"{case.dtype} differs from float64", case.tolerance)
    if case.value_is_potential:
        loss, (scores, *others) = exact.build(batch.targets), exact.inputs(batch)
        is_derivative = torch.autograd.gradcheck(lambda scores: loss(scores, *others), scores)
        require(is_derivative, "the gradient is not the derivative of the value")


def check_permutations(case: LossCase) -> None:
    """The order of rows and of labels does not matter."""
    batch = case.example()
    value, gradient = case.evaluate(batch)
    rows, labels = torch.tensor([3, 0, 5, 1, 4, 2]), torch.tensor([4, 2, 0, 1, 3])
    for order, dim, moved in ((rows, 0, batch.rows(rows)), (labels, -1, batch.labels(labels))):
        # Row numbers are not reordered, because a loss built for the new order numbers its rows in that order.
        aligned = tuple(t.index_select(dim, order) if t.is_floating_point() else t for t in case.aligned(batch.targets))
        want = value, gradient.index_select(dim, order.to(gradient.device))
        got = case.evaluate(moved, aligned=aligned)
        assert_same(got, want, f"the order of axis {dim} matters", case.tolerance)


def check_unknown_cells(case: LossCase) -> None:
    """Unknown cells change nothing: not by their scores, not by being there."""
    batch = case.example()
    value, gradient = case.evaluate(batch)
    hidden = gradient[batch.unknown.expand_as(gradient).to(gradient.device)]
    require((hidden == 0).all(), "unknown cells have a gradient")
    other, _ = case.evaluate(batch.with_unknown_at(77.0))
    assert_same(other, value, "the scores of unknown cells matter", case.tolerance)
    for longer in (batch.with_unknown_line(0), batch.with_unknown_line(-1)):
        assert_same(case.evaluate(longer)[0], value, f"{longer.name} matters", case.tolerance)


def check_nothing_to_learn(case: LossCase) -> None:
    """Without a row or a known cell the loss is a zero that is attached to the graph."""
    for batch in case.edges():
        if batch.name in ("no rows", "unknown cells only"):
            value, gradient = case.evaluate(batch)
            zero = value == 0 and (gradient == 0).all()
            require(zero, f"the loss of {batch.name} is {float(value)}, not zero with a zero gradient")


def check_edges(case: LossCase) -> None:
    """Values and gradients are finite on every batch at the edge, however its tensors lie in memory."""
    for batch in case.edges():
        _check_finite(case, batch)
        got, want = case.evaluate(batch.transposed()), case.evaluate(batch)
        assert_same(got, want, f"{batch.name}: the order in memory matters", case.tolerance)


def check_soft_targets(case: LossCase) -> None:
    """A soft target costs the mixture of its branches, with unknown cells beside it too."""
    batch = case.example()
    if not getattr(case.build(batch.targets), "soft_targets", False):
        return
    softened = (torch.where(batch.targets > 0, soft, batch.targets.double()) for soft in (0.3, 1.0, 0.0))
    mixed, present, absent = (case.evaluate(batch._replace(targets=targets))[0] for targets in softened)
    assert_same(mixed, 0.3 * present + 0.7 * absent, "a soft target is not the mixture of its branches", case.tolerance)


def check_extremes(case: LossCase) -> None:
    """Values and gradients are finite for scores of +-1e4 in every floating-point type."""
    for batch in case.edges():
        if "1e4" in batch.name:
            for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
                _check_finite(dataclasses.replace(case, dtype=dtype), batch)


def _check_finite(case: LossCase, batch: Example) -> None:
    value, gradient = case.evaluate(batch)
    finite = value.isfinite().all() and gradient.isfinite().all()
    require(finite, f"{batch.name} in {case.dtype}: value {value.tolist()}, gradient {gradient.tolist()}")


def check_state(case: LossCase) -> None:
    """A loss that is saved and loaded goes on as before, on the same numbers."""
    batch = case.example()
    loss, fresh = case.build(batch.targets), case.build(batch.targets)
    case.evaluate(batch, loss)
    fresh.load_state_dict(loss.state_dict())
    want = case.evaluate(batch, loss)
    assert_same(case.evaluate(batch, fresh), want, "a loaded loss has another value or gradient")
    assert_same(dict(fresh.state_dict()), dict(loss.state_dict()), "a loaded loss goes another way")


def check_compiles(case: LossCase, *, backend: str = "aot_eager") -> None:
    """`torch.compile(fullgraph=True)` takes the loss without a break and gives the same numbers."""
    for batch in (case.example(), case.example().transposed()):
        torch.compiler.reset()
        compiled: Any = torch.compile(case.build(batch.targets), fullgraph=True, backend=backend)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of torch's compiler against torch itself
            got = case.evaluate(batch, compiled)
        want = case.evaluate(batch)
        assert_same(got, want, "the compiled loss has another value or gradient", case.tolerance)


def check_no_synchronisation(case: LossCase) -> None:
    """Forward and backward never wait for a value, so that an accelerator's queue stays full.

    On the CPU, tensors without values are used, which raise an error when they are read; on a GPU torch checks it.
    """
    batch = case.example()
    loss = case.build(batch.targets)
    if case.device.startswith("cuda"):
        case.evaluate(batch, loss)
        inputs = case.inputs(batch)
        torch.cuda.set_sync_debug_mode("error")
        try:
            loss(*inputs).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            loss(*map(mode.from_tensor, case.inputs(batch))).backward()


LOSS_PROPERTIES = (
    check_gradient,
    check_permutations,
    check_unknown_cells,
    check_nothing_to_learn,
    check_edges,
    check_soft_targets,
    check_extremes,
    check_state,
    check_compiles,
    check_no_synchronisation,
)


def check_link(link: Link) -> None:
    """Checks every property of links: that it is increasing, and that it can be inverted."""
    for check in LINK_PROPERTIES:
        check(link)


def for_every_label(link: Link, values: Tensor) -> Tensor:
    """Values (n,) as a column for each label that the link has a weight for, (n, K)."""
    labels = 1 if link.pos_weight is None or link.pos_weight.ndim == 0 else link.pos_weight.shape[0]
    return values.unsqueeze(1).repeat(1, labels)


def check_link_round_trip(link: Link) -> None:
    """Probabilities come back from the scores that mean them, and lie in the link's range."""
    low, high = link.range
    probs = low + (high - low) * torch.tensor([1e-6, 1e-3, 0.1, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6], dtype=torch.float64)
    probs = for_every_label(link, probs)
    if link.pos_weight is not None and high < 1:
        probs = probs[:-2]  # every label has a limit of its own, which the highest values may exceed
    scores = link.scores(probs)
    assert_same(link.probs(scores), probs, "the link's round trip is broken", 1e-9, 1e-12)
    assert_same(link.log_odds(scores), torch.logit(probs), "log_odds and probs differ", 1e-7, 1e-9)


def check_link_is_increasing(link: Link) -> None:
    """A higher score never means a lower probability, and strictly a higher one away from the ends."""
    scores = for_every_label(link, torch.linspace(-60, 60, 2001, dtype=torch.float64))
    odds, probs = link.log_odds(scores), link.probs(scores)
    steps, finite = odds.diff(dim=0), odds[1:].isfinite() & odds[:-1].isfinite()
    rises = (steps[finite] >= -1e-12).all() and (probs.diff(dim=0) >= -1e-15).all()
    require(rises, "the link falls somewhere: a higher score means a lower probability")
    inner = finite & (probs[:-1] > 1e-4) & (odds[1:] < 9) & (probs[1:] < probs[-1] - 1e-4)
    require((steps[inner] > 0).all(), "the link is flat where it should rise")
    low, high = link.range
    require(((probs >= low) & (probs <= high + 1e-12)).all(), f"the link leaves its range {link.range}")


def check_link_is_slope_ratio(loss: Loss) -> None:
    """The link of a loss that adds over labels is the ratio of its slopes: minimising the loss finds the true rates."""
    link = loss.link
    require(link.gives_probs, f"{type(loss).__name__} adds over labels but has no link")
    scores = for_every_label(link, torch.linspace(-9, 9, 181, dtype=torch.float64)).requires_grad_()
    got, oracle = link.log_odds(scores.detach()), ratio_link(loss).log_odds(scores.detach())
    assert_same(got, oracle, "the link is not the loss's own", 1e-7, 1e-9)
    # At the score that means p, the expected loss under p is stationary.
    probs = link.probs(scores.detach())
    (slopes,) = torch.autograd.grad(loss(scores, probs).sum(), scores)
    worst = float(slopes[(probs > 1e-6) & (probs < 1 - 1e-6) & (probs < link.range[1] - 1e-9)].abs().max())
    message = f"the expected loss is not stationary at the scores that the link names: slope {worst:.1e}"
    require(worst <= 1e-9, message)


LINK_PROPERTIES = (check_link_round_trip, check_link_is_increasing)
