"""Laws of links."""

from __future__ import annotations

import torch
from torch import Tensor

from manyhot.links import Link, NoLink, ratio_link
from manyhot.losses.loss import Loss


def check_link(link: Link) -> None:
    """Runs every law of links: it is increasing, and it can be inverted."""
    for law in LINK_LAWS:
        law(link)


def for_every_label(link: Link, values: Tensor) -> Tensor:
    """Values (n,) as a column for each label that the link has a weight for, (n, K)."""
    labels = 1 if link.pos_weight is None or link.pos_weight.ndim == 0 else link.pos_weight.shape[0]
    return values.unsqueeze(1).repeat(1, labels)


def check_link_round_trip(link: Link) -> None:
    """Probabilities come back from the scores that mean them, and lie in the link's range."""
    low, high = link.range
    probs = low + (high - low) * torch.tensor([1e-6, 1e-3, 0.1, 0.3, 0.5, 0.9, 0.999, 1 - 1e-6], dtype=torch.float64)
    probs = for_every_label(link, probs)
    if link.pos_weight is not None and high < 1:
        probs = probs[:-2]  # every label has a limit of its own, which the highest values may exceed
    back = link.probs(link.scores(probs))
    torch.testing.assert_close(
        back, probs, rtol=1e-9, atol=1e-12, msg=lambda m: f"the link's round trip is broken: {m}"
    )
    odds = link.log_odds(link.scores(probs))
    torch.testing.assert_close(
        odds, torch.logit(probs), rtol=1e-7, atol=1e-9, msg=lambda m: f"log_odds and probs differ: {m}"
    )


def check_link_is_increasing(link: Link) -> None:
    """A higher score never means a lower probability, and strictly a higher one away from the ends."""
    scores = for_every_label(link, torch.linspace(-60, 60, 2001, dtype=torch.float64))
    odds, probs = link.log_odds(scores), link.probs(scores)
    steps, finite = odds.diff(dim=0), odds[1:].isfinite() & odds[:-1].isfinite()
    if bool((steps[finite] < -1e-12).any()) or bool((probs.diff(dim=0) < -1e-15).any()):
        raise AssertionError("the link falls somewhere: a higher score means a lower probability")
    inner = finite & (probs[:-1] > 1e-4) & (odds[1:] < 9) & (probs[1:] < probs[-1] - 1e-4)
    if not bool((steps[inner] > 0).all()):
        raise AssertionError("the link is flat where it should rise")
    low, high = link.range
    if bool((probs < low).any()) or bool((probs > high + 1e-12).any()):
        raise AssertionError(f"the link leaves its range {link.range}")


def check_link_is_slope_ratio(loss: Loss) -> None:
    """The link of a loss that adds over labels is the ratio of its slopes: minimising the loss finds the true rates."""
    if isinstance(loss.link, NoLink):
        raise AssertionError(f"{type(loss).__name__} adds over labels but has no link")
    scores = for_every_label(loss.link, torch.linspace(-9, 9, 181, dtype=torch.float64))
    got, oracle = loss.link.log_odds(scores), ratio_link(loss).log_odds(scores)
    torch.testing.assert_close(got, oracle, rtol=1e-7, atol=1e-9, msg=lambda m: f"the link is not the loss's own: {m}")
    _check_minimum(loss, loss.link, scores)


def _check_minimum(loss: Loss, link: Link, scores: Tensor) -> None:
    """At the score that means p, the expected loss under p is stationary."""
    probs = link.probs(scores)
    inner = (probs > 1e-6) & (probs < 1 - 1e-6) & (probs < link.range[1] - 1e-9)
    leaf = scores.detach().clone().requires_grad_()
    (slopes,) = torch.autograd.grad(loss(leaf, probs.detach()).sum(), leaf)
    worst = float(slopes[inner].abs().max())
    if worst > 1e-9:
        raise AssertionError(
            f"the expected loss is not stationary at the scores that the link names: slope {worst:.1e}"
        )


LINK_LAWS = (check_link_round_trip, check_link_is_increasing)
