"""Small collections for the tests of the studio: pictures on disk and a table of predictions about them."""

from pathlib import Path

import torch
from PIL import Image

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.network import Network

LABELS = ["dog", "cat", "hot dog", "black and white", "park"]


def write_pictures(folder: Path, count: int) -> list[str]:
    """Plain pictures, each of a grey of its own; their names."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"{number:03d}.png" for number in range(count)]
    for number, name in enumerate(names):
        Image.new("RGB", (40, 30), (7 * number % 256,) * 3).save(folder / name)
    return names


def predictions(
    names: list[str], *, seed: int = 0, targets: bool = True, rule: mh.Rule | None = None
) -> mh.Predictions:
    """Honest probabilities of every picture, the first third of them called "val"; labels are drawn from them."""
    draw = torch.Generator().manual_seed(seed)
    probs = torch.rand(len(names), len(LABELS), generator=draw) ** 2
    drawn = (torch.rand(probs.shape, generator=draw) < probs).int()
    held = len(names) // 3
    table = mh.Predictions(
        probs=probs,
        targets=drawn if targets else None,
        labels=LABELS,
        ids=names,
        paths=names,
        splits=["val"] * held + ["test"] * (len(names) - held),
    )
    return table if rule is None else table.replace(decisions=rule.fit(probs, drawn)(probs), rule=rule)


def write_collection(folder: Path, count: int = 30, **options: object) -> Path:
    """Pictures and the table of predictions beside them; where the table is."""
    table = predictions(write_pictures(folder, count), **options)
    table.save(folder / "predictions.parquet")
    return folder / "predictions.parquet"


def write_run(folder: Path, count: int = 30) -> Path:
    """Pictures, what is predicted of them and decided by a rule, and a model of the same labels; the folder itself."""
    table = predictions(write_pictures(folder, count), rule=mh.LabelThresholds())
    table.save(folder / "predictions.parquet")
    torch.manual_seed(0)
    backbone = create_backbone("digit_templates")
    network = Network(backbone, mh.LinearHead(backbone.width, len(LABELS)))
    mh.Classifier(network, LABELS, link=mh.SigmoidLink(), rule=mh.Threshold(0.5)).save(folder)
    return folder
