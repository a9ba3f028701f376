"""A plan that cannot be carried out is refused at once, in a sentence."""

import dataclasses

import pytest
import torch
from torch import nn

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from manyhot.engine.devices import open_device_context
from manyhot.engine.optim import build_optimizer, lr_factor, parameter_groups
from manyhot.errors import InputError
from tests.engine.problems import data_of, network_of, targets_of
from tests.errors.expected import raises_input_error


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epochs": 0}, "`epochs` of `FitSettings` must be a whole number, at least 1; got 0. Pass an int."),
        ({"batch_size": 2.5}, "`batch_size` of `FitSettings` must be a whole number, at least 1; got 2.5."),
        ({"accumulate": True}, "`accumulate` of `FitSettings` must be a whole number, at least 1; got True."),
        ({"seed": -1}, "`seed` of `FitSettings` must be a whole number, at least 0; got -1."),
        ({"patience": 0}, "`patience` of `FitSettings` must be a whole number, at least 1; got 0."),
        ({"devices": "two"}, "`devices` of `FitSettings` must be a whole number, at least 1; got 'two'."),
        ({"devices": 0}, "`devices` of `FitSettings` must be a whole number, at least 1; got 0."),
        ({"optimizer": "adam"}, "`optimizer` of `FitSettings` must be one of 'adamw', 'sgd'; got 'adam'."),
        ({"precision": "64"}, "`precision` of `FitSettings` must be one of '32', 'bf16', '16'; got '64'."),
        (
            {"accelerator": "tpu"},
            "`accelerator` of `FitSettings` must be one of 'auto', 'cpu', 'cuda', 'mps'; got 'tpu'.",
        ),
        (
            {"find_unused_parameters": "a"},
            "`find_unused_parameters` of `FitSettings` must be True or False; got 'a'.",
        ),
        ({"lr": 0}, "`lr` of `FitSettings` must be a number above 0; got 0."),
        ({"head_lr": float("nan")}, "`head_lr` of `FitSettings` must be a number above 0; got nan."),
        ({"weight_decay": -1}, "`weight_decay` of `FitSettings` must be a number at least 0; got -1."),
        ({"warmup": 1}, "`warmup` of `FitSettings` must be a number at least 0 and below 1; got 1."),
        ({"drop": 0}, "`drop` of `FitSettings` must be a number above 0 and at most 1; got 0."),
        ({"ema": 1.0}, "`ema` of `FitSettings` must be a number above 0 and below 1; got 1.0."),
        ({"clip": 0}, "`clip` of `FitSettings` must be a number above 0; got 0."),
        ({"checkpoint_minutes": -1}, "`checkpoint_minutes` of `FitSettings` must be a number above 0; got -1."),
        (
            {"milestones": (0.7, 0.2)},
            "`milestones` of `FitSettings` must be rising shares of the run, each between 0 and 1; got",
        ),
        (
            {"milestones": 3},
            "`milestones` of `FitSettings` must be rising shares of the run, each between 0 and 1; got 3.",
        ),
    ],
)
def test_refused(options, words):
    with pytest.raises(InputError) as caught:
        FitSettings(**options)
    assert str(caught.value).startswith(words)


def test_lists_of_milestones_are_taken():
    assert FitSettings(milestones=[0.25]).milestones == (0.25,)


def test_half_floats_need_a_gpu():
    with raises_input_error(
        "precision", "FitSettings", rule="be '32' or 'bf16' on a CPU", got="'16'", hint="Take 'bf16'."
    ):
        open_device_context(FitSettings(precision="16", accelerator="cpu"))


def test_machines_that_are_not_there():
    with raises_input_error("accelerator", "FitSettings", rule="be one that this machine has", got="'mps' with"):
        open_device_context(FitSettings(accelerator="mps"))


def step_rates(settings, total):
    return [lr_factor(settings, step, total) for step in range(total)]


def rates_of(schedule, total):
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    scheduler, values = schedule(optimizer), []
    for _ in range(total):
        values.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return values


def test_schedules_are_those_of_torch():
    schedulers = torch.optim.lr_scheduler
    cosine = rates_of(lambda o: schedulers.CosineAnnealingLR(o, 40), 40)
    assert step_rates(FitSettings(warmup=0), 40) == pytest.approx(cosine, abs=1e-12)
    step = rates_of(lambda o: schedulers.MultiStepLR(o, [20, 30], 0.1), 40)
    assert step_rates(FitSettings(warmup=0, schedule="step"), 40) == pytest.approx(step)
    cycle = rates_of(lambda o: schedulers.OneCycleLR(o, 1.0, total_steps=40, pct_start=0.25), 40)
    ours = step_rates(FitSettings(warmup=0.25, schedule="one-cycle"), 40)
    assert max(ours) == max(cycle) == pytest.approx(1)
    assert ours[9] == pytest.approx(cycle[9])  # the rise takes one step more here, and ends at the same one
    assert ours[-1] < 0.01
    assert step_rates(FitSettings(warmup=0, schedule="constant"), 3) == [1, 1, 1]


@pytest.mark.parametrize("schedule", ["cosine", "step", "one-cycle", "constant"])
def test_warm_up_rises_to_the_top_and_never_beyond(schedule):
    rates = step_rates(FitSettings(schedule=schedule, warmup=0.2), 50)
    assert rates[:10] == sorted(rates[:10])
    assert rates[9] == pytest.approx(1)
    assert max(rates) <= 1
    assert min(rates) >= 0


def test_short_runs_have_a_rate():
    for schedule in ("cosine", "step", "one-cycle", "constant"):
        assert lr_factor(FitSettings(schedule=schedule), 0, 1) == 1


