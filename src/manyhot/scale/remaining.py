"""What is left to score: all images but those that a folder has, provided that they are the same ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from manyhot.data import Dataset
from manyhot.refusal import refusal
from manyhot.scale.folder import OWNER, Seen
from manyhot.scale.scorer import states_of

Array = np.ndarray[Any, Any]


def rows_to_score(dataset: Dataset, seen: dict[str, Seen], *, again: bool) -> Array:
    """The rows of images that are not in the folder yet.

    Refuses images that were scored as others, or under other ids: both would make a table in which one id, or one
    image, stands for two.

    Args:
        dataset: The images.
        seen: What the folder knows, by id.
        again: Whether to try those again that could not be read, and have not changed since.
    """
    if not seen:
        return np.arange(len(dataset))
    assert dataset.images is not None
    states = states_of(dataset.images)
    known = [seen.get(name) for name in dataset.ids]
    changed = [row for row, one in enumerate(known) if one and not one.left_out and one.state not in ("", states[row])]
    if changed:
        raise _changed([dataset.ids[row] for row in changed], seen)
    new = [row for row, one in enumerate(known) if one is None]
    _refuse_other_ids(dataset, [(row, states[row]) for row in new], seen)
    tried = [row for row, one in enumerate(known) if one and one.left_out and (again or one.state != states[row])]
    return np.array(sorted(new + tried), dtype=np.int64)


def _changed(names: list[str], seen: dict[str, Seen]) -> Exception:
    parts = sorted({seen[name].part for name in names})
    which = f"{', '.join(parts[:3])}{' ...' if len(parts) > 3 else ''}"
    got = f"{len(names):,} that changed or lie elsewhere, such as {names[0]!r}"
    remedy = f"Choose another folder, or remove {which} from this one to have the images scored again."
    return refusal("samples", OWNER, "be the images that were scored under these ids", got, remedy)


def _refuse_other_ids(dataset: Dataset, new: list[tuple[int, str]], seen: dict[str, Seen]) -> None:
    """Refuses what has been scored under an id that it no longer has: ids depend on how images are named."""
    scored = {one.state: name for name, one in seen.items() if one.state and not one.left_out}
    ids = set(dataset.ids)
    for row, state in new:
        if state in scored and scored[state] not in ids:
            got = f"{dataset.ids[row]!r}, which was scored as {scored[state]!r}"
            remedy = "Name the folder, pattern or table as before, or choose another folder."
            raise refusal("samples", OWNER, "have the ids that they were scored under", got, remedy)
