"""A run that is broken off and goes on gives the weights of one that was not, to the last bit."""

import csv
import json
import shutil

import pytest
import torch
from safetensors.torch import save_file

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.engine.checkpoint import Checkpoint, check_fingerprint
from manyhot.errors import InputError
from manyhot.training.build import build_loss
from tests.engine.problems import BreaksOff, Broken, assert_same, data_of, network_of, targets_of
from tests.errors.expected import raises_input_error
from tests.losses import CASES

EVERY_STEP = 1e-9

WAYS = {
    "adamw cosine": (CASES["bce"], {}),
    "sgd step averaged": (CASES["two-way"], {"optimizer": "sgd", "schedule": "step", "ema": 0.9}),
    "one-cycle clipped": (CASES["spa-pairs"], {"schedule": "one-cycle", "clip": 0.05, "warmup": 0.3}),
    "constant in parts": (CASES["bce"], {"schedule": "constant", "accumulate": 2}),
    "second pass": (CASES["quasibinary"], {"accumulate": 2, "ema": 0.99}),
    "loss with parameters": (CASES["role"], {"head_lr": 0.1}),
    "noise": (CASES["noised-top-k"], {"optimizer": "sgd"}),
    "half precision": (CASES["bce"], {"precision": "bf16"}),
}


def plan_of(**options):
    return FitSettings(**{"epochs": 3, "batch_size": 8, "lr": 0.02, "accelerator": "cpu", **options})


def start(case, settings, *, folder=None, resume=False, after=None):
    dense = targets_of(case)
    train = data_of(dense, dtype=torch.float32, bad=[])
    loss = case.build(dense).float()
    network = network_of(heads=case.num_heads(), dropout=0.2, norm=True, dtype=torch.float32)
    if after is not None:
        train = BreaksOff(train, after)
    val = data_of(targets_of(case, rows=20), dtype=torch.float32)
    return fit(network, loss, train, val=val, settings=settings, folder=folder, resume=resume, progress=NoProgress())


@pytest.mark.parametrize("way", WAYS)
def test_goes_on_to_the_same_weights(way, tmp_path):
    case, options = WAYS[way]
    wanted = start(case, plan_of(**options))
    broken = 0
    for after in (2, 5, 1, 4):  # within an epoch, at its end, twice in a row
        try:
            start(case, plan_of(**options, checkpoint_minutes=EVERY_STEP), folder=tmp_path, resume=True, after=after)
        except Broken:
            broken += 1
    assert broken == 4
    got = start(case, plan_of(**options), folder=tmp_path, resume=True)
    assert_same(wanted, got)
    timeless = [{k: v for k, v in epoch.items() if k not in ("seconds", "samples/s")} for epoch in got.history]
    assert timeless == [{k: v for k, v in e.items() if k not in ("seconds", "samples/s")} for e in wanted.history]
    assert (got.best_epoch, got.best_value) == (wanted.best_epoch, wanted.best_value)


def test_a_run_that_is_over_is_read_back(tmp_path):
    first = start(CASES["bce"], plan_of(), folder=tmp_path)
    again = start(CASES["bce"], plan_of(), folder=tmp_path, resume=True, after=0)
    assert_same(first, again)
    assert again.history == first.history


def test_half_a_checkpoint_is_cleared_away(tmp_path):
    """A kill in the middle of writing leaves a file as large as a checkpoint, which nobody would find."""
    half = tmp_path / "checkpoint" / ".last.safetensors.x1.part"
    half.parent.mkdir()
    half.write_bytes(b"half")
    start(CASES["bce"], plan_of(), folder=tmp_path, resume=True)
    assert not half.exists()


def test_without_a_checkpoint_it_starts_from_the_beginning(tmp_path):
    assert_same(start(CASES["bce"], plan_of()), start(CASES["bce"], plan_of(), folder=tmp_path, resume=True))


def test_the_table_has_every_epoch_once(tmp_path):
    with pytest.raises(Broken):
        start(CASES["bce"], plan_of(), folder=tmp_path, after=8)
    table = tmp_path / "metrics.csv"
    table.write_text(table.read_text() + "2,10,0.1,,,,,\n")  # as if the process had died before its checkpoint
    result = start(CASES["bce"], plan_of(), folder=tmp_path, resume=True)
    with table.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]
    assert list(rows[0]) == ["epoch", "steps", "lr", "train loss", "mAP", "log loss per row", "seconds", "samples/s"]
    assert [float(row["mAP"]) for row in rows] == pytest.approx([e["mAP"] for e in result.history], rel=1e-5)


def test_best_weights_are_kept_once(tmp_path):
    result = start(CASES["bce"], plan_of(epochs=6, lr=0.3), folder=tmp_path)
    names = sorted(path.name for path in (tmp_path / "checkpoint").iterdir())
    assert names == [f"best-{result.best_epoch:04d}.safetensors", "last.safetensors"]


