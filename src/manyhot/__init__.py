"""manyhot: classification with zero, one or many labels, and confidences that can be trusted.

A loss and the link that turns its scores into probabilities belong together, and what users want follows from them:

    loss = StrictlyProperAsymmetricLoss()
    loss(scores, targets).backward()      # targets: 1 present, 0 absent, -1 unknown; rows without labels are fine
    probs = loss.link.probs(scores)       # the loss knows what its scores mean

    calibrator = Beta(link=loss.link).fit(held_out_scores, held_out_targets)
    rule = AverageK(3).fit(calibrator(held_out_scores))
    decision = rule(calibrator(scores))   # .labels (N, K) and .abstain (N,)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from manyhot.api import *  # noqa: F403

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # The public names are in `api`, imported when one is first used: the command line answers without torch.
    if not name.startswith("_") or name == "__all__":
        api = import_module("manyhot.api")
        if name in api.__all__ or name == "__all__":
            return getattr(api, name)
    raise AttributeError(f"module 'manyhot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *import_module("manyhot.api").__all__]
