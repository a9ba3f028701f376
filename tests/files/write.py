"""Writes the files that `test_old_files.py` opens: every kind of file that manyhot leaves on a disk, small.

The folders `0.1.0-29efffe`, `0.1.0-10dc239` and `0.1.0-11e3d50` were written by the code of these commits, with this
script as it was there:

    python -m tests.files.write tests/files/0.1.0-29efffe

Files that were written once are never written again: they stand for those that users have. A version that changes a
format writes a folder of its own beside the others, by the script as that version needs it. What the files must give is
stored beside them in `expected.json`, in the numbers of the code that wrote them.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

import manyhot as mh
from experiments.runs import Job, RunStore
from experiments.training import Method
from manyhot.backbones import Preprocessing, create_backbone, extract_features, wrap
from manyhot.classifier import Classifier
from manyhot.cli.app import app
from manyhot.data import from_arrays, read_corrections, read_data
from manyhot.data.loading import FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.engine import trainer as running
from manyhot.links import AsymmetricLink, QuasibinaryLink
from manyhot.losses import SumLink
from manyhot.network import Network
from manyhot.predictions import PredictionsWriter
from manyhot.scale import predict_with_ray
from manyhot.search import Collection
from manyhot.studio.review import Review
from manyhot.training import Run, TrainSettings, train

LABELS = ["cat", "dog", "bird"]
SETTINGS = {
    "epochs": 4,
    "batch_size": 8,
    "lr": 0.02,
    "monitor": "log loss",
    "accelerator": "cpu",
    "val": 0.3,
    "test": 0.3,
}
RECIPES = {
    "": {"hidden": 6, "heads": 2, "dropout": 0.1, "weight_decay": 0.1},
    "-quasibinary": {"loss": "quasibinary", "hidden": 0, "ema": 0.5, "calibrator": "none"},
}


def numbers(value):
    """Tensors and arrays as lists of JSON; infinite numbers as texts, which `test_old_files.tensor` reads."""
    if isinstance(value, torch.Tensor | np.ndarray):
        return numbers(value.tolist())
    if isinstance(value, list | tuple):
        return [numbers(item) for item in value]
    return str(value) if isinstance(value, float) and not abs(value) < float("inf") else value


def note(folder, content):
    """What the files of a folder must give."""
    plain = {name: numbers(value) for name, value in content.items()}
    (folder / "expected.json").write_text(json.dumps(plain, allow_nan=False) + "\n")


def held_out(rows=80, labels=3, seed=0):
    """Scores and targets: some cells unknown, a row without a label, and tied scores."""
    draw = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(rows, labels, generator=draw) - 0.5
    targets = (torch.rand(scores.shape, generator=draw) < torch.sigmoid(1.5 * scores - 0.5)).int()
    targets[0], targets[3, 1], scores[4:8] = 0, -1, scores[8:12]
    return scores, targets


def one_label(rows=80, labels=3):
    """Scores and targets with one label a row."""
    scores, _ = held_out(rows, labels, seed=1)
    draw = torch.Generator().manual_seed(2)
    chosen = torch.multinomial(torch.softmax(0.5 * scores, 1), 1, generator=draw)
    return scores, torch.zeros(rows, labels).scatter_(1, chosen, 1).int()


def links():
    """Every link that can be saved, with and without options."""
    quasibinary = QuasibinaryLink()
    quasibinary.fit([held_out()])
    return {
        "sigmoid": mh.SigmoidLink(),
        "sigmoid-weighted": mh.SigmoidLink(pos_weight=[2.0, 1.0, 0.5]),
        "asymmetric": AsymmetricLink(4, 1, 0.05),
        "asymmetric-no-margin": AsymmetricLink(2, 0, 0.0),
        "spa": mh.links.StrictlyProperAsymmetricLink(),
        "spa-weighted": mh.links.StrictlyProperAsymmetricLink(pos_weight=3.0),
        "quasibinary": quasibinary,
        "softmax": mh.links.SoftmaxLink(),
        "sum": SumLink([mh.SigmoidLink(), AsymmetricLink(2, 0, 0.05)], [1.0, 0.5]),
    }


def calibrators():
    """Every calibrator, fitted: kinds by sharing by link."""
    kinds = {
        "temperature": mh.TemperatureScaling,
        "affine": mh.PlattScaling,
        "beta": mh.BetaCalibration,
        "isotonic": mh.IsotonicCalibration,
    }
    scores, targets = held_out()
    found = {"quasibinary-constant": mh.calibrate.QuasibinaryConstant().fit(scores, targets)}
    found["softmax-temperature"] = mh.calibrate.SoftmaxTemperature().fit(*one_label())
    for name, kind in kinds.items():
        for sharing in ("all", "none", "partial"):
            found[f"{name}-{sharing}"] = kind(sharing=sharing).fit(scores, targets)
            for of, link in links().items():
                if sharing == "partial" or of in ("sigmoid", "spa"):
                    found[f"{name}-{sharing}-{of}"] = kind(sharing=sharing, link=link).fit(scores, targets)
    return found


def rules():
    """Every rule with every option, fitted on probabilities."""
    probs, targets = torch.sigmoid(held_out()[0]).double(), held_out()[1]
    unfitted = {
        "threshold": mh.Threshold(0.3),
        "threshold-never": mh.Threshold(float("inf")),
        "costs": mh.decide.CostThresholds(1.0, 3.0),
        "costs-of-labels": mh.decide.CostThresholds([1.0, 2.0, 0.0], 3.0),
        "top-k": mh.TopK(2),
        "label-thresholds": mh.LabelThresholds(),
        "label-thresholds-unshrunk": mh.LabelThresholds(beta=2, shrink=0),
        "label-thresholds-precision": mh.LabelThresholds(precision=0.8),
        "label-thresholds-recall": mh.LabelThresholds(recall=0.9, shrink=5),
        "average-k": mh.AverageK(1.3),
        "uniform": mh.decide.UniformThreshold(),
        "classes": mh.decide.ClassThresholds(),
        "expected-f": mh.ExpectedFBeta(),
        "expected-f-2": mh.ExpectedFBeta(2.0),
        "misses": mh.ConformalRiskControl(0.2),
        "misses-delta": mh.ConformalRiskControl(0.4, delta=0.2),
        "false-discoveries": mh.ConformalRiskControl(0.3, "false_discoveries"),
        "risk-out-of-reach": mh.ConformalRiskControl(0.01),
        "none-of-these": mh.NoneOfThese(mh.TopK(2), keep=0.8),
        "none-of-these-given": mh.NoneOfThese(mh.LabelThresholds(), threshold=0.5),
        "ask": mh.Abstain(mh.Threshold(0.5), at_most=0.2),
        "ask-errors": mh.Abstain(mh.LabelThresholds(), max_errors=0.5),
        "ask-none": mh.Abstain(mh.NoneOfThese(mh.AverageK(1.5), threshold=0.4), at_most=0.3),
        "none-ask": mh.NoneOfThese(mh.Abstain(mh.ExpectedFBeta(), max_errors=1.0)),
    }
    return {name: rule.fit(probs, targets) for name, rule in unfitted.items()}


def write_modules(folder):
    """Links, calibrators and rules as JSON."""
    scores = torch.cat([held_out(seed=5)[0][:6].double(), torch.tensor([[-40.0, 0.0, 40.0], [-700.0, 25.0, 700.0]])])
    probs = torch.cat(
        [torch.sigmoid(held_out(seed=6)[0][:12].double()), torch.tensor([[0.5, 0.5, 0.5], [0.0, 0.0, 1.0]])]
    )
    given = {}
    for kind, modules in (("links", links()), ("calibrators", calibrators()), ("rules", rules())):
        (folder / kind).mkdir(parents=True)
        given[kind] = {}
        for name, module in modules.items():
            mh.save(module, folder / kind / f"{name}.json")
            if kind == "links":
                given[kind][name] = {
                    "log odds": numbers(module.log_odds(scores)),
                    "probs": numbers(module.probs(scores)),
                }
            elif kind == "calibrators":
                given[kind][name] = {"log odds": numbers(module.log_odds(scores)), "probs": numbers(module(scores))}
            else:
                decision = module(probs)
                given[kind][name] = {
                    "labels": numbers(decision.labels.int()),
                    "abstain": numbers(decision.abstain.int()),
                }
    note(folder, {"scores": scores, "probs": probs, **given})


def table_of(rows=12, dtype=torch.float32):
    """A table with everything that a table can have."""
    scores, targets = held_out()
    calibrator = mh.BetaCalibration(link=mh.links.StrictlyProperAsymmetricLink()).fit(scores, targets)
    rule = mh.Abstain(mh.ExpectedFBeta(), at_most=0.3).fit(calibrator(scores), targets)
    scores = scores[:rows].to(dtype)
    probs = calibrator(scores)
    return mh.Predictions(
        scores=scores,
        probs=probs,
        targets=targets[:rows],
        decisions=rule(probs),
        labels=LABELS,
        ids=[f"photo {row}" for row in range(rows)],
        paths=[f"photos/{row}.jpg" for row in range(rows)],
        splits=["val", "test"] * (rows // 2),
        link=mh.links.StrictlyProperAsymmetricLink(),
        calibrator=calibrator,
        rule=rule,
    )


def write_tables(folder):
    """Tables of predictions in Parquet: all kinds of columns, few of them, and one that was written in batches."""
    folder.mkdir(parents=True)
    whole = table_of()
    tables = {
        "whole": whole,
        "double": table_of(dtype=torch.float64),
        "probs": mh.Predictions(probs=whole.probs, labels=["a, b", "ü", 'say "c"']),
        "scores": mh.Predictions(scores=whole.scores, targets=whole.targets, link=mh.SigmoidLink()),
    }
    for name, table in tables.items():
        table.save(folder / f"{name}.parquet")
    with PredictionsWriter(folder / "batches.parquet", LABELS, link=mh.SigmoidLink()) as writer:
        for start in (0, 5, 10):
            writer.write(mh.Predictions(scores=whole.scores[start : start + 5], splits="test"))
    tables["batches"] = mh.Predictions.open(folder / "batches.parquet").load()
    kinds = ("scores", "probs", "targets", "decisions", "abstain")
    note(
        folder,
        {
            name: {
                "labels": table.labels.names,
                "ids": table.ids,
                "paths": table.paths,
                "splits": table.splits,
                "dtype": str((table.probs if table.scores is None else table.scores).dtype),
                "probabilities": numbers(table.probabilities()),
                **{kind: None if getattr(table, kind) is None else numbers(getattr(table, kind)) for kind in kinds},
            }
            for name, table in tables.items()
        },
    )


def write_calibrated(folder):
    """A calibrator that `manyhot calibrate --save` fitted on probabilities, and the table that it gave."""
    folder.mkdir(parents=True)
    scores, targets = held_out()
    splits = ["val" if row < 60 else "test" for row in range(len(scores))]
    mh.Predictions(probs=torch.sigmoid(2 * scores), targets=targets, splits=splits).save(folder / "probs.parquet")
    options = ["--fit-on", "val", "--save", "calibrator.json", "-o", "calibrated.parquet"]
    with chdir(folder):
        app(["calibrate", "probs.parquet", *options], standalone_mode=False)
    note(folder, {"probs": mh.Predictions.open(folder / "calibrated.parquet").load().probs})


def small_network():
    """A network of one's own, whose weights are a formula."""
    network = nn.Sequential(
        nn.Conv2d(3, 4, 3, stride=2), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    )
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.copy_(torch.sin(torch.arange(parameter.numel()) * 0.7 + 0.3).reshape(parameter.shape) * 0.5)
    return network


