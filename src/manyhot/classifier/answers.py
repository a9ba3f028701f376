"""Answers for people: which labels a sample carries, and how sure that is."""

from __future__ import annotations

from dataclasses import dataclass

from manyhot.decide import Threshold
from manyhot.predictions import Predictions
from manyhot.terminal import percent


@dataclass(frozen=True)
class Answer:
    """What is said about one sample.

    Attributes:
        path: Where the sample lies, or its id.
        labels: The names of the labels that are given, the most probable first.
        probs: The probability of these labels and of the next most probable ones, the highest first.
        abstain: Whether no answer is given and a person should look.
        none: Whether the answer is that none of the labels is there.

    Example:
        >>> Answer("cat.jpg", ["cat"], {"cat": 0.93, "dog": 0.21}, abstain=False, none=False)
        Answer('cat.jpg': cat 93.0 %; not dog 21 %)
    """

    path: str
    labels: list[str]
    probs: dict[str, float]
    abstain: bool
    none: bool

    def __repr__(self) -> str:
        """One line: what is given, and what is not."""
        shown = {name: f"{name} {percent(prob)}" for name, prob in self.probs.items()}
        given = ", ".join(shown[name] for name in self.labels)
        others = ", ".join(text for name, text in shown.items() if name not in self.labels)
        if self.abstain:
            return f"Answer({self.path!r}: ask a person; {', '.join(filter(None, (given, others)))})"
        return f"Answer({self.path!r}: {given or 'none of these'}{f'; not {others}' if others else ''})"


def answers_of(table: Predictions, *, top: int) -> list[Answer]:
    """An answer for each row of a table.

    Args:
        table: Predictions with probabilities; where nothing was decided, labels of at least 50 % are given.
        top: How many labels to name besides those that are given.
    """
    probs = table.probabilities()
    if table.decisions is None:
        table = table.replace(decisions=Threshold(0.5)(probs))
    assert table.decisions is not None
    assert table.abstain is not None
    order = probs.argsort(dim=1, descending=True, stable=True)
    names, answers = table.labels.names, []
    for row, path in enumerate(table.paths or table.ids):
        given = table.decisions[row]
        columns = order[row]
        shown = columns[given[columns] | ((~given[columns]).cumsum(0) <= top)].tolist()
        answers.append(
            Answer(
                path=path,
                labels=[names[column] for column in shown if given[column]],
                probs={names[column]: float(probs[row, column]) for column in shown},
                abstain=bool(table.abstain[row]),
                none=not bool(given.any()) and not bool(table.abstain[row]),
            )
        )
    return answers
