"""Laws of losses."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from manyhot.links import NoLink, QuasibinaryLink, SoftmaxLink
from manyhot.losses.loss import Loss
from manyhot.testing.batches import Case, Example, edge_examples, example, extreme_examples, transposed
from manyhot.testing.links import check_link, check_link_is_slope_ratio


def check_loss(make: Callable[[Tensor], Any], **options: Any) -> None:
    """Runs every law that applies to a loss, and those of its link.

    Args:
        make: Builds a fresh loss for targets (N, K); most losses ignore them.
        **options: As in `Case`.

    Example:
        >>> import manyhot
        >>> check_loss(lambda targets: manyhot.BinaryCrossEntropyLoss())
    """
    case = Case(make, **options)
    for law in LOSS_LAWS:
        law(case)
    loss = case.build(torch.zeros(1, 4))
    link = getattr(loss, "link", None)
    if link is not None and not isinstance(link, NoLink | QuasibinaryLink | SoftmaxLink):
        check_link(link)
    if isinstance(loss, Loss) and loss.adds_over_labels:
        check_link_is_slope_ratio(loss)


def same(got: Tensor, want: Tensor, law: str, tolerance: float) -> None:
    """Asserts that two results agree, naming the law that they would break."""
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance, msg=lambda m: f"{law}: {m}")


def check_gradient(case: Case) -> None:
    """The gradient is the derivative of the value; in other types than float64, both are those of float64."""
    batch = example(case)
    exact = dataclasses.replace(case, dtype=torch.float64)
    if case.dtype != torch.float64:
        batch = batch._replace(scores=batch.scores.to(case.dtype).double())
        for got, want in zip(case.evaluate(batch), exact.evaluate(batch), strict=True):
            same(got.double(), want, f"{case.dtype} differs from float64", case.tolerance)
    if not case.value_is_potential:
        return
    loss = exact.build(batch.targets)
    scores, targets = batch.scores.to(case.device).requires_grad_(), batch.targets.to(case.device)
    aligned = [extra.to(case.device) for extra in case.aligned(batch.targets)]
    if not torch.autograd.gradcheck(lambda s: loss(s, targets, *aligned), scores):
        raise AssertionError("the gradient is not the derivative of the value")


def check_permutations(case: Case) -> None:
    """The order of rows and of labels does not matter."""
    batch = example(case)
    value, gradient = case.evaluate(batch)
    rows = torch.tensor([3, 0, 5, 1, 4, 2])
    labels = torch.tensor([4, 2, 0, 1, 3])
    for order, dim in ((rows, 0), (labels, -1)):
        moved = Example(f"a batch in another order of axis {dim}", *(t.index_select(dim, order) for t in batch[1:]))
        # Numbers of rows stay as they are, because a loss built for the new order counts rows anew.
        aligned = tuple(t.index_select(dim, order) if t.is_floating_point() else t for t in case.aligned(batch.targets))
        got_value, got_gradient = case.evaluate(moved, aligned=aligned)
        moved_gradient = gradient.index_select(dim, order.to(gradient.device))
        same(got_value, value, f"the value depends on the order of axis {dim}", case.tolerance)
        same(got_gradient, moved_gradient, f"the gradient depends on the order of axis {dim}", case.tolerance)


def check_unknown_cells(case: Case) -> None:
    """Unknown cells change nothing: not by their scores, not by being there."""
    batch = example(case)
    value, gradient = case.evaluate(batch)
    hidden = batch.targets < 0
    hidden = hidden if batch.scores.ndim == 2 else hidden.unsqueeze(1).expand_as(batch.scores)
    if bool(gradient[hidden.to(gradient.device)].abs().max() > 0):
        raise AssertionError("unknown cells have a gradient")
    other, _ = case.evaluate(batch._replace(scores=torch.where(hidden, 77.0, batch.scores)))
    same(other, value, "the scores of unknown cells matter", case.tolerance)
    for dim in (0, -1):
        shape = list(batch.scores.shape)
        shape[dim] = 1
        scores = torch.cat([batch.scores, torch.full(shape, 3.0, dtype=batch.scores.dtype)], dim=dim)
        line = torch.full_like(batch.targets.narrow(dim, 0, 1), -1)
        padded = Example(f"unknown cells along axis {dim}", scores, torch.cat([batch.targets, line], dim=dim))
        got, _ = case.evaluate(padded)
        same(got, value, f"a line of unknown cells along axis {dim} matters", case.tolerance)


def check_nothing_to_learn(case: Case) -> None:
    """Without a row or a known cell the loss is a zero that is attached to the graph."""
    for batch in edge_examples(case):
        if batch.name in ("no rows", "unknown cells only"):
            value, gradient = case.evaluate(batch)
            if float(value) != 0 or bool((gradient != 0).any()):
                raise AssertionError(f"the loss of {batch.name} is {float(value)}, not zero with a zero gradient")


def check_edges(case: Case) -> None:
    """Values and gradients are finite on every batch at the edge, however its tensors lie in memory."""
    for batch in edge_examples(case):
        _check_finite(case, batch)
        for got, want in zip(case.evaluate(transposed(batch)), case.evaluate(batch), strict=True):
            same(got, want, f"{batch.name}: the order in memory matters", case.tolerance)


def check_soft_targets(case: Case) -> None:
    """A soft target costs the mixture of its branches, with unknown cells beside it too."""
    batch = example(case)
    if not getattr(case.build(batch.targets), "soft_targets", False):
        return
    results = []
    for soft in (0.3, 1.0, 0.0):
        targets = torch.where(batch.targets > 0, soft, batch.targets.double())
        results.append(case.evaluate(batch._replace(targets=targets))[0])
    mixed, present, absent = results
    same(mixed, 0.3 * present + 0.7 * absent, "a soft target is not the mixture of its branches", case.tolerance)


def check_extremes(case: Case) -> None:
    """Values and gradients are finite for scores of +-1e4 in every floating-point type."""
    for batch in extreme_examples(case):
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            _check_finite(dataclasses.replace(case, dtype=dtype), batch)


def _check_finite(case: Case, batch: Example) -> None:
    value, gradient = case.evaluate(batch)
    if not bool(value.isfinite().all()) or not bool(gradient.isfinite().all()):
        raise AssertionError(f"{batch.name} in {case.dtype}: value {value.tolist()}, gradient {gradient.tolist()}")


def check_state(case: Case) -> None:
    """A loss that is saved and loaded goes on as before, on the same numbers."""
    batch = example(case)
    loss, fresh = case.build(batch.targets), case.build(batch.targets)
    case.evaluate(batch, loss)
    fresh.load_state_dict(loss.state_dict())
    value, gradient = case.evaluate(batch, loss)
    got_value, got_gradient = case.evaluate(batch, fresh)
    same(got_value, value, "a loaded loss has another value", 0.0)
    same(got_gradient, gradient, "a loaded loss has another gradient", 0.0)
    for name, want in loss.state_dict().items():
        same(fresh.state_dict()[name], want, f"a loaded loss goes another way in `{name}`", 0.0)


def check_compiles(case: Case, *, backend: str = "aot_eager") -> None:
    """`torch.compile(fullgraph=True)` takes the loss without a break and gives the same numbers."""
    for batch in (example(case), transposed(example(case))):
        _check_compiled(case, batch, backend)


def _check_compiled(case: Case, batch: Example, backend: str) -> None:
    value, gradient = case.evaluate(batch)
    torch.compiler.reset()
    loss = case.build(batch.targets)
    compiled: Any = torch.compile(loss, fullgraph=True, backend=backend)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch's compiler against torch itself
        got_value, got_gradient = case.evaluate(batch, compiled)
    same(got_value, value, "the compiled loss has another value", case.tolerance)
    same(got_gradient, gradient, "the compiled loss has another gradient", case.tolerance)


def check_no_synchronisation(case: Case) -> None:
    """Forward and backward never wait for a value, so that an accelerator's queue stays full.

    On the CPU tensors without values stand in, which refuse to be read; on a GPU torch itself watches.
    """
    batch = example(case)
    loss = case.build(batch.targets)
    if case.device.startswith("cuda"):
        case.evaluate(batch, loss)
        inputs = [batch.scores.to(case.device, case.dtype).requires_grad_(), batch.targets.to(case.device)]
        inputs += [extra.to(case.device) for extra in case.aligned(batch.targets)]
        torch.cuda.set_sync_debug_mode("error")
        try:
            loss(*inputs).backward()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        return
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = [mode.from_tensor(t) for t in (batch.scores, batch.targets, *case.aligned(batch.targets))]
        fake[0].requires_grad_()
        loss(*fake).backward()


LOSS_LAWS = (
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
