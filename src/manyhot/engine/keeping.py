"""What a run leaves in its folder, and how it finds it again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from manyhot.data.targets import SparseTargets
from manyhot.engine.checkpoint import Checkpoint, check_setting, upgraded
from manyhot.engine.records import Board, Epoch, write_table
from manyhot.engine.tracing import TracePoint
from manyhot.refusal import refusal


class Keeper:
    """Checkpoints, the tables and TensorBoard of one run; without a folder it keeps nothing.

    The best weights lie in a file that is named by their epoch, so that the checkpoint and the weights which it calls
    the best are never of two minds, wherever a run is broken off.

    Args:
        folder: Of the run.
        setting: What must be the same when the run goes on.
        writes: Whether this process writes; one of them does.
    """

    def __init__(self, folder: Path | None, setting: Mapping[str, Any], *, writes: bool) -> None:
        self.folder, self.setting = folder, setting
        self.writes = writes and folder is not None
        self.board: Board | None = None

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints lie."""
        assert self.folder is not None
        return self.folder / "checkpoint"

    @property
    def last(self) -> Path:
        """The checkpoint to go on from."""
        return self.checkpoints / "last.safetensors"

    def best(self, epoch: int) -> Path:
        """The weights of the best epoch."""
        return self.checkpoints / f"best-{epoch:04d}.safetensors"

    def last_exists(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.folder is not None and self.last.exists()

    def find(self, *, resume: bool, judged: SparseTargets | None = None) -> Checkpoint | None:
        """The checkpoint to go on from; None to start from the beginning.

        Args:
            resume: Whether to go on with the run in the folder, which is refused otherwise.
            judged: The targets that `StandardJudge` judges by, for checkpoints of an older format.
        """
        checkpoint = None
        if self.last_exists():
            if not resume:
                remedy, got = "Pass resume=True to go on with that run, or another folder.", f"{str(self.folder)!r}"
                raise refusal("folder", "fit", "be free of other runs", f"{got} with a checkpoint", remedy)
            checkpoint = upgraded(Checkpoint.read(self.last), judged)
            check_setting(checkpoint.facts["setting"], self.setting)
        if resume and self.writes:
            for part in self.checkpoints.glob(".*.part"):  # of a checkpoint in whose middle the run was killed
                part.unlink()
        return checkpoint

    def save(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Writes the checkpoint to go on from, and removes best weights that it no longer knows."""
        if not self.writes:
            return
        Checkpoint(tensors, {"setting": self.setting, **facts}).write(self.last)
        known = facts["position"]["best_epoch"]
        for path in self.checkpoints.glob("best-*.safetensors"):
            if known is None or path != self.best(known):
                path.unlink()

    def save_best(self, epoch: int, state: Mapping[str, Tensor]) -> None:
        """Writes the weights of the best epoch so far."""
        if self.writes:
            Checkpoint(state, {"epoch": epoch}).write(self.best(epoch))

    def record(self, history: Sequence[Epoch], *, only_table: bool = False) -> None:
        """Writes the table of epochs anew, and the last one to TensorBoard."""
        if not self.writes or not history:
            return
        assert self.folder is not None
        write_table(history, self.folder / "metrics.csv")
        if self.board is not None and not only_table:
            self.board.write(history[-1])

    def record_trace(self, points: Sequence[TracePoint]) -> None:
        """Writes the table of the normaliser anew."""
        if self.writes and points:
            assert self.folder is not None
            write_table([point._asdict() for point in points], self.folder / "normaliser.csv")

    def open_board(self, *, steps: int) -> None:
        """Begins to log to TensorBoard."""
        if self.writes:
            assert self.folder is not None
            self.board = Board(self.folder / "tensorboard", steps=steps)

    def close(self) -> None:
        """Ends what is open."""
        if self.board is not None:
            self.board.close()
