"""Shares of cells with intervals that know that cells of one row go together."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from manyhot.report.reliability import wilson


class Share(NamedTuple):
    """How many of the cells are hits, and between what their share lies with 95 % confidence."""

    hits: int
    cells: int
    low: float
    high: float

    @property
    def value(self) -> float:
        """The share itself."""
        return self.hits / self.cells

    @property
    def ends(self) -> str:
        """The interval, for people."""
        return f"95 %: {between(self.low, self.high)}"


def share_of(hits: Tensor, cells: Tensor) -> Share | None:
    """The share of hits among cells, both (N, K) of booleans; None without cells.

    The interval is Wilson's for as many cells as these are worth: where cells of a row are right or wrong together,
    that is fewer than there are. Where all or none are hits, nothing tells whether they go together, and a row is worth
    one cell.

    Example:
        >>> cells = torch.ones(50, 4, dtype=torch.bool)
        >>> together = (torch.arange(50) % 2 == 0).unsqueeze(1).expand(50, 4)
        >>> share_of(together, cells).ends
        '95 %: 37 to 63 %'
    """
    by_row, right = cells.sum(1).double(), (hits & cells).sum(1).double()
    count, found = int(by_row.sum()), int(right.sum())
    if not count:
        return None
    share = found / count
    spread = float(((right - share * by_row) ** 2).sum())
    alone = count * share * (1 - share)
    worth = count / max(1.0, spread / alone) if alone else int((by_row > 0).sum())
    return Share(found, count, *wilson(share, max(1, round(worth))))


def percent(share: float) -> str:
    """A share as people read it, with a digit more where it is nearly nothing or nearly everything.

    Example:
        >>> percent(0.912), percent(0.996), percent(0.0004), percent(1.0)
        ('91 %', '99.6 %', '0.04 %', '100 %')
    """
    return f"{number(share)} %"


def between(low: float, high: float) -> str:
    """Two ends in percent.

    Example:
        >>> between(0.88, 0.94)
        '88 to 94 %'
    """
    return f"{number(low)} to {number(high)} %"


def number(share: float) -> str:
    """A share in percent without its sign; what is not everything is not rounded to it."""
    share = round(share, 9)
    near = min(share, 1 - share)
    digits = next((digits for digits, least in enumerate((0.01, 0.001, 0.0001)) if near >= least), 3)
    return f"{100 * share:.0f}" if near <= 0 else f"{100 * share:.{digits}f}"


def one_in(rate: float, what: str, noun: str) -> str:
    """How often something happens, in words.

    Args:
        rate: How many of it a row has in the mean.
        what: It, such as "label too many".
        noun: What a row is.

    Example:
        >>> one_in(0.21, "label too many", "picture"), one_in(1.3, "label missed", "row")
        ('one label too many in every 5 pictures', '1.3 labels missed a row')
    """
    first, _, rest = what.partition(" ")
    if rate <= 0:
        return f"no {what}"
    if rate > 0.67:
        return f"{rate:.1f} {first}s {rest} a {noun}"
    return f"one {what} in every {round(1 / rate):,} {noun}s"


def counted(count: int, noun: str) -> str:
    """A number with its noun.

    Example:
        >>> counted(1, "picture"), counted(1200, "picture")
        ('1 picture', '1,200 pictures')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