def pictures(count=8, side=40):
    """Small pictures as pixels, by a formula."""
    row, y, x, channel = np.meshgrid(range(count), range(side), range(side), range(3), indexing="ij")
    return ((row * 37 + (x // 5) * 11 * (row % 3 + 1) + (y // 8) * 23 + channel * 60) % 256).astype(np.uint8)


def write_classifiers(folder):
    """Folders of classifiers, one for each head and each kind of backbone, and ONNX files of two of them."""
    folder.mkdir(parents=True)
    scores, targets = held_out()
    calibrator = mh.BetaCalibration(link=mh.SigmoidLink()).fit(scores, targets)
    rule = mh.Abstain(mh.LabelThresholds(), at_most=0.2).fit(calibrator(scores), targets)
    torch.manual_seed(0)
    heads = {
        "linear": mh.LinearHead(5, 3),
        "cosine": mh.CosineHead(5, 3, bias="shared", scale=8.0),
        "hidden": mh.MLPHead(5, 3, hidden=4, dropout=0.5),
        "two-heads": mh.heads.TwoHeads(5, 3),
    }
    readings = {"two-heads": "multi", "cosine": "log-softmax"}
    features, content = torch.randn(6, 5), {}
    for name, head in heads.items():
        network = Network(None, head, reading=readings.get(name, "plain"))
        classifier = Classifier(network, LABELS, link=mh.SigmoidLink(), calibrator=calibrator, rule=rule)
        classifier.save(folder / name)
        content[name] = answers_of(classifier.predict(features))
        if name == "linear":
            classifier.export(folder / "linear.onnx")
    photos = pictures()
    np.savez_compressed(folder / "pictures.npz", x=photos)
    preprocessing = Preprocessing(size=(24, 32), resize="squash")
    wrapped = Network(wrap(small_network(), 16, preprocessing, name="small"), mh.LinearHead(16, 3))
    classifier = Classifier(wrapped, LABELS, link=mh.SigmoidLink(), calibrator=calibrator, rule=rule)
    classifier.save(folder / "own-network")
    classifier.export(folder / "own-network.onnx")
    content["own-network"] = answers_of(classifier.predict(list(photos)))
    digits = Network(create_backbone("digit_templates"), mh.LinearHead(200, 3))
    classifier = Classifier(digits, LABELS, link=mh.SigmoidLink(), rule=mh.Threshold(0.5))
    classifier.save(folder / "digits")
    content["digits"] = answers_of(classifier.predict(list(photos)))
    note(folder, {"features": features, **content})


def answers_of(table):
    """What a classifier says, for JSON."""
    kinds = ("scores", "probs", "decisions", "abstain")
    return {kind: numbers(getattr(table, kind)) for kind in kinds if getattr(table, kind) is not None}


def write_cache(folder, classifiers):
    """A cache of features of the pictures, by the backbone of the classifier `digits`."""
    backbone = mh.load(classifiers / "digits").network.backbone
    photos = pictures()[:6]
    found = extract_features(backbone, from_arrays(photos, [[]] * len(photos), labels=LABELS), cache=folder)
    note(folder, {"features": found.features[:, ::25]})


def write_parts(folder, classifiers):
    """A folder of parts of six pictures, and one file that could not be read."""
    photos = from_arrays(pictures()[:6], [[]] * 6, labels=LABELS, ids=[f"photo {row}" for row in range(6)])
    photos = replace(photos, targets=None)
    predict_with_ray(classifiers / "digits", photos, folder, rows=4, batch_size=4, workers=1, device="cpu")
    with tempfile.TemporaryDirectory() as elsewhere:
        Path(elsewhere, "broken.png").write_bytes(b"no picture")
        with chdir(elsewhere):
            predict_with_ray(classifiers / "digits", ["broken.png"], folder, rows=4, workers=1, device="cpu")
    for name in (".lock", ".writing"):
        (folder / name).unlink(missing_ok=True)
    table = mh.Predictions.open(folder).load()
    found = Collection.open(folder).search("cat & !dog", k=3)
    note(
        folder,
        {
            "ids": table.ids,
            **answers_of(table),
            "left out": json.loads(json.dumps(dict(read_left_out(folder)))),
            "hits": [[hit.id, hit.prob] for hit in found.hits],
        },
    )


def read_left_out(folder):
    """Names and reasons of `left-out.csv`."""
    return [line.split(",", 1) for line in (folder / "left-out.csv").read_text().splitlines()[1:]]


def learnable(rows=60):
    """Features and labels that can be learnt."""
    draw = np.random.default_rng(0)
    features = draw.normal(size=(rows, 5)).astype(np.float32).round(3)
    chances = 1 / (1 + np.exp(-2 * features[:, :3] + 0.3))
    return features, (draw.random((rows, 3)) < chances).astype(np.int8)


class StopsAt(NoProgress):
    """Asks a run to end after so many steps, as Ctrl-C does."""

    def __init__(self, step):
        self.last = step

    def step(self, done, *, epoch, loss):
        if done == self.last:
            os.kill(os.getpid(), signal.SIGINT)


def write_runs(folder):
    """Finished runs, and the same ones broken off in the middle of an epoch."""
    folder.mkdir(parents=True)
    features, targets = learnable()
    np.savez(folder / "features.npz", x=features, y=targets, names=LABELS)
    running.SHOW_EVERY_SECONDS, content = 0.0, {}
    with chdir(folder):
        data, source = read_data("features.npz"), {"paths": ["features.npz"]}
        for name, settings in RECIPES.items():
            recipe = TrainSettings.build(SETTINGS | settings)
            run = train(data, recipe, folder=f"finished{name}", source=source, progress=NoProgress())
            assert run.figures["best epoch"] > 2
            content[f"finished{name}"] = described(run, features)
            if run.normaliser is not None:
                content[f"finished{name}"]["normaliser"] = {
                    key: numbers(value) for key, value in run.normaliser.items()
                }
            try:
                train(data, recipe, folder=f"broken-off{name}", source=source, progress=StopsAt(5))
            except KeyboardInterrupt:
                assert not Run(f"broken-off{name}").finished
    note(folder, content)


def described(run, features):
    """What can be read from the folder of a run."""
    table = run.predictions().load()
    return {
        "config": run.config,
        "figures": run.figures,
        "history": run.history,
        "labels": table.labels.names,
        "ids": table.ids,
        "splits": table.splits,
        "table": answers_of(table) | {"targets": numbers(table.targets)},
        "answers": answers_of(run.classifier().predict(torch.from_numpy(features[:8]))),
    }


def engine_plan():
    """Options that leave something behind in a checkpoint."""
    options = {"optimizer": "sgd", "schedule": "step", "ema": 0.9, "clip": 1.0}
    return FitSettings(epochs=3, batch_size=10, lr=0.05, accelerator="cpu", **options)


def engine_parts():
    """Network and loss as they are before training."""
    network = Network(None, mh.LinearHead(5, 3))
    with torch.no_grad():
        network.head.weight.copy_(torch.arange(15).reshape(3, 5) / 50)
        network.head.bias.zero_()
    return network, mh.TwoWayLoss(temperature_pos=2.0, temperature_neg=1.5, margin=0.1)


def write_checkpoint(folder):
    """What `fit` leaves behind when it is broken off, and the weights that it would have come to."""
    features, targets = learnable(40)
    data = FeatureBatches(torch.from_numpy(features), SparseTargets.from_dense(torch.from_numpy(targets)))
    whole = fit(*engine_parts(), data, settings=engine_plan(), progress=NoProgress())
    running.SHOW_EVERY_SECONDS = 0.0
    try:
        fit(*engine_parts(), data, settings=engine_plan(), folder=folder, progress=StopsAt(6))
    except KeyboardInterrupt:
        assert (folder / "checkpoint" / "last.safetensors").is_file()
    head, losses = whole.network.head, [epoch["train loss"] for epoch in whole.history]
    learnt = {"weight": head.weight.detach(), "bias": head.bias.detach(), "train loss": losses}
    note(folder, {"features": features, "targets": targets, **learnt})


def write_review(folder):
    """Edits of labels, with the file that is made of them."""
    folder.mkdir(parents=True)
    ids = [f"photo {row}" for row in range(6)]
    paths = [f"photos/{row}.jpg" for row in range(6)]
    splits = ["train", "train", "val", "val", "test", "test"]
    collection = {"labels": LABELS, "ids": ids, "paths": paths, "splits": splits}
    with Review(folder / "reviewed.csv", **collection) as review:
        review.edit(0, {"cat": 1, "dog": 0}, done=True)
        review.edit(2, {"bird": -1})
        review.edit(2, {"dog": 1}, done=True)
        review.edit(4, {"cat": 1})
        review.edit(5, {}, done=True)
        review.undo()
        review.edit(3, {"cat": 0, "dog": 0, "bird": 0}, done=True)
        review.edit(0, {"dog": None})
        cells = {str(row): {str(column): value for column, value in review.cells(row).items()} for row in range(6)}
        done, edited = review.done_rows(), review.edited_rows()
    corrections = read_corrections(folder / "reviewed.csv")
    table = {"labels": corrections.labels.names, "ids": corrections.ids, "splits": list(corrections.splits)}
    table["targets"] = numbers(corrections.targets.dense())
    note(folder, collection | {"cells": cells, "done": done, "edited": edited, "corrections": table})


def experiment():
    """A run of the experiments."""
    arm = Method("ASL", "AsymmetricLoss(gamma_neg=4)", hidden=32, dropout=0.5)
    return Job("tiny-imagenet features: long-tailed", arm, FitSettings(epochs=4, lr=0.003, seed=2), ("trial",))


def write_experiment(folder):
    """A kept run of the experiments, found by a digest of its settings."""
    RunStore(folder).save(experiment(), {"figures": {"trial": {"top-1": 0.5}}, "seconds": 1.5, "device": "CPU"})
    note(folder, {"file": experiment().file().as_posix(), "settings": experiment().settings()})


def write_all(folder):
    """Everything, into a folder that is not there yet."""
    write_modules(folder / "modules")
    write_tables(folder / "tables")
    write_calibrated(folder / "calibrated")
    write_classifiers(folder / "classifiers")
    write_cache(folder / "cache", folder / "classifiers")
    write_parts(folder / "parts", folder / "classifiers")
    write_runs(folder / "trained")
    write_checkpoint(folder / "checkpoint")
    write_review(folder / "review")
    write_experiment(folder / "experiment")


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as work:
        write_all(Path(work) / "files")
        shutil.copytree(Path(work) / "files", sys.argv[1])
