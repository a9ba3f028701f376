"""Whether probabilities come true, for the reliability diagram of the page."""

from __future__ import annotations

import math

from torch import Tensor

from manyhot.evaluation.names import shown
from manyhot.metrics import CalibrationError
from manyhot.report.page.promises import kept_promises
from manyhot.report.reliability import wilson
from manyhot.studio.messages import Bin, Reliability

BINS = 15


def reliability(probs: Tensor, targets: Tensor, *, label: str | None = None) -> Reliability:
    """Promised against observed frequencies.

    Args:
        probs: (N, K) of all labels or of one.
        targets: (N, K); unknown cells are left out.
        label: The name of the label, where it is one.

    Example:
        >>> probs = torch.full((100, 1), 0.95)
        >>> found = reliability(probs, (torch.arange(100) < 93).int().unsqueeze(1))
        >>> found.words
        ['Of the 100 answers above 90 %, 93 % were right (95 %: 86 to 97 %); 95 % was promised.']
    """
    outcome = CalibrationError(BINS).update(probs.contiguous(), targets).compute()
    details = outcome.details
    bins = []
    rows = zip(*(details[name].tolist() for name in ("cells", "mean_prob", "share_present")), strict=True)
    for place, (cells, promised, observed) in enumerate(rows):
        if cells:
            least, most = wilson(observed, int(cells))
            bins.append(
                Bin(
                    low=place / BINS,
                    high=(place + 1) / BINS,
                    cells=int(cells),
                    promised=promised,
                    observed=observed,
                    least=least,
                    most=most,
                )
            )
    return Reliability(
        label=label,
        bins=bins,
        ece=_number(outcome["ece"]),
        ace=_number(outcome["ace"]),
        ece_words=shown("ece", outcome["ece"]),
        ace_words=shown("ace", outcome["ace"]),
        cells=sum(found.cells for found in bins),
        words=list(kept_promises(probs, targets)),
    )


def untold(label: str | None, why: str) -> Reliability:
    """What is said of rows that are too few to judge by."""
    words, none = [why], shown("ece", None)
    return Reliability(label=label, bins=[], ece=None, ace=None, ece_words=none, ace_words=none, cells=0, words=words)


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
