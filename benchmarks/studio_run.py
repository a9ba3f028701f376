"""A run to serve: EfficientNet-Lite0 with an untrained head, generated photos, and predictions."""

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from timing import sparse_targets
from torch import Tensor

import manyhot as mh
from manyhot.backbones import create_backbone
from manyhot.classifier import Classifier
from manyhot.images import decode
from manyhot.network import Network
from manyhot.predictions import Predictions


def draw_photos(count: int, *, width: int, height: int) -> list[bytes]:
    """JPEGs that are as rough as photos: about 100 KB at 640 x 480."""
    draw, photos = np.random.default_rng(0), []
    for _ in range(count):
        coarse = Image.fromarray(draw.integers(0, 256, (height // 20, width // 20, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32)
        noisy = smooth + draw.normal(0, 10, smooth.shape)
        file = io.BytesIO()
        Image.fromarray(noisy.clip(0, 255).astype(np.uint8)).save(file, "JPEG", quality=85)
        photos.append(file.getvalue())
    return photos


def make_classifier(photos: list[bytes], labels: int) -> tuple[Classifier, Tensor]:
    """A classifier with a calibrator and a rule, and its scores of the photos; about three labels a photo."""
    torch.manual_seed(0)
    backbone = create_backbone()
    head = mh.LinearHead(backbone.width, labels)
    network = Network(backbone, head).eval()
    size = max(backbone.preprocessing.size)
    pixels = [backbone.preprocessing.prepare(decode(photo, name="photo", min_side=size)) for photo in photos]
    with torch.no_grad():
        spread, mean = torch.std_mean(network.scores(torch.stack(pixels)), 0)
        head.weight.div_(spread[:, None])
        assert head.bias is not None
        head.bias.copy_(-mean / spread - 2)
        scores = network.scores(torch.stack(pixels))
    noise = torch.randn(scores.shape, generator=torch.Generator().manual_seed(1))
    targets = torch.zeros_like(scores).scatter_(1, (scores + noise).topk(3).indices, 1.0)
    calibrator = mh.PlattScaling(link=mh.SigmoidLink()).fit(scores, targets)
    rule = mh.LabelThresholds().fit(calibrator(scores), targets)
    names = [f"label {label}" for label in range(labels)]
    return Classifier(network, names, link=mh.SigmoidLink(), calibrator=calibrator, rule=rule), scores


def write_run(
    folder: Path, classifier: Classifier, scores: Tensor, *, photos: int, targets: Tensor | None = None
) -> None:
    """A run with these scores as its predictions; images are the photos in turn."""
    classifier.save(folder)
    table = classifier.decide(scores)
    rows = range(len(scores))
    Predictions(
        scores=table.scores,
        probs=table.probs,
        decisions=table.decisions,
        abstain=table.abstain,
        targets=targets,
        labels=table.labels,
        ids=[f"image {row:06d}" for row in rows],
        paths=[f"photos/{row % photos}.jpg" for row in rows],
        splits=["val" if row % 4 == 0 else "test" for row in rows],
        link=table.link,
        calibrator=table.calibrator,
        rule=table.rule,
    ).save(folder / "predictions.parquet")


def make_runs(folder: Path, *, photos: list[bytes], labels: int, rows: int) -> tuple[Path, Path]:
    """A run whose table is small, and one with a collection to look at; both have the same model."""
    (folder / "photos").mkdir()
    for number, photo in enumerate(photos):
        (folder / "photos" / f"{number}.jpg").write_bytes(photo)
    classifier, scores = make_classifier(photos, labels)
    small, large = folder / "small", folder / "large"
    write_run(small, classifier, scores, photos=len(photos))
    noise, targets = sparse_targets(rows, labels)
    write_run(large, classifier, noise + 4 * targets - 4, photos=len(photos), targets=targets)
    return small, large
