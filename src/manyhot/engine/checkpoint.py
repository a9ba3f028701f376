"""Checkpoints: everything a run needs to go on as if it had never stopped, in one safetensors file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.data.loading import Batches, FeatureBatches
from manyhot.engine.plan import Plan
from manyhot.files import whole_file
from manyhot.losses.loss import Loss
from manyhot.refusal import Refusal, refusal

FORMAT = 1
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
        facts = {"format": FORMAT, "check": _checksum(tensors), **self.facts}
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
        if not isinstance(facts, dict) or facts.get("format") != FORMAT:
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


def check_setting(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses to go on with a run under another setting."""
    for name in now:
        if before.get(name) != now[name]:
            rule = f"go on with the same {name.removeprefix('plan.')}, {before.get(name)!r}"
            remedy = "Set it back, or start a new run in another folder."
            raise refusal("resume", "fit", rule, repr(now[name]), remedy)


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
