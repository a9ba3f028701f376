"""Label names and class indices as targets, and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from manyhot.errors import InputError, suggest

# The target of a cell whose label may be present or absent.
UNKNOWN = -1


def one_hot(labels: Tensor, num_labels: int) -> Tensor:
    """Targets (N, K) of one class index per row (N,); -1 is a row without a label.

    Example:
        >>> one_hot(torch.tensor([2, -1]), 3)
        tensor([[0, 0, 1],
                [0, 0, 0]], dtype=torch.int8)
    """
    labels = torch.as_tensor(labels)
    if labels.ndim != 1 or labels.is_floating_point() or labels.dtype == torch.bool:
        got = f"{tuple(labels.shape)} of {labels.dtype}"
        raise InputError("labels", "one_hot", "be (N,) of whole numbers", got, "Pass one class index per row.")
    if labels.numel() and not (int(labels.min()) >= -1 and int(labels.max()) < num_labels):
        invalid = int(labels.min()) if int(labels.min()) < -1 else int(labels.max())
        rule = f"lie between -1 (no label) and {num_labels - 1}"
        raise InputError("labels", "one_hot", rule, str(invalid), "Check the indices, or increase `num_labels`.")
    return (labels.unsqueeze(1) == torch.arange(num_labels, device=labels.device)).to(torch.int8)


class Labels:
    """The names of the labels, in the order of the columns.

    Args:
        names: Distinct names.

    Example:
        >>> labels = Labels(["cat", "dog", "bird"])
        >>> labels.encode([["dog"], [], ["cat", "bird"]])
        tensor([[0, 1, 0],
                [0, 0, 0],
                [1, 0, 1]], dtype=torch.int8)
        >>> labels.decode(torch.tensor([[1, 0, 1]]))
        [['cat', 'bird']]
    """

    def __init__(self, names: Sequence[str]) -> None:
        is_list = isinstance(names, Iterable) and not isinstance(names, str)
        self.names = list(names) if is_list else []
        if not is_list or not all(isinstance(name, str) for name in self.names):
            raise InputError("names", "Labels", "be a list of strings", type(names).__name__, "Pass ['cat', 'dog'].")
        self._columns = {name: column for column, name in enumerate(self.names)}
        if len(self._columns) < len(self.names):
            twice = next(name for name in self.names if self.names.count(name) > 1)
            raise InputError("names", "Labels", "be distinct", f"{twice!r} twice", "Remove the repetition.")

    def __len__(self) -> int:
        """The number K of labels."""
        return len(self.names)

    def __repr__(self) -> str:
        """The first few names."""
        return f"Labels({len(self)}: {', '.join(self.names[:5])}{', ...' if len(self) > 5 else ''})"

    def column(self, name: str) -> int:
        """The column of a name, or the error that names the nearest one."""
        if name in self._columns:
            return self._columns[name]
        hint = suggest(str(name), self.names, f"The labels begin with {', '.join(self.names[:5])}.", show=repr)
        raise InputError("label", "Labels", f"be one of the {len(self)} names", repr(name), hint)

    def encode(self, rows: Iterable[Iterable[str]], *, unknown: Iterable[Iterable[str]] | None = None) -> Tensor:
        """Targets (N, K) of lists of names; those in `unknown` become `UNKNOWN`."""
        present = [self._columns_of(row) for row in rows]
        hidden = [self._columns_of(row) for row in unknown or ()]
        if len(hidden) not in (0, len(present)):
            rule, hint = f"have as many rows as `rows`, {len(present)}", "Pass an empty list for a row without any."
            raise InputError("unknown", "Labels.encode", rule, str(len(hidden)), hint)
        targets = torch.zeros(len(present), len(self), dtype=torch.int8)
        for value, lists in ((1, present), (UNKNOWN, hidden)):
            for i, columns in enumerate(lists):
                targets[i, columns] = value
        return targets

    def _columns_of(self, row: Iterable[str]) -> list[int]:
        return [self.column(name) for name in ([row] if isinstance(row, str) else row)]

    def decode(self, decisions: Tensor) -> list[list[str]]:
        """Names of the cells that are 1 or true, row by row."""
        if decisions.ndim != 2 or decisions.shape[1] != len(self):
            got = str(tuple(decisions.shape))
            raise InputError("decisions", "Labels", f"be (N, {len(self)})", got, "Keep the label axis.")
        return [[self.names[k] for k in row.nonzero().flatten().tolist()] for row in decisions == 1]
