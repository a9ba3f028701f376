"""Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file."""

from __future__ import annotations

import ast
import json
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.data.loading import Batches, FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine.judging import LOG_LOSS
from manyhot.engine.plan import Plan
from manyhot.files import whole_file
from manyhot.losses.loss import Loss
from manyhot.refusal import Refusal, refusal

# Format 1 knew a loss by what torch prints of a module, and the log loss per cell.
FORMAT, KNOWN_FORMATS = 2, (1, 2)
# Settings that say where and how a run computes, not what; they may change when it goes on.
FREE = ("checkpoint_minutes", "accelerator", "devices", "nodes", "strategy", "compile", "tensorboard")


def import_safetensors() -> Any:
    """The safetensors package with its torch functions, or the sentence that says how to get it."""
    try:
        import safetensors
        import safetensors.torch
    except ImportError:
        raise ImportError("Checkpoints need safetensors. Install it with: pip install 'manyhot[vision]'") from None
    return safetensors


@dataclass(frozen=True)
class Checkpoint:
    """A state on disk.

    Attributes:
        tensors: By name; the first word says whose they are.
        facts: Everything else, as JSON holds it.
    """

    tensors: Mapping[str, Tensor]
    facts: Mapping[str, Any]

    def of(self, owner: str) -> dict[str, Tensor]:
        """The tensors of one owner."""
        start = len(owner) + 1
        return {name[start:]: value for name, value in self.tensors.items() if name.startswith(f"{owner}.")}

    def write(self, path: Path) -> None:
        """Writes the file; whoever reads it sees the old one or the new one, never a part."""
        safetensors = import_safetensors()
        # Copies, because tied weights share their memory and the format has no words for that.
        tensors = {name: value.detach().cpu().clone().contiguous() for name, value in self.tensors.items()}
        facts = {**self.facts, "format": FORMAT, "check": _checksum(tensors)}
        with whole_file(path) as part:
            safetensors.torch.save_file(tensors, str(part), metadata={"manyhot": json.dumps(facts)})

    @classmethod
    def read(cls, path: Path) -> Checkpoint:
        """Reads what `write` wrote, or says what is wrong with it."""
        safetensors = import_safetensors()
        try:
            with safetensors.safe_open(str(path), framework="pt") as file:
                facts = json.loads((file.metadata() or {}).get("manyhot", "{}"))
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (safetensors.SafetensorError, json.JSONDecodeError, OSError) as error:
            raise _refused("be a whole file", path, f" ({error})") from None
        if not isinstance(facts, dict) or facts.get("format") not in KNOWN_FORMATS:
            raise _refused(f"hold format {FORMAT} of manyhot", path)
        if facts.get("check") != _checksum(tensors):
            raise _refused("hold what was written", path, " (its checksum is another one)")
        return cls(tensors, facts)


def _refused(rule: str, path: Path, why: str = "") -> Refusal:
    remedy = "Delete it to start from the beginning, or pass another folder."
    return refusal("checkpoint", "fit", rule, f"{str(path)!r}{why}", remedy)


def _checksum(tensors: Mapping[str, Tensor]) -> int:
    total = 0
    for name in sorted(tensors):
        total = zlib.crc32(_bytes(tensors[name]), zlib.crc32(name.encode(), total))
    return total