def test_best_weights_of_an_epoch_that_was_lost_do_not_count(tmp_path):
    """A process that dies between writing the best weights and the checkpoint leaves the old pair valid."""
    wanted = start(CASES["bce"], plan_of())
    with pytest.raises(Broken):
        start(CASES["bce"], plan_of(), folder=tmp_path, after=8)
    kept = tmp_path / "checkpoint"
    shutil.copy(kept / "best-0001.safetensors", kept / "best-0002.safetensors")
    assert_same(wanted, start(CASES["bce"], plan_of(), folder=tmp_path, resume=True))


def test_a_folder_with_a_run_is_not_written_over(tmp_path):
    start(CASES["bce"], plan_of(), folder=tmp_path)
    with raises_input_error(rule="be free of other runs", hint="Pass resume=True"):
        start(CASES["bce"], plan_of(), folder=tmp_path)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"lr": 0.5}, "must go on with the same lr, 0.02; got 0.5. Set it back, or start a new run"),
        ({"epochs": 9}, "must go on with the same epochs, 3; got 9."),
        ({"milestones": (0.1,)}, r"must go on with the same milestones, \[0.5, 0.75\]; got \[0.1\]."),
    ],
)
def test_another_plan_is_refused(options, words, tmp_path):
    start(CASES["bce"], plan_of(), folder=tmp_path)
    with raises_input_error(match=words):
        start(CASES["bce"], plan_of(**options), folder=tmp_path, resume=True)


def test_another_loss_is_refused(tmp_path):
    start(CASES["bce"], plan_of(), folder=tmp_path)
    with raises_input_error(rule='the same loss, "BinaryCrossEntropyLoss(pos_weight=None,', got='"TwoWayLoss'):
        start(CASES["two-way"], plan_of(), folder=tmp_path, resume=True)


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (
            "TwoWayLoss(temperature_pos=4)",
            "TwoWayLoss(temperature_pos=1, margin=3)",
            "the same temperature_pos of TwoWayLoss, '4'; got '1'",
        ),
        ("RMLLoss()", "RMLLoss(class_weight=2)", "the same class_weight of RMLLoss, '1'; got '2'"),
        (
            "SoftmaxCrossEntropyLoss()",
            "SoftmaxCrossEntropyLoss(no_label_weight=0.5)",
            "the same no_label_weight of SoftmaxCrossEntropyLoss, '1'; got '0.5'",
        ),
        (
            "SumLoss(BCE(), TwoWayLoss(margin=1), weights=(1, 0.5), link=SigmoidLink())",
            "SumLoss(BCE(), TwoWayLoss(margin=2), weights=(1, 0.5), link=SigmoidLink())",
            "the same margin of TwoWayLoss, '1'; got '2'",
        ),
    ],
)
def test_another_number_of_the_same_loss_is_refused_by_name(first, second, words, tmp_path):
    data, settings = data_of(targets_of(CASES["cross-entropy"])), plan_of(epochs=1)
    before, after = (build_loss(text.replace("BCE()", "BinaryCrossEntropyLoss()")) for text in (first, second))
    fit(network_of(), before, data, settings=settings, folder=tmp_path, progress=NoProgress())
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(InputError) as caught:
        fit(network_of(), after, data, settings=settings, folder=tmp_path, resume=True, progress=NoProgress())
    assert words in str(caught.value)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == kept
    again = build_loss(first.replace("BCE()", "BinaryCrossEntropyLoss()"))
    fit(network_of(), again, data, settings=settings, folder=tmp_path, resume=True, progress=NoProgress())


# What checkpoints of format 1 hold of a loss, and how it is spelt now.
PRINTED = [
    (
        "TwoWayLoss( axis='both' (link): NoLink() )",
        "TwoWayLoss(axis='both', temperature_pos=1, temperature_neg=1, margin=0)",
        "TwoWayLoss(axis='class', temperature_pos=1, temperature_neg=1, margin=0)",
    ),
    (
        "QuasibinaryLoss( penalty_weight=1, alpha=0.1, reduction='mean' (link): QuasibinaryLink() )",
        "QuasibinaryLoss(penalty_weight=1, alpha=0.1, reduction='mean')",
        "QuasibinaryLoss(penalty_weight=1, alpha=0.2, reduction='mean')",
    ),
    (
        "EachHeadLoss( (link): SigmoidLink() (loss): BinaryCrossEntropyLoss( reduction='mean' (link): "
        "SigmoidLink() ) )",
        "EachHeadLoss(loss=BinaryCrossEntropyLoss(pos_weight=None, reduction='mean'), heads=2)",
        "EachHeadLoss(loss=TwoWayLoss(axis='both', temperature_pos=1, temperature_neg=1, margin=0), heads=2)",
    ),
]


@pytest.mark.parametrize(("printed", "same", "other"), PRINTED)
def test_losses_of_older_checkpoints_are_known_by_what_these_hold(printed, same, other):
    check_fingerprint({"loss": printed}, {"loss": same})
    with raises_input_error(rule="go on with the same loss"):
        check_fingerprint({"loss": printed}, {"loss": other})


