"""Judges: from what a run gave to the figures of a table, each a function of an outcome that gives plain JSON."""

from collections.abc import Callable
from typing import Any

from experiments.harness.judges import average_k, many_label, one_label, open_set, retrieval, uniform, zero_label
from experiments.harness.training import Outcome

JUDGES: dict[str, Callable[[Outcome], dict[str, Any]]] = {
    "one_label": one_label.one_label,
    "zero_label": zero_label.zero_label,
    "many_label": many_label.many_label,
    "retrieval": retrieval.retrieval,
    "average_k": average_k.average_k,
    "uniform": uniform.uniform,
    "open_set": open_set.open_set,
}
