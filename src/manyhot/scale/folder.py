"""A folder of parts, which is its own memory: what has been scored into it, with what, and from which images."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import NamedTuple

from manyhot.files import locked, whole_file
from manyhot.predictions.arrow import as_strings, import_arrow
from manyhot.predictions.header import TEXT_COLUMNS
from manyhot.predictions.parts import Part, check_alike
from manyhot.refusal import refusal

OWNER = "predict_with_ray"
WORK, SEEN, LEFT_OUT = "work.json", "seen", "left-out.csv"
LOCK, WRITING = ".lock", ".writing"
FORMAT = 1
PART = re.compile(r"part-(\d{5,})\.parquet")
COLUMNS = ["id", "state", "left_out"]


class Seen(NamedTuple):
    """What was met with an image.

    Attributes:
        state: A digest that is another one as soon as the image may be another one; empty if nobody noted it.
        left_out: Why it could not be read; empty if it was scored.
        part: The name of the part it belongs to; empty while that is not there.
    """

    state: str
    left_out: str
    part: str = ""


class PartsFolder:
    """Parts of one table, `part-00000.parquet` and so on, and beside them what the next run has to know.

    `work.json` says which classifier it was begun with. `seen/part-00000.csv` lists the images of a part with their
    state, and why some were left out. It is written before its part, which thereby completes the pair: parts are the
    one thing that decides what is done, also those that were put there by other means.

    Args:
        path: The folder.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path).absolute()

    def begin(self, classifier: str, *, overwrite: bool = False) -> None:
        """Notes what the folder is for, or refuses one of other work.

        Args:
            classifier: Digest of what scores.
            overwrite: Whether to remove the parts that are there.
        """
        if overwrite:
            self._clear()
        elif (begun := self._begun()) not in (None, classifier):
            rule = f"have been begun with this classifier and rule, {classifier}"
            remedy = "Choose another folder, or pass `overwrite` to replace its parts."
            raise refusal("folder", OWNER, rule, f"{str(self.path)!r}, begun with {begun}", remedy)
        with whole_file(self.path / WORK) as part:
            content = {"format": FORMAT, "classifier": classifier}
            part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Makes the folder and keeps other runs out of it: two at once would score everything twice."""
        self._make()
        with ExitStack() as session:
            try:
                session.enter_context(locked(self.path / LOCK, wait=False))
            except BlockingIOError:
                got = f"{str(self.path)!r}, which another run writes to"
                raise refusal("folder", OWNER, "be free", got, "Wait for that run, or end it.") from None
            # Processes outlive a run that is killed by some seconds, and may finish a part meanwhile.
            with locked(self.path / WRITING):
                for stale in (*self.path.glob(".*.part"), *(self.path / SEEN).glob(".*.part")):
                    stale.unlink()
            yield

    def writing(self) -> AbstractContextManager[None]:
        """Lets the next run know that a process still writes; several may at once."""
        return locked(self.path / WRITING, shared=True)

    def part(self, number: int) -> Path:
        """Where a part lies."""
        return self.path / f"part-{number:05d}.parquet"

    def free_numbers(self) -> Iterator[int]:
        """Numbers of parts that are not there, rising: after a crash the gaps come first."""
        taken = {int(found[1]) for path in self._files() if (found := PART.fullmatch(path.name))}
        return (number for number in count() if number not in taken)

    def note(self, number: int, ids: Iterable[str], seen: Iterable[Seen]) -> None:
        """Lists the images of a part, which must not be there yet."""
        rows = ((name, one.state, one.left_out) for name, one in zip(ids, seen, strict=True))
        _write_rows(self._list(self.part(number)), COLUMNS, rows)

    def seen(self) -> dict[str, Seen]:
        """What the parts tell of each image; refuses parts that are damaged or belong to several tables."""
        seen: dict[str, Seen] = {}
        parts = [Part(path) for path in self._files()]
        if parts:
            check_alike(parts)
        scored = {name for part in parts for name in _ids(part)}
        for part in parts:
            # What could not be read may have been scored later, and a list may be that of a part which was removed.
            noted = self._noted(part.path)
            seen |= {name: one for name, one in noted if (name in scored) != bool(one.left_out)}
        return seen | {name: Seen("", "") for name in scored if name not in seen}

    def rows(self) -> int:
        """How many rows the parts have."""
        return sum(int(import_arrow().parquet.read_metadata(path).num_rows) for path in self._files())

    def list_left_out(self) -> dict[str, str]:
        """Writes `left-out.csv`, the images that could not be read, and returns them with the reasons."""
        left_out = {name: one.left_out for name, one in self.seen().items() if one.left_out}
        if not left_out:
            (self.path / LEFT_OUT).unlink(missing_ok=True)
            return left_out
        _write_rows(self.path / LEFT_OUT, ["id", "reason"], left_out.items())
        return left_out

    def _make(self) -> None:
        if self.path.exists() and not self.path.is_dir():
            raise refusal("folder", OWNER, "be a folder", f"{str(self.path)!r}, a file", "Name a folder.")
        self.path.mkdir(parents=True, exist_ok=True)
        if not (self.path / WORK).is_file() and any(not name.name.startswith(".") for name in self.path.iterdir()):
            got = f"{str(self.path)!r} with other files"
            raise refusal("folder", OWNER, "be empty or one that it began itself", got, "Choose another folder.")

    def _files(self) -> list[Path]:
        return sorted(self.path.glob("*.parquet"))

    def _list(self, part: Path) -> Path:
        return self.path / SEEN / f"{part.stem}.csv"

    def _noted(self, part: Path) -> Iterator[tuple[str, Seen]]:
        path = self._list(part)
        if not path.is_file():
            return
        with path.open(newline="", encoding="utf-8") as file:
            rows = csv.reader(file)
            if next(rows, None) != COLUMNS:
                rule, remedy = f"hold lists as it wrote them in {SEEN!r}", "Remove it; its images are then not checked."
                raise refusal("folder", OWNER, rule, repr(str(path)), remedy)
            yield from ((name, Seen(state, left_out, part.name)) for name, state, left_out in rows)

    def _clear(self) -> None:
        parts = [path for path in self._files() if PART.fullmatch(path.name)]
        for path in (*parts, *(self.path / SEEN).glob("part-*.csv"), self.path / LEFT_OUT):
            path.unlink(missing_ok=True)

    def _begun(self) -> str | None:
        """The classifier that the folder was begun with, if it was begun."""
        path = self.path / WORK
        if not path.is_file():
            return None
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            rule, got = f"hold a {WORK} of this version of manyhot", f"{str(path)!r}, which is none"
            raise refusal("folder", OWNER, rule, got, "Choose another folder, or update manyhot.")
        return str(content.get("classifier"))


def digest_of(text: str) -> str:
    """A short text that stands for a long one."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _write_rows(path: Path, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with whole_file(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(rows)


def _ids(part: Part) -> Iterator[str]:
    column = TEXT_COLUMNS["ids"]
    for piece in part.pieces([column], None):
        yield from as_strings(piece.column(column)).to_pylist()
