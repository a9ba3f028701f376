"""Checkpoints: everything a run needs to be resumed exactly, in one safetensors file, and the run folder."""

from __future__ import annotations

import ast
import json
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.data.loading import Batches, FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine.history import EpochRecord, LossTrace, write_csv
from manyhot.engine.validation import LOG_LOSS
from manyhot.errors import InputError, require
from manyhot.files import atomic_write
from manyhot.losses.loss import Loss
from manyhot.registry import upgrade_text
from manyhot.serialization import import_safetensors
from manyhot.settings import FitSettings

# Format 1 had the text that torch prints for the loss, and the log loss per cell. 2: the call that makes the loss, and
# the log loss per row. 3: losses have other names. 4: SGD's momentum and the learning rate of the bias are settings.
FORMAT = 4
ADDED_IN_FORMAT_4 = ("momentum", "nesterov", "bias_lr", "decay_all")
# Settings that say where and how a run computes, not what; they may change when it goes on.
HOW_SETTINGS = {"checkpoint_minutes", "accelerator", "devices", "find_unused_parameters", "compile", "tensorboard"}


@dataclass(frozen=True)
class Checkpoint:
    """A state on disk.

    Attributes:
        tensors: By name; the first word says whose they are.
        metadata: Everything else, as JSON holds it.
    """

    tensors: Mapping[str, Tensor]
    metadata: dict[str, Any]

    def of(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner."""
        start = len(owner) + 1
        return {name[start:]: value for name, value in self.tensors.items() if name.startswith(f"{owner}.")}

    def write(self, path: Path) -> None:
        """Writes the file atomically."""
        safetensors = import_safetensors("Checkpoints")
        # Copies, because tied weights share memory, which the format does not support.
        tensors = {name: value.detach().cpu().clone().contiguous() for name, value in self.tensors.items()}
        metadata = {**self.metadata, "format": FORMAT, "check": _checksum(tensors)}
        with atomic_write(path) as part:
            safetensors.torch.save_file(tensors, str(part), metadata={"manyhot": json.dumps(metadata)})

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Reads what `write` wrote; raises an error if the file is damaged."""
        safetensors = import_safetensors("Checkpoints")
        try:
            with safetensors.safe_open(str(path), framework="pt") as file:
                metadata = json.loads((file.metadata() or {}).get("manyhot", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, json.JSONDecodeError, OSError) as error:
            raise _checkpoint_error("be a whole file", path, f" ({error})") from None
        if not isinstance(metadata, dict) or metadata.get("format") not in range(1, FORMAT + 1):
            raise _checkpoint_error(f"hold format 1 to {FORMAT} of manyhot", path)
        if metadata.get("check") != _checksum(tensors):
            raise _checkpoint_error("hold what was written", path, " (its checksum is another one)")
        return cls(tensors, metadata)


def _checkpoint_error(rule: str, path: Path, why: str = "") -> InputError:
    hint = "Delete it to start from the beginning, or pass another folder."
    return InputError("checkpoint", "fit", rule, f"{str(path)!r}{why}", hint)


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    return _crc32(content for name in sorted(tensors) for content in (name.encode(), _bytes(tensors[name])))


def _crc32(contents: Iterable[Any]) -> int:
    return reduce(lambda total, content: zlib.crc32(content, total), contents, 0)


def _bytes(tensor: Tensor) -> memoryview:
    """What a tensor of any type holds."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The state of an optimiser, by the number of the parameter and the name of the entry."""
    state = optimizer.state_dict()["state"]
    return {f"{number}.{key}": value for number, values in state.items() for key, value in values.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Loads the state of an optimiser."""
    state = defaultdict[int, dict[str, Tensor]](dict)
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        state[int(number)][key] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def run_fingerprint(
    settings: FitSettings, network: nn.Module, loss: Loss, train: Batches, val: Batches | None
) -> dict[str, Any]:
    """What must be the same when a run is resumed, by the name that error messages use."""
    frozen = [value for value in network.parameters() if not value.requires_grad]
    shapes = {name: list(value.shape) for name, value in network.state_dict().items()}
    names = {item.name for item in fields(FitSettings)} - HOW_SETTINGS
    plan = {f"plan.{name}": getattr(settings, name) for name in sorted(names)}
    described: dict[str, Any] = {
        **json.loads(json.dumps(plan)),  # as a checkpoint holds it
        "network": _digest([json.dumps(shapes).encode()]),
        "frozen weights": _digest(map(_bytes, frozen)),
        "loss": " ".join(repr(loss).split()),
        "train": describe_data(train),
        "val": None if val is None else describe_data(val),
    }
    return described


def upgrade_metadata(metadata: dict[str, Any], val_targets: SparseTargets | None) -> None:
    """Brings the metadata of a checkpoint of an older format into the form of this one, in place.

    Args:
        metadata: As they were read.
        val_targets: The targets whose log loss is per cell in format 1 and per row now; None for other metrics.
    """
    setting, state = metadata["setting"], metadata["position"]
    if metadata["format"] < 2 and val_targets is not None:
        known = val_targets.dense() >= 0
        cells_per_row = int(known.sum()) / max(1, int(known.any(1).sum()))
        names = {"log loss": LOG_LOSS}
        state["history"] = [{names.get(name, name): epoch[name] for name in epoch} for epoch in state["history"]]
        for epoch in state["history"]:
            epoch |= {name: epoch[name] * cells_per_row for name in epoch if name == LOG_LOSS}
        if setting.get("plan.monitor") == "log loss":
            setting["plan.monitor"] = LOG_LOSS
            state["best_value"] = None if state["best_value"] is None else state["best_value"] * cells_per_row
    if metadata["format"] < 3:
        setting["loss"] = upgrade_text(setting["loss"])
    if metadata["format"] < 4:
        for name in ADDED_IN_FORMAT_4:
            setting.setdefault(f"plan.{name}", getattr(FitSettings(), name))


def check_fingerprint(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raises an error if a run is resumed with other settings, data or networks."""
    for name in now:
        old, new = before.get(name, ""), now[name]
        if old == new or (name == "loss" and "(link):" in old and same_as_printed(old, new)):
            continue
        what = name.removeprefix("plan.")
        if name == "loss":
            what, old, new = first_difference(old, new)
        hint = "Set it back, or start a new run in another folder."
        raise InputError("resume", "fit", f"go on with the same {what}, {old!r}", repr(new), hint)


def same_as_printed(module: str, call: str) -> bool:
    """Whether the call that makes a loss agrees with the text that torch printed for the module in format 1.

    That text lacks some arguments. The losses must have the same order, and the arguments that it has the same values.
    """
    losses = [re.findall(r"^\w+|\w*(?:Loss|Regulariser)(?=\()", text) for text in (module, call)]
    old, new = (_arguments(text) for text in (module, call))
    return losses[0] == losses[1] and all(
        values == new[name] for name, values in old.items() if len(values) == len(new.get(name, ()))
    )


def _arguments(text: str) -> dict[str, list[str]]:
    """The plain values of arguments by name, numbers with six digits."""
    arguments: dict[str, list[str]] = {}
    for name, literal, number in re.findall(r"(\w+)=(?:('[^']*'|[A-Za-z]\w*)|([-+.\w]+))", text):
        arguments.setdefault(name, []).append(literal or f"{float(number):g}")
    return arguments


def first_difference(before: str, now: str) -> tuple[str, str, str]:
    """The innermost argument in which two losses differ, in words, and its two values.

    Example:
        >>> first_difference("TwoWayLoss(axis='both', margin=0)", "TwoWayLoss(axis='both', margin=3)")
        ('margin of TwoWayLoss', '0', '3')
    """
    try:
        old, new = (ast.parse(text, mode="eval").body for text in (before, now))
    except SyntaxError:  # as format 1 has it, or with a digest of numbers
        return "loss", before, now
    what = "loss"
    while isinstance(old, ast.Call) and isinstance(new, ast.Call) and ast.dump(old.func) == ast.dump(new.func):
        owner, olds, news = ast.unparse(old.func), _call_arguments(old), _call_arguments(new)
        changed = [name for name in olds if name in news and ast.dump(olds[name]) != ast.dump(news[name])]
        if len(olds) != len(news) or not changed:
            break
        name = changed[0]
        what, old, new = f"{'loss' if isinstance(name, int) else name} of {owner}", olds[name], news[name]
    return what, ast.unparse(old), ast.unparse(new)


def _call_arguments(call: ast.Call) -> dict[int | str | None, ast.expr]:
    """By position or name."""
    return {**dict(enumerate(call.args)), **{keyword.arg: keyword.value for keyword in call.keywords}}


def describe_data(data: Batches) -> str:
    """Size and digest of a data set: of all targets, and of a sample of the features."""
    targets = data.targets
    content: list[Any] = [np.ascontiguousarray(targets.starts), np.ascontiguousarray(targets.columns)]
    content += [np.ascontiguousarray(part) for part in (targets.values, targets.unknown_labels) if part is not None]
    if isinstance(data, FeatureBatches):
        sample = data.features[:: max(1, len(data) // 1024)]
        content.append(_bytes(sample))
    return f"{len(targets):,} rows x {targets.num_labels:,} labels, {targets.unlisted}, {_digest(content)}"


def _digest(contents: Iterable[Any]) -> str:
    return f"{_crc32(contents):08x}"


class CheckpointStore:
    """Checkpoints, the tables and TensorBoard of one run; without a folder nothing is written.

    The file of the best weights is named by their epoch, so that it always agrees with the checkpoint, whenever a run
    is interrupted.

    Args:
        folder: Of the run.
        setting: What must be the same when the run goes on.
        writes: Whether this process writes; one of them does.

    Attributes:
        writes: Whether there is anything to write and this process writes it.
        last: The checkpoint to go on from, where there is a folder.
    """

    def __init__(self, folder: Path | None, setting: Mapping[str, Any], *, writes: bool) -> None:
        self.folder, self.setting, self.writes = folder, setting, writes and folder is not None
        self.tensorboard: Any = None
        if folder is not None:
            import_safetensors("Checkpoints")
            self.last = folder / "checkpoint" / "last.safetensors"

    def best(self, epoch: int) -> Path:
        """The weights of the best epoch."""
        return self.last.with_name(f"best-{epoch:04d}.safetensors")

    def last_exists(self) -> bool:
        """Whether there is a checkpoint to go on from."""
        return self.folder is not None and self.last.exists()

    def find(
        self, *, resume: bool, val_targets: SparseTargets | None = None
    ) -> tuple[Checkpoint | None, Mapping[str, Tensor]]:
        """The checkpoint to go on from, None to start from the beginning, and the best weights so far.

        Args:
            resume: Whether to resume the run in the folder; without, a run there raises an error.
            val_targets: The targets of `StandardMetrics`, for checkpoints of an older format.
        """
        checkpoint: Checkpoint | None = None
        best_state: Mapping[str, Tensor] = {}
        if self.last_exists():
            if not resume:
                hint, got = "Pass resume=True to go on with that run, or another folder.", f"{str(self.folder)!r}"
                raise InputError("folder", "fit", "be free of other runs", f"{got} with a checkpoint", hint)
            checkpoint = Checkpoint.read(self.last)
            upgrade_metadata(checkpoint.metadata, val_targets)
            check_fingerprint(checkpoint.metadata["setting"], self.setting)
            best = checkpoint.metadata["position"]["best_epoch"]
            best_state = {} if best is None else Checkpoint.read(self.best(best)).tensors
        if resume and self.folder is not None:
            # Of checkpoints and tables in whose middle the run was killed.
            for part in (*self.folder.glob(".*.part"), *self.last.parent.glob(".*.part")):
                part.unlink()
        return checkpoint, best_state

    def save(self, tensors: Mapping[str, Tensor], metadata: Mapping[str, Any], trace: LossTrace) -> None:
        """Writes the checkpoint to go on from and the tables, and removes best weights that it no longer knows."""
        Checkpoint(tensors, {"setting": self.setting, **metadata}).write(self.last)
        best = metadata["position"]["best_epoch"]
        for path in self.last.parent.glob("best-*.safetensors"):
            if best is None or path != self.best(best):
                path.unlink()
        self.write_tables(metadata["position"]["history"], trace)

    def save_best(self, epoch: int, state: Mapping[str, Tensor]) -> None:
        """Writes the weights of the best epoch so far."""
        if self.writes:
            Checkpoint(state, {"epoch": epoch}).write(self.best(epoch))

    def write_tables(self, history: Sequence[EpochRecord], trace: LossTrace) -> None:
        """Rewrites the table of epochs and that of the loss."""
        name, records = trace.table()
        for file, rows in (("metrics", history), (name, records)):
            if self.folder is not None and self.writes and rows:
                write_csv(rows, self.folder / f"{file}.csv")

    def open_tensorboard(self, *, steps: int) -> None:
        """Begins to log to TensorBoard; what an earlier run wrote after so many steps is taken back."""
        if self.folder is not None and self.writes:
            require("tensorboard", "Runs with `tensorboard=True`", extra="vision")
            from torch.utils.tensorboard import SummaryWriter

            self.tensorboard = SummaryWriter(str(self.folder / "tensorboard"), purge_step=steps + 1)

    def log_epoch(self, epoch: EpochRecord) -> None:
        """Adds the figures of an epoch to TensorBoard."""
        if self.tensorboard is not None:
            for name, value in epoch.items():
                if isinstance(value, float):
                    self.tensorboard.add_scalar(name, value, global_step=epoch["steps"])
            self.tensorboard.flush()

    def close(self) -> None:
        """Ends what is open."""
        if self.tensorboard is not None:
            self.tensorboard.close()
