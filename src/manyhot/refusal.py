"""The one sentence that is said to a user whose input cannot be taken."""

from __future__ import annotations


class Refusal(ValueError):
    """Input that cannot be taken: the message says which argument, the rule, what came, and what to do about it."""


def refusal(argument: str, owner: str, rule: str, got: str, remedy: str) -> Refusal:
    """The error for a bad argument: which one, the rule, what came, and what to do about it.

    Example:
        >>> print(refusal("k", "AverageKLoss", "be at least 1", "0.5", "Pass the wanted mean set size."))
        `k` of `AverageKLoss` must be at least 1; got 0.5. Pass the wanted mean set size.
    """
    return Refusal(f"`{argument}` of `{owner}` must {rule}; got {got}. {remedy}")
