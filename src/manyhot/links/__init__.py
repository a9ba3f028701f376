"""Links: what the scores of a loss mean as probabilities."""

from manyhot.links.additive import AsymmetricLink, SigmoidLink, StrictlyProperAsymmetricLink, phi
from manyhot.links.link import Link, NoLink
from manyhot.links.normalised import QuasibinaryLink, SoftmaxLink
from manyhot.links.ratio import RatioLink, ratio_link

__all__ = [
    "AsymmetricLink",
    "Link",
    "NoLink",
    "QuasibinaryLink",
    "RatioLink",
    "SigmoidLink",
    "SoftmaxLink",
    "StrictlyProperAsymmetricLink",
    "phi",
    "ratio_link",
]
