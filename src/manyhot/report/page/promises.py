"""Whether probabilities came true, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from manyhot.report.page.shares import Share, percent, share_of

# What is said of answers between two probabilities.
BANDS = {"above 90 %": (0.9, 1.0), "between 50 and 90 %": (0.5, 0.9), "between 10 and 50 %": (0.1, 0.5)}
# Fewer answers say more about chance.
FEWEST = 10
# The difference between a promise and what came true that nobody minds, in fractions.
NO_MATTER = 0.02


def kept_promises(probs: Tensor, targets: Tensor) -> Iterator[str]:
    """What came true of answers that were sure, likely and unlikely; nothing is said of a few of them.

    Args:
        probs: (N, K).
        targets: (N, K); unknown cells are left out.

    Example:
        >>> probs = torch.full((100, 1), 0.95)
        >>> print(*kept_promises(probs, (torch.arange(100) < 93).int().unsqueeze(1)))
        Of the 100 answers above 90 %, 93 % were right (95 %: 86 to 97 %); 95 % was promised.
    """
    for name, (low, high) in BANDS.items():
        inside = (probs > low) & (probs <= high) & (targets >= 0)
        share = share_of(targets > 0, inside)
        if share is not None and share.cells >= FEWEST:
            promised = float(probs[inside].double().mean())
            were = f"{percent(share.value)} were right ({share.ends}); {percent(promised)} was promised"
            yield f"Of the {share.cells:,} answers {name}, {were}{verdict(share, promised)}."


def verdict(share: Share, promised: float) -> str:
    """Whether a promise was too bold or too timid; nothing where it was kept."""
    if share.low - NO_MATTER <= promised <= share.high + NO_MATTER:
        return ""
    return ", which was too bold" if promised > share.value else ", which was too timid"