def _bytes(tensor: Tensor) -> memoryview:
    """What a tensor of any type holds."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """What an optimiser remembers of each parameter, by the parameter's number."""
    state = optimizer.state_dict()["state"]
    return {
        f"{number}.{key}": value
        for number, values in state.items()
        for key, value in values.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Gives an optimiser its memory back."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in tensors.items():
        number, key = name.split(".", 1)
        state.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


def setting(plan: Plan, network: nn.Module, loss: Loss, train: Batches, val: Batches | None) -> dict[str, Any]:
    """What must be the same when a run goes on, each under the name that a sentence would call it by."""
    frozen = [value for value in network.parameters() if not value.requires_grad]
    shapes = {name: list(value.shape) for name, value in network.state_dict().items()}
    return {
        **{f"plan.{f.name}": _json_form(getattr(plan, f.name)) for f in fields(plan) if f.name not in FREE},
        "network": _digest([json.dumps(shapes).encode()]),
        "frozen weights": _digest(_bytes(value) for value in frozen),
        "loss": " ".join(repr(loss).split()),
        "train": describe_data(train),
        "val": None if val is None else describe_data(val),
    }


def upgraded(checkpoint: Checkpoint, judged: SparseTargets | None) -> Checkpoint:
    """A checkpoint of an older format in the form of this one.

    Args:
        checkpoint: As it was read.
        judged: The targets whose log loss format 1 has per cell, and this one per row; None where figures are others.
    """
    if checkpoint.facts["format"] == FORMAT or judged is None:
        return checkpoint
    known = judged.dense() >= 0
    cells_per_row = int(known.sum()) / max(1, int(known.any(1).sum()))
    facts = dict(checkpoint.facts)
    place = facts["position"] = dict(facts["position"])
    place["history"] = [
        {
            LOG_LOSS if name == "log loss" else name: value * cells_per_row if name == "log loss" else value
            for name, value in epoch.items()
        }
        for epoch in place["history"]
    ]
    if facts["setting"].get("plan.monitor") == "log loss":
        facts["setting"] = facts["setting"] | {"plan.monitor": LOG_LOSS}
        place["best_value"] = None if place["best_value"] is None else place["best_value"] * cells_per_row
    return Checkpoint(checkpoint.tensors, facts)


def check_setting(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to go on with a run under another setting."""
    for name in now:
        old, new = before.get(name, ""), now[name]
        if old == new or (name == "loss" and "(link):" in old and same_as_printed(old, new)):
            continue
        what = name.removeprefix("plan.")
        if name == "loss":
            what, old, new = differing(old, new)
        remedy = "Set it back, or start a new run in another folder."
        raise refusal("resume", "fit", f"go on with the same {what}, {old!r}", repr(new), remedy)


def same_as_printed(module: str, call: str) -> bool:
    """Whether a loss, spelt as the call that makes it, may be the one that torch printed as a module for format 1.

    That left arguments out. What it has must agree: the losses in their order, and arguments as often as in the call.
    """
    losses = [re.findall(r"^\w+|\w*(?:Loss|Regulariser)(?=\()", text) for text in (module, call)]
    old, new = (_arguments(text) for text in (module, call))
    return losses[0] == losses[1] and all(
        values == new[name] for name, values in old.items() if len(values) == len(new.get(name, ()))
    )


def _arguments(text: str) -> dict[str, list[str]]:
    """The plain values of arguments by name, numbers with six digits."""
    found: dict[str, list[str]] = {}
    for name, word, number in re.findall(r"(\w+)=(?:('[^']*'|[A-Za-z]\w*)|([-+.\w]+))", text):
        found.setdefault(name, []).append(word or f"{float(number):g}")
    return found


def differing(before: str, now: str) -> tuple[str, str, str]:
    """The innermost argument in which two losses differ, in words, and its two values.

    Example:
        >>> differing("TwoWayLoss(axis='both', margin=0)", "TwoWayLoss(axis='both', margin=3)")
        ('margin of TwoWayLoss', '0', '3')
    """
    try:
        old, new = (ast.parse(text, mode="eval").body for text in (before, now))
    except SyntaxError:  # as format 1 has it, or with a digest of numbers
        return "loss", before, now
    what = "loss"
    while isinstance(old, ast.Call) and isinstance(new, ast.Call) and ast.dump(old.func) == ast.dump(new.func):
        others = [
            pair for pair in zip(_named(old), _named(new), strict=False) if ast.dump(pair[0]) != ast.dump(pair[1])
        ]
        if len(_named(old)) != len(_named(new)) or not others:
            break
        first, second = others[0]
        what = f"{first.arg or 'loss'} of {ast.unparse(old.func)}"
        old, new = first.value, second.value
    return what, ast.unparse(old), ast.unparse(new)


def _named(call: ast.Call) -> list[ast.keyword]:
    return [*(ast.keyword(arg=None, value=value) for value in call.args), *call.keywords]


def describe_data(data: Batches) -> str:
    """Size and digest of a data set: of all targets, and of a sample of the features."""
    targets = data.targets
    content: list[Any] = [np.ascontiguousarray(targets.starts), np.ascontiguousarray(targets.columns)]
    content += [] if targets.values is None else [np.ascontiguousarray(targets.values)]
    if isinstance(data, FeatureBatches):
        sample = data.features[:: max(1, len(data) // 1024)]
        content.append(_bytes(sample))
    return f"{len(targets):,} rows x {targets.num_labels:,} labels, {targets.unlisted}, {_digest(content)}"


def _digest(content: Iterable[Any]) -> str:
    total = 0
    for part in content:
        total = zlib.crc32(part, total)
    return f"{total:08x}"


def _json_form(value: Any) -> Any:
    """The value as it comes back from JSON."""
    return list(value) if isinstance(value, tuple) else value
