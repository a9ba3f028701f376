"""What a tensor must be before the mathematics may have it, and the one sentence said when it is not."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import torch
from torch import Tensor

from manyhot.numerics import hide
from manyhot.refusal import refusal
from manyhot.slopes import transformed
from manyhot.vocabulary import canonical_split


def check_number(
    argument: str,
    owner: str,
    value: object,
    *,
    low: float = -math.inf,
    high: float = math.inf,
    low_open: bool = False,
    high_open: bool = False,
) -> float:
    """Returns `value` as a float, or refuses one outside of the bounds, of which an open one is itself outside."""
    number = math.nan if isinstance(value, bool) or not isinstance(value, Real) else float(value)
    fits = math.isfinite(number) and not (
        number < low or number > high or (low_open and number <= low) or (high_open and number >= high)
    )
    if fits:
        return number
    bounds = [f"{'above' if low_open else 'at least'} {low:g}"] if low > -math.inf else []
    bounds += [f"{'below' if high_open else 'at most'} {high:g}"] if high < math.inf else []
    rule = " ".join(["be a number", " and ".join(bounds)]).strip()
    raise refusal(argument, owner, rule, repr(value), "Change it, or leave it out for the default.")


def check_count(argument: str, owner: str, value: object, *, low: int) -> int:
    """Returns `value` as an int, or refuses one that is below `low` or not whole."""
    number = low - 1 if isinstance(value, bool) or not isinstance(value, Integral) else int(value)
    if number >= low:
        return number
    rule = f"be a whole number, at least {low}"
    raise refusal(argument, owner, rule, repr(value), "Pass an int.")


def check_choice(argument: str, owner: str, value: str, choices: Sequence[str]) -> str:
    """Returns `value`, or refuses one that is not among `choices`."""
    if value in choices:
        return value
    allowed = ", ".join(repr(choice) for choice in choices)
    near = difflib.get_close_matches(str(value), choices, n=1)
    remedy = f"Did you mean {near[0]!r}?" if near else "Pick one of these."
    raise refusal(argument, owner, f"be one of {allowed}", repr(value), remedy)


def check_flag(argument: str, owner: str, value: object) -> bool:
    """Returns `value`, or refuses what is neither True nor False."""
    if isinstance(value, bool):
        return value
    raise refusal(argument, owner, "be True or False", repr(value), "Pass a bool.")


def check_text(argument: str, owner: str, value: object) -> str:
    """Returns `value`, or refuses what is not a text or is an empty one."""
    if isinstance(value, str) and value.strip():
        return value
    remedy = "Change it, or leave it out for the default."
    raise refusal(argument, owner, "be a text that is not empty", repr(value), remedy)


Check = Callable[[str, str, Any], Any]


def or_none(check: Check) -> Check:
    """The check of a setting that may be None."""
    return lambda argument, owner, value: None if value is None else check(argument, owner, value)


def check_fields(settings: object, checks: Mapping[str, Check]) -> None:
    """Gives each attribute of a frozen dataclass the value that its check returns."""
    owner = type(settings).__name__
    for name, check in checks.items():
        object.__setattr__(settings, name, check(name, owner, getattr(settings, name)))


def check_split(owner: str, name: str, splits: Sequence[str], *, remedy: str) -> None:
    """Refuses a split that is not among `splits`; `remedy` is for the case that there are none."""
    if name in splits:
        return
    usual = canonical_split(str(name))  # tables that were read have their splits under these names
    near = [usual] if usual in splits else difflib.get_close_matches(str(name), splits, n=1)
    rule = f"be one of the splits, {', '.join(map(repr, splits))}"
    if splits:
        remedy = f"Did you mean {near[0]!r}?" if near else "Pass one of these."
    else:
        rule = "be a split of the table, which has none"
    raise refusal("split", owner, rule, repr(name), remedy)


def check_features(owner: str, features: Tensor, in_features: int) -> None:
    """Refuses `features` that are not (N, D) of real floating-point numbers."""
    if not isinstance(features, Tensor) or not features.is_floating_point():
        raise refusal("features", owner, "be a tensor of floating-point numbers", kind_of(features), "Call `.float()`.")
    if features.ndim != 2 or features.shape[1] != in_features:
        raise refusal(
            "features", owner, f"be (N, D) with D = {in_features}", str(tuple(features.shape)), "Flatten or pool first."
        )


class Batch(NamedTuple):
    """Scores and targets as a loss computes with them.

    Attributes:
        scores: (N, K), or (N, 2, K) for two heads; float32 or float64.
        targets: (N, K) in the type of the scores; unknown cells hold 0.
        known: (N, K), 1 where the target is known and 0 where not; None when every cell is known.
        integral: Whether the targets came as integers, so that none of them can be soft.
    """

    scores: Tensor
    targets: Tensor
    known: Tensor | None
    integral: bool

    @property
    def visible_scores(self) -> Tensor:
        """The scores, those of unknown cells out of sight of every sum of exponentials; for one head."""
        return self.scores if self.known is None else hide(self.scores, self.known)

    @property
    def absent(self) -> Tensor:
        """(N, K), 1 where the label is known to be absent."""
        return 1 - self.targets if self.known is None else self.known - self.targets

    @property
    def signed(self) -> Tensor:
        """(N, K), the targets with -1 where unknown, as the user gave them."""
        return self.targets if self.known is None else self.targets + self.known - 1

    def no_soft_targets(self) -> bool:
        """Whether every target is certain to be 0 or 1; False where that would need reading values on a device."""
        return self.integral or (values_can_be_read(self.targets) and _all_hard(self.targets, 0.0))

    def mask(self, cells: Tensor) -> Tensor:
        """`cells` with zeros where the target is unknown."""
        return cells if self.known is None else cells * self.known

    def row_sizes(self) -> Tensor:
        """(N,), the number of known cells of each row."""
        if self.known is None:
            return self.targets.new_full((self.targets.shape[0],), self.targets.shape[1])
        return self.known.sum(1)

    def rows(self) -> Tensor:
        """(N,), 1 for rows with a known cell: a row without any is treated as if it were not there."""
        return (self.row_sizes() > 0).to(self.targets.dtype)

    def labelled_rows(self) -> Tensor:
        """(N,), 1 for rows in which a label is present."""
        return (self.targets.sum(1) > 0).to(self.targets.dtype)


def kind_of(value: object) -> str:
    """`value` in the words of an error: the type, and for a tensor its kind of number."""
    return f"a tensor of {value.dtype}" if isinstance(value, Tensor) else type(value).__name__


def check_dense(argument: str, owner: str, values: Tensor) -> None:
    """Refuses a sparse tensor."""
    if values.layout != torch.strided:
        raise refusal(argument, owner, "be dense", "a sparse tensor", "Call `.to_dense()` on them.")


def check_batch(
    owner: str, scores: Tensor, targets: Tensor, *, soft: bool = False, single: bool = False, heads: int = 1
) -> Batch:
    """Checks scores and targets and brings them to the form in which losses compute.

    Shapes and kinds are always checked. Values of targets are read only where that costs no synchronisation: on the
    CPU, outside of `torch.compile`. On an accelerator, call `check_targets` once on the data instead.

    Args:
        owner: Name of the loss, for the error.
        scores: (N, K), or (N, heads, K) for several heads.
        targets: (N, K), 1 present, 0 absent, -1 unknown.
        soft: Whether targets between 0 and 1 are allowed.
        single: Whether a row may carry one label at the most.
        heads: How many heads the scores come from.
    """
    if not isinstance(scores, Tensor) or not scores.is_floating_point():
        raise refusal(
            "scores", owner, "be a tensor of floating-point numbers", kind_of(scores), "Call `.float()` on them."
        )
    axes, rank = ("(N, K)", 2) if heads == 1 else (f"(N, {heads}, K)", 3)
    if scores.ndim != rank or (heads > 1 and scores.shape[1] != heads):
        remedy = "Pass one row a sample, one column a label." if heads == 1 else "Pass what `TwoHeads` returns."
        raise refusal("scores", owner, f"be {axes}", str(tuple(scores.shape)), remedy)
    if not isinstance(targets, Tensor) or targets.is_complex():
        remedy = "Pass `torch.as_tensor(targets)`, or encode names with `Labels`."
        raise refusal("targets", owner, "be a tensor of real numbers", kind_of(targets), remedy)
    check_dense("targets", owner, targets)
    cells = (scores.shape[0], scores.shape[-1])
    if tuple(targets.shape) != cells:
        remedy = "Pass `manyhot.one_hot(targets, K)` for class indices, or encode names with `Labels`."
        raise refusal("targets", owner, f"be (N, K) like `scores` {cells}", str(tuple(targets.shape)), remedy)

    scores = scores if scores.dtype == torch.float64 else scores.float()
    all_known = False
    if targets.dtype == torch.bool:
        all_known = True
    elif values_can_be_read(targets):
        all_known = check_values(owner, targets, soft=soft)
    integral = not targets.is_floating_point()
    targets = targets.to(scores.dtype)
    known = None
    if not all_known:
        # Not `targets >= 0`: where values are not read, a NaN must reach the loss and not pass as unknown.
        known = 1 - (targets < 0).to(scores.dtype)
        targets = targets.clamp(min=0)
    if single and values_can_be_read(targets) and targets.numel() and targets.sum(1).amax() > 1:
        remedy = "Use a loss for several labels, such as `SoftmaxLoss` or `BinaryCrossEntropyLoss`."
        raise refusal("targets", owner, "have one label a row at the most", "a row with several", remedy)
    return Batch(scores, targets, known, integral)


def check_targets(targets: Tensor, *, soft: bool = False) -> None:
    """Refuses targets that hold anything but 1 (present), 0 (absent) and -1 (unknown); reads every value.

    Losses do this themselves on the CPU. On an accelerator reading values would make the device wait, so do it once
    for the whole data set.

    Args:
        targets: Any shape.
        soft: Whether values between 0 and 1 are allowed, as in losses that add over labels.

    Example:
        >>> check_targets(torch.tensor([[1, 0, -1]]))
        >>> check_targets(torch.tensor([[0.5]]))
        Traceback (most recent call last):
        manyhot.refusal.Refusal: `targets` of `check_targets` must be 1, 0 or -1; got 0.5. Round them, or use a
            loss that adds over labels.
    """
    check_values("check_targets", targets, soft=soft)


def values_can_be_read(tensor: Tensor) -> bool:
    """Whether looking at values costs nothing: a real tensor on the CPU, not one that a compiler traces."""
    if torch.compiler.is_compiling() or transformed():
        return False
    return tensor.device.type == "cpu" and type(tensor) in (Tensor, torch.nn.Parameter)


def check_values(owner: str, targets: Tensor, *, soft: bool = False) -> bool:
    """Refuses targets of any other value than those allowed; returns whether all targets are known."""
    if targets.numel() == 0 or targets.dtype == torch.bool:
        return True
    bounds = torch.aminmax(targets)
    low, high = bounds.min.item(), bounds.max.item()
    rule = "be 1, 0, -1 or between 0 and 1" if soft else "be 1, 0 or -1"
    if math.isnan(low) or math.isnan(high):
        raise refusal("targets", owner, rule, "NaN", "Mark unknown cells with -1.")
    if low < -1 or high > 1:
        bad = low if low < -1 else high
        raise refusal("targets", owner, rule, f"{bad:g}", "Mark present cells with 1 and unknown ones with -1.")
    if not targets.is_floating_point():
        return low >= 0
    if low < 0:
        between = targets[(targets < 0) & (targets > -1)]
        if between.numel():
            raise refusal("targets", owner, rule, f"{float(between[0]):g}", "Mark unknown cells with -1.")
    if not soft and not _all_hard(targets, low):
        bad = float(targets[targets.square() != targets.abs()][0])
        raise refusal("targets", owner, rule, f"{bad:g}", "Round them, or use a loss that adds over labels.")
    return low >= 0


def _all_hard(targets: Tensor, low: float) -> bool:
    """Whether every target is 1, 0 or -1, for targets that lie between -1 and 1."""
    # Between 0 and 1 a square lies below its number, so these differences are not negative, and their sum is zero only
    # if each of them is.
    sizes = (targets if low >= 0 else targets.abs()).detach()
    return not bool(torch.addcmul(sizes, sizes, sizes, value=-1).sum())