def test_a_checkpoint_of_format_1_goes_on(tmp_path):
    """Its log loss is per cell, and called "log loss"."""
    case, settings = CASES["bce"], plan_of(monitor="log loss")
    wanted = start(case, settings)
    with pytest.raises(Broken):
        start(case, settings, folder=tmp_path, after=8)
    path = tmp_path / "checkpoint" / "last.safetensors"
    checkpoint = Checkpoint.read(path)
    metadata = json.loads(json.dumps(checkpoint.metadata).replace('"log loss per row"', '"log loss"'))
    known = targets_of(case, rows=20) >= 0
    cells_per_row = int(known.sum()) / int(known.any(1).sum())
    for epoch in metadata["position"]["history"]:
        epoch["log loss"] /= cells_per_row
    metadata["position"]["best_value"] /= cells_per_row
    metadata["setting"]["loss"] = "BinaryCrossEntropyLoss( reduction='mean' (link): SigmoidLink() )"
    metadata["format"] = 1
    save_file(dict(checkpoint.tensors), str(path), metadata={"manyhot": json.dumps(metadata)})
    got = start(case, settings, folder=tmp_path, resume=True)
    assert_same(wanted, got)
    losses = [[epoch["log loss per row"] for epoch in run.history] for run in (wanted, got)]
    assert losses[0] == pytest.approx(losses[1])
    assert got.best_value == pytest.approx(wanted.best_value)


@pytest.mark.parametrize("version", [1, 2])
def test_a_checkpoint_of_a_loss_with_another_name_goes_on(version, tmp_path):
    """Without data for validation, for which format 1 has another log loss."""
    dense, loss, settings = targets_of(), mh.FocalLoss(), plan_of()

    def go(data, **options):
        network = network_of(dtype=torch.float32)
        return fit(network, loss.float(), data, settings=settings, progress=NoProgress(), **options)

    data = data_of(dense, dtype=torch.float32)
    wanted = go(data)
    with pytest.raises(Broken):
        go(BreaksOff(data, 8), folder=tmp_path)
    path = tmp_path / "checkpoint" / "last.safetensors"
    checkpoint = Checkpoint.read(path)
    text = "AsymmetricFocalLoss( gamma_neg=4, gamma_pos=1, reduction='mean' (link): AsymmetricLink() )"
    old = text if version == 1 else checkpoint.metadata["setting"]["loss"].replace("FocalLoss", "AsymmetricFocalLoss")
    metadata = {**checkpoint.metadata, "format": version, "setting": checkpoint.metadata["setting"] | {"loss": old}}
    save_file(dict(checkpoint.tensors), str(path), metadata={"manyhot": json.dumps(metadata)})
    assert_same(wanted, go(data, folder=tmp_path, resume=True))


def test_other_data_and_networks_are_refused(tmp_path):
    dense, loss, settings = targets_of(), mh.BinaryCrossEntropyLoss(), plan_of(epochs=1)

    def go(dense, network):
        fit(network, loss, data_of(dense), settings=settings, folder=tmp_path, resume=True, progress=NoProgress())

    go(dense, network_of())
    with raises_input_error(rule="the same train, '37 rows x 5 labels, absent, 7a814c27'", got="'36 rows"):
        go(dense[:36], network_of())
    with raises_input_error(rule="the same train,"):
        go(dense.flip(0), network_of())
    with raises_input_error(rule="the same network,"):
        go(dense, network_of(norm=True))


def test_settings_of_the_machine_may_change(tmp_path):
    start(CASES["bce"], plan_of(), folder=tmp_path)
    start(CASES["bce"], plan_of(devices=1, checkpoint_minutes=1.0), folder=tmp_path, resume=True)


@pytest.mark.parametrize("damage", ["cut", "flipped", "foreign", "text"])
def test_damaged_checkpoints_are_refused(damage, tmp_path):
    start(CASES["bce"], plan_of(), folder=tmp_path)
    path = tmp_path / "checkpoint" / "last.safetensors"
    content = bytearray(path.read_bytes())
    if damage == "cut":
        path.write_bytes(content[:-10])
    elif damage == "flipped":
        content[-3] ^= 1
        path.write_bytes(content)
    elif damage == "foreign":
        save_file({"x": torch.zeros(2)}, str(path))
    else:
        path.write_text("nothing of the kind")
    rules = {"flipped": "hold what was written", "foreign": "hold format 1 to 4 of manyhot"}
    words = rules.get(damage, "be a whole file")
    with raises_input_error(match=f"`checkpoint` of `fit` must {words}; got .*last.safetensors.*Delete it"):
        start(CASES["bce"], plan_of(), folder=tmp_path, resume=True)


def test_what_needs_a_folder():
    with raises_input_error("folder", "fit", rule="be given for resume=True", got="None"):
        start(CASES["bce"], plan_of(), resume=True)
    with raises_input_error(rule="be given for tensorboard=True"):
        start(CASES["bce"], plan_of(tensorboard=True))