def test_rates_and_decay_of_parameters():
    network, loss = network_of(norm=True), mh.losses.ROLELoss(targets_of(), expected_labels=2.0)
    network.backbone[0].bias.requires_grad_(False)
    groups = parameter_groups(network, loss, FitSettings(lr=0.1, head_lr=0.5, weight_decay=0.3))
    found = {id(p): (group["peak"], group["weight_decay"]) for group in groups for p in group["params"]}
    assert found == {
        id(network.backbone[0].weight): (0.1, 0.3),
        id(network.backbone[1].weight): (0.1, 0.0),
        id(network.backbone[1].bias): (0.1, 0.0),
        id(network.head.weight): (0.5, 0.3),
        id(network.head.bias): (0.5, 0.0),
        id(loss.guesses): (0.5, 0.0),
    }
    assert type(build_optimizer(network, loss, FitSettings(optimizer="sgd"), torch.device("cpu"))) is torch.optim.SGD


def test_rates_and_decay_of_biases_and_momentum_can_be_set():
    network = network_of(norm=True)
    settings = FitSettings(lr=0.1, head_lr=0.5, bias_lr=2.0, weight_decay=0.3, decay_all=True)
    groups = parameter_groups(network, mh.TwoWayLoss(), settings)
    found = {id(p): (group["peak"], group["weight_decay"]) for group in groups for p in group["params"]}
    assert found[id(network.head.bias)] == (2.0, 0.3)
    assert found[id(network.head.weight)] == (0.5, 0.3)
    assert found[id(network.backbone[1].bias)] == (0.1, 0.3)
    for momentum, nesterov, expected in ((0.8, True, True), (0.8, False, False), (0.0, True, False)):
        settings = FitSettings(optimizer="sgd", momentum=momentum, nesterov=nesterov)
        optimizer = build_optimizer(network, mh.TwoWayLoss(), settings, torch.device("cpu"))
        assert (optimizer.defaults["momentum"], optimizer.defaults["nesterov"]) == (momentum, expected)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"network": nn.Linear(2, 2)}, "`network` of `fit` must be a `Network`; got Linear."),
        ({"loss": nn.BCELoss()}, "`loss` of `fit` must be a `Loss`; got BCELoss."),
        ({"train": [1]}, "`train` of `fit` must be a `Batches`; got list."),
        ({"settings": {}}, "`settings` of `fit` must be a `FitSettings`; got dict."),
        ({"train": data_of(targets_of()[:0])}, "`train` of `fit` must have rows; got none."),
        ({"val": data_of(targets_of()[:0])}, "`val` of `fit` must have rows; got none."),
        (
            {"settings": FitSettings(patience=2)},
            "`val` of `fit` must be given where the settings have `patience`; got None.",
        ),
        (
            {"settings": FitSettings(monitor="F1"), "val": data_of(targets_of())},
            "`monitor` of `FitSettings` must be one of the figures 'mAP', 'log loss per row'; got 'F1'. "
            "Or pass a `metrics`.",
        ),
        ({"loss": mh.BinaryCrossEntropyLoss(reduction="none")}, "`loss` of `fit` must return one number; got"),
    ],
)
def test_what_cannot_be_trained(change, words):
    arguments = {
        "network": network_of(),
        "loss": mh.BinaryCrossEntropyLoss(),
        "train": data_of(targets_of()),
        "settings": FitSettings(accelerator="cpu"),
        "val": None,
        **change,
    }
    network, loss, train = (arguments.pop(name) for name in ("network", "loss", "train"))
    with pytest.raises(InputError) as caught:
        fit(network, loss, train, progress=NoProgress(), **arguments)
    assert str(caught.value).startswith(words)


def test_a_judge_that_does_not_give_the_monitored_figure():
    data = data_of(targets_of())
    settings = FitSettings(epochs=1, monitor="F1", accelerator="cpu")
    with raises_input_error("monitor", "FitSettings", rule="be one of the figures 'accuracy'", got="'F1'"):
        fit(
            network_of(),
            mh.TwoWayLoss(),
            data,
            val=data,
            metrics=lambda s, t: {"accuracy": 1.0},
            settings=settings,
            progress=NoProgress(),
        )


def test_nothing_to_train():
    network = network_of().requires_grad_(False)
    with raises_input_error("network", "fit", rule="have parameters to train", got="only frozen ones"):
        fit(
            network,
            mh.TwoWayLoss(),
            data_of(targets_of()),
            settings=FitSettings(accelerator="cpu"),
            progress=NoProgress(),
        )


def test_what_is_frozen_stands_still():
    network = network_of(norm=True, dropout=0.5)
    network.backbone.requires_grad_(False)
    before = {name: value.clone() for name, value in network.backbone.state_dict().items()}
    settings = FitSettings(epochs=2, ema=0.9, accelerator="cpu")
    fit(network, mh.TwoWayLoss(), data_of(targets_of()), settings=settings, progress=NoProgress())
    for name, value in network.backbone.state_dict().items():
        assert torch.equal(value, before[name]), name


def test_a_single_row_for_batch_norm():
    settings = FitSettings(epochs=1, batch_size=9, accelerator="cpu")
    with raises_input_error("batch_size", "FitSettings", rule="give a BatchNorm several rows", got="1 in step 5"):
        fit(network_of(norm=True), mh.TwoWayLoss(), data_of(targets_of()), settings=settings, progress=NoProgress())


def test_plans_are_plain_data():
    assert dataclasses.asdict(FitSettings())["optimizer"] == "adamw"
