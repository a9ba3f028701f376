"""Learning rates as functions of the step."""

from __future__ import annotations

import math

from manyhot.engine.plan import Plan

# Where a one-cycle schedule starts and ends, as shares of its height.
_FIRST, _LAST = 1 / 25, 1e-4 / 25


def rate(plan: Plan, step: int, total: int) -> float:
    """The factor on the learning rates at a step, counted from 0.

    After `warmup` the factor is 1 and then goes as the schedule says; "cosine" and "one-cycle" end near 0.

    Args:
        plan: Schedule, warm-up, milestones and drop.
        step: Which step.
        total: Steps of the whole run.

    Example:
        >>> from manyhot.engine import Plan
        >>> [round(rate(Plan(warmup=0.2), step, 10), 3) for step in (0, 1, 2, 6, 9)]
        [0.5, 1.0, 1.0, 0.5, 0.038]
    """
    rising = round(plan.warmup * total)
    if step < rising:
        share = (step + 1) / rising
        return _between(_FIRST, 1.0, share) if plan.schedule == "one-cycle" else share
    if plan.schedule == "constant":
        return 1.0
    if plan.schedule == "step":
        return plan.drop ** sum(step >= share * total for share in plan.milestones)
    share = (step - rising) / max(1, total - rising)
    return _between(1.0, _LAST if plan.schedule == "one-cycle" else 0.0, share)


def _between(first: float, last: float, share: float) -> float:
    """From `first` to `last` along half a wave of the cosine."""
    return last + (first - last) * (1 + math.cos(math.pi * share)) / 2
