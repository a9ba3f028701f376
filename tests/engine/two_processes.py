"""What each of two processes runs: every way of training once."""

import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from manyhot.engine import FitSettings, NoProgress, fit, score
from tests.engine.problems import data_of, network_of, targets_of, weights
from tests.losses import CASES
from tests.process_groups import leave_group

WAYS = {
    "bce": ("bce", {}, {}),
    "two-way": ("two-way", {}, {}),
    "spa-pairs": ("spa-pairs", {}, {}),
    "quasibinary": ("quasibinary", {}, {}),
    "role": ("role", {}, {}),
    "class-wise": ("class-wise", {}, {}),
    "batch norm": ("bce", {"ema": 0.9, "batch_size": 8}, {"norm": True}),
    "bce in parts": ("bce", {"accumulate": 3}, {}),
    "two-way in parts with batch norm": (
        "two-way",
        {"accumulate": 2, "optimizer": "sgd", "batch_size": 8},
        {"norm": True},
    ),
    "one row a step": ("two-way", {"batch_size": 1}, {}),
}


def trained(name, **places):
    case, options, shape = WAYS[name]
    dense = targets_of(CASES[case])
    # Rows 3 and 30 stand for files that cannot be read; with one row a step, such a step has no row at all.
    train = data_of(dense, bad=[3, 30])
    settings = FitSettings(**{"epochs": 2, "batch_size": 9, "lr": 0.02, "accelerator": "cpu", **options})
    loss = CASES[case].build(dense).double()
    return fit(
        network_of(**shape),
        loss,
        train,
        val=data_of(dense, bad=[5]),
        settings=settings,
        progress=NoProgress(),
        **places,
    )


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    tensors = {}
    for name in WAYS:
        result = trained(name)
        tensors |= {f"{name}|{key}": value.contiguous().clone() for key, value in weights(result).items()}
        tensors[f"{name}|figures"] = torch.tensor([[e["train loss"], e["mAP"]] for e in result.history])
    scores, rows = score(network_of(), data_of(targets_of(), bad=[5]), batch_size=4)
    tensors |= {"score|scores": scores, "score|rows": rows}
    save_file(tensors, str(folder / f"{torch.distributed.get_rank()}.safetensors"))
    leave_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
