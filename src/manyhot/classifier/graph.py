"""A classifier as one function of tensors, to be written down as a graph."""

from __future__ import annotations

from torch import Tensor, nn

from manyhot.calibrate.calibrator import Calibrator
from manyhot.classifier.graph_maps import CalibratorGraph, LinkGraph
from manyhot.classifier.graph_rules import decide_in_graph
from manyhot.decide.rule import Rule, rule_values
from manyhot.links import Link
from manyhot.network import Network


class AnswerGraph(nn.Module):
    """From what the network takes to scores, probabilities and decisions.

    Args:
        network: Gives scores.
        link: Gives probabilities where there is no calibrator; None for scores alone.
        calibrator: Gives probabilities.
        rule: Gives decisions, on probabilities if there are any.
    """

    def __init__(self, network: Network, link: Link | None, calibrator: Calibrator | None, rule: Rule | None) -> None:
        super().__init__()
        self.network, self.rule, self.link = network, rule, link
        self.probs: nn.Module | None = None
        if calibrator is not None:
            self.probs = CalibratorGraph(calibrator)
        elif link is not None:
            self.probs = LinkGraph(link)

    @property
    def outputs(self) -> list[str]:
        """The names of what `forward` returns."""
        return ["scores"] + ["probs"] * (self.probs is not None) + ["decisions", "abstain"] * (self.rule is not None)

    def forward(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Scores (N, K); probabilities (N, K); labels (N, K) and abstention (N,) as bool."""
        scores = self.network.scores(inputs).float()
        answers = [scores]
        if self.probs is not None:
            answers.append(self.probs(scores))
        if self.rule is not None:
            values = answers[-1] if self.probs is None else rule_values(answers[-1], scores, self.link)
            decision = decide_in_graph(self.rule, values)
            answers += [decision.labels, decision.abstain]
        return tuple(answers)
