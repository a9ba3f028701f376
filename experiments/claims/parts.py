"""What the papers claim, and what the runs say of it: each claim in parts, each part held against an interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from experiments.harness.arms import Arm
from experiments.harness.found import Found, at
from experiments.harness.jobs import Ledger
from experiments.harness.statistics import Interval
from experiments.harness.studies import SEEDS, jobs_of
from experiments.many_labels import JUDGES, arms

ABOVE, BELOW, TIED = "above", "below", "tied"
# What nobody would notice, and what everybody would; as fractions.
LEAST, PLAIN = 0.002, 0.01
SOME = 0.25
HOLDS, PARTLY, FAILS, UNKNOWN = "holds", "holds in part", "does not hold here", "not run"


@dataclass(frozen=True)
class Part:
    """One comparison.

    Attributes:
        text: What is compared, as the page says it.
        gap: The first figure less the second; None where runs are missing, or have one seed each and not the same.
        claimed: Whether the paper has it "above" or "below" the second, or "tied" with it.
        unit: "points" of percent, or "" for plain numbers.
        least: How large a difference the claim speaks of.
    """

    text: str
    gap: Interval | None
    claimed: str
    unit: str = "points"
    least: float = LEAST

    @property
    def holds(self) -> bool | None:
        """Whether the interval is where the paper says; None where it cannot tell, and for small gaps of one seed."""
        if self.gap is None:
            return None
        mean, half = self.gap.mean, self.gap.half
        if half is None:
            if abs(mean) < PLAIN:
                return None
            half = 0.0
        if self.claimed == TIED:
            return True if abs(mean) + half < PLAIN else False if abs(mean) - half >= LEAST else None
        ahead = mean if self.claimed == ABOVE else -mean
        if ahead - half > 0 and ahead >= self.least:
            return True
        return False if ahead + half < max(self.least, PLAIN) else None

    def shown(self) -> str:
        """The comparison with its figure."""
        if self.gap is None:
            return f"{self.text}: not run"
        factor, digits = (100, 2) if self.unit == "points" else (1, 3)
        half = "(one seed)" if self.gap.half is None else f"± {factor * self.gap.half:.{digits}f}"
        unit = f" {self.unit}" if self.unit else ""
        return f"{self.text}: {factor * self.gap.mean:+z.{digits}f} {half}{unit}"


@dataclass(frozen=True)
class Claim:
    """What a paper says in its headline.

    Attributes:
        paper: Its number.
        text: The claim.
        parts: What it amounts to, the most telling first.
        reason: What to make of it.
    """

    paper: str
    text: str
    parts: Sequence[Part]
    reason: str

    @property
    def verdict(self) -> str:
        """All parts hold; at least a quarter of those that are not open do; or fewer."""
        answers = [part.holds for part in self.parts]
        known = [answer for answer in answers if answer is not None]
        if not known:
            return UNKNOWN
        if all(answers):
            return HOLDS
        return PARTLY if sum(known) >= SOME * len(known) else FAILS


class Evidence:
    """The runs by what the claims ask of them.

    Args:
        ledger: The runs that are kept.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def of(self, arms: Sequence[Arm], material: str, judges: Sequence[str], judge: str) -> Found:
        """The figures of arms on a material."""
        return Found(self.ledger, jobs_of(arms, material, judges, SEEDS), judge)

    @cached_property
    def photos(self) -> Found:
        """Networks on photos."""
        return self.of(arms(), "coco", JUDGES, "many_label")

    @cached_property
    def heads(self) -> Found:
        """Linear heads on features of photos."""
        return self.of(arms(), "coco features", ("many_label",), "many_label")


def read_by(found: Found, one: str, reading: str, other: str, other_reading: str) -> Interval | None:
    """The precision of search by one loss and reading, less that by another."""
    return found.gap(one, other, at("readings", reading, "map"), at("readings", other_reading, "map"))
