"""From data to a run folder: what is in it, and that it is what was trained."""

import json

import numpy as np
import pytest
import torch

import manyhot as mh
from manyhot.data import SparseTargets, from_arrays
from manyhot.engine import NoProgress
from manyhot.settings import ALL_LOSSES
from manyhot.training import Run, TrainSettings, compare, train
from manyhot.training import build as building
from manyhot.training.build import build_head, build_loss
from manyhot.training.comparison import texts_of
from manyhot.training.prepare import with_all_splits
from tests.errors.expected import raises_input_error

pytestmark = pytest.mark.slow


def population(n=600, labels=5, width=8, seed=0):
    """Features and targets in which every label depends on the features; many rows have no label."""
    generator = torch.Generator().manual_seed(seed)
    features = 3 + 2 * torch.randn(n, width, generator=generator)
    weights = torch.randn(width, labels, generator=generator)
    scores = ((features - 3) / 2) @ weights - 1.5
    targets = (torch.rand(n, labels, generator=generator) < scores.sigmoid()).to(torch.int8)
    return features.numpy(), targets


def recipe(**settings):
    quick = {"epochs": 3, "batch_size": 64, "hidden": 0, "lr": 0.05, "weight_decay": 0.0, "accelerator": "cpu"}
    return TrainSettings.build(quick | settings)


@pytest.fixture(scope="module")
def data():
    features, targets = population()
    return from_arrays(features, targets.numpy(), labels=["a", "b", "c", "d", "e"])


def test_a_run_folder_holds_all_that_was_promised(data, tmp_path):
    run = train(data, recipe(epochs=10), folder=tmp_path / "run", source={"paths": ["x"]}, progress=NoProgress())
    names = {path.name for path in run.folder.iterdir()}
    wanted = {"config.yaml", "labels.txt", "model.safetensors", "classifier.json", "metrics.csv", "predictions.parquet"}
    assert wanted | {"figures.json", "checkpoint"} <= names
    assert run.finished
    assert (run.folder / "labels.txt").read_text().split() == ["a", "b", "c", "d", "e"]
    assert run.config["data"] == {"paths": ["x"]}
    assert run.config["epochs"] == 10
    assert len(run.history) == 10
    table = run.predictions()
    assert table.split_sizes() == {"val": 90, "test": 90}
    assert table.kinds == ("scores", "probs", "targets", "decisions")
    after = mh.evaluate(table.of_split("test"))
    assert after["map"] > 0.6
    assert run.figures["after"]["groups"]["ranking"]["values"]["map"]["value"] == pytest.approx(after["map"])
    assert run.figures["rows"] == {"train": 420, "val": 90, "test": 90}


def test_label_pairs_compared_by_another_link_are_read_by_a_calibrator_alone(data, tmp_path):
    settings = {"loss": "LabelPairRegulariser(AsymmetricLoss(), weight=0.1, link=SigmoidLink())", "epochs": 1}
    loss, rates = build_loss(settings["loss"]), torch.tensor([0.5, 0.1])
    start = build_head(recipe(), 3, 2, loss, rates)(torch.zeros(1, 3))
    torch.testing.assert_close(loss.loss.link.probs(start), rates[None], rtol=1e-4, atol=1e-5)
    table = train(data, recipe(**settings), folder=tmp_path / "run", progress=NoProgress()).predictions()
    assert isinstance(table.link, mh.links.NoLink)
    assert table.calibrator is not None
    assert table.calibrator.link is None
    with raises_input_error(rule="have probabilities to decide by", got="LabelPairRegulariser without a calib"):
        train(data, recipe(**settings, calibrator="none"), folder=tmp_path / "bare", progress=NoProgress())


def test_the_classifier_gives_the_predictions_of_the_run(data, tmp_path):
    for settings in (
        {},
        {"hidden": 16, "dropout": 0.5},
        {"head": "cosine"},
        {"loss": "softmax"},
        {"loss": "quasibinary"},
    ):
        run = train(
            data, recipe(**settings), folder=tmp_path / str(len(settings) + hash(str(settings))), progress=NoProgress()
        )
        table = run.predictions().of_split("test").read()
        rows = [data.ids.index(name) for name in table.ids]
        predicted = mh.load(run.folder).predict(data.features[rows])
        torch.testing.assert_close(predicted.scores, table.scores, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(predicted.probs, table.probs, rtol=1e-3, atol=1e-4)
        assert float((predicted.decisions == table.decisions).float().mean()) > 0.999


def test_features_that_never_vary_tell_nothing(tmp_path):
    features, targets = population(300)
    constant = np.concatenate([features, np.full((300, 1), 1e6, dtype=np.float32)], axis=1)
    data = from_arrays(constant, targets.numpy())
    run = train(data, recipe(hidden=8), folder=tmp_path, progress=NoProgress())
    changed = constant.copy()
    changed[:, -1] = -5.0
    classifier = run.classifier()
    torch.testing.assert_close(classifier.predict(changed).scores, classifier.predict(constant).scores)
    all_constant = from_arrays(np.ones((300, 3), dtype=np.float32), targets.numpy())
    run = train(all_constant, recipe(), folder=tmp_path / "flat", progress=NoProgress())
    probs = run.predictions().read().probs
    torch.testing.assert_close(probs.mean(0), targets.float().mean(0), rtol=0, atol=0.08)


def test_calibration_and_rule_are_learnt_from_val_alone(data, tmp_path):
    run = train(data, recipe(rule="AverageK(1.5)"), folder=tmp_path / "run", progress=NoProgress())
    val = run.predictions().of_split("val").read()
    calibrator = mh.BetaCalibration(link=mh.SigmoidLink()).fit(val.scores, val.targets)
    torch.testing.assert_close(val.probs, calibrator(val.scores))
    rule = mh.AverageK(1.5).fit(val.probs, val.targets)
    assert torch.equal(val.decisions, rule(val.probs).labels)


def test_bias_starts_at_the_label_rates(data):
    from manyhot.training.pipeline import build_network
    from manyhot.training.prepare import prepare, with_all_splits

    prepared = prepare(with_all_splits(data, recipe()), recipe())
    loss = build_loss("SPA", prepared.parts["train"].targets)
    network = build_network(prepared, recipe(), loss)
    torch.testing.assert_close(
        loss.link.probs(network.head.bias.detach()).double(), prepared.rates(), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize(
    "text", ["BCE", "AN", "AssumeNegativeLoss(negative_weight=1)", "EPRLoss(1.7)", "ROLELoss(1.7)"]
)
def test_training_begins_where_the_loss_of_constant_scores_is_least(text):
    """One observed label a row, and labels that are not equally frequent."""
    generator = torch.Generator().manual_seed(0)
    columns = torch.multinomial(torch.tensor([4.0, 3.0, 2.0, 1.0]), 500, replacement=True, generator=generator)
    targets = SparseTargets.from_rows(columns[:, None].tolist(), num_labels=4)
    loss = build_loss(text, targets)
    head = build_head(recipe(), 3, 4, loss, targets.rates())
    rows = torch.arange(500)

    def slope(bias):
        bias = bias.detach().clone().requires_grad_()
        loss(bias.expand(500, 4), targets.dense(), rows if loss.extra else None).backward()
        return float(bias.grad.abs().max())

    assert slope(head.bias) < 0.05 * slope(torch.zeros(4))


@pytest.mark.parametrize(
    "settings",
    [{"hidden": 12, "dropout": 0.25}, {"head": "cosine"}, {"hidden": 0}],
    ids=["hidden", "cosine", "linear"],
)
def test_two_heads_are_of_the_kind_that_was_asked_for(settings, tmp_path):
    features, dense = population()
    data = from_arrays(features, torch.nn.functional.one_hot(dense.argmax(1), 5).numpy())
    run = train(data, recipe(**settings, loss="AverageKLoss(2)"), folder=tmp_path, progress=NoProgress())
    head = run.classifier().network.head
    assert isinstance(head, mh.heads.TwoHeads)
    assert (head.hidden, head.dropout) == (settings.get("hidden", 0), settings.get("dropout", 0.0))
    assert isinstance(head.multi, mh.CosineHead if "head" in settings else mh.LinearHead)
    table = run.predictions().of_split("test").read()
    predicted = mh.load(run.folder).predict(data.features[[data.ids.index(name) for name in table.ids]])
    torch.testing.assert_close(predicted.scores, table.scores, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("bias", ["label", "shared", "none"])
@pytest.mark.parametrize("settings", [{"hidden": 0}, {"hidden": 8, "heads": 2}, {"head": "cosine", "scale": 4.0}])
def test_bias_and_scale_of_heads_can_be_set(data, settings, bias, tmp_path):
    run = train(data, recipe(**settings, bias=bias, epochs=1), folder=tmp_path, progress=NoProgress())
    head = run.classifier().network.head
    assert head.bias_kind == bias
    assert getattr(head, "scale", 4.0) == 4.0


@pytest.mark.parametrize("settings", [{}, {"hidden": 8}, {"hidden": 8, "heads": 2}, {"head": "cosine"}])
def test_the_thresholds_of_the_class_wise_loss_are_kept_and_no_score_has_a_bias(settings, tmp_path, monkeypatch):
    features, dense = population()
    data = from_arrays(features, torch.nn.functional.one_hot(dense.argmax(1), 5).numpy())
    built, build = [], building.build_loss
    monkeypatch.setattr(
        building, "build_loss", lambda *given, **named: built.append(build(*given, **named)) or built[-1]
    )
    run = train(data, recipe(**settings, loss="class-wise"), folder=tmp_path, progress=NoProgress())
    head = mh.load(run.folder).network.head
    last = head.last if isinstance(head, mh.MLPHead) else head
    assert head.threshold().abs().min() > 0.01
    torch.testing.assert_close(head.threshold(), built[-1].bias.detach())
    torch.testing.assert_close(
        last(torch.zeros(1, last.in_features)) - last.metrics(torch.zeros(1, last.in_features)), torch.zeros(1, 5)
    )


def test_the_threshold_of_a_head_is_the_learnt_one(data, tmp_path):
    """Features lie around 3; the head learnt from features around 0, where label rates are all there is to know."""
    run = train(data, recipe(epochs=1, lr=1e-6, loss="BCE"), folder=tmp_path, progress=NoProgress())
    head = mh.load(run.folder).network.head
    splits = with_all_splits(data, recipe()).of_split("train")
    rates = torch.as_tensor(splits.targets.rates())
    torch.testing.assert_close(head.threshold(), -rates.logit().float(), atol=1e-3, rtol=0)
    torch.testing.assert_close(head.centre, torch.from_numpy(splits.features).mean(0), atol=1e-4, rtol=0)
    features = torch.from_numpy(data.features)
    assert torch.equal(head(features) > 0, head.metrics(features) > head.threshold())


def test_the_same_seed_gives_the_same_run(data, tmp_path):
    tables = [
        train(data, recipe(seed=3), folder=tmp_path / name, progress=NoProgress()).predictions().read() for name in "ab"
    ]
    assert torch.equal(tables[0].scores, tables[1].scores)


def test_probabilities_that_cannot_be_had_are_refused_before_training(data, tmp_path):
    with raises_input_error("rule", "train", rule="have probabilities to decide by", got="TwoWayLoss"):
        train(data, recipe(loss="two-way", calibrator="none"), folder=tmp_path, progress=NoProgress())
    with raises_input_error("calibrator", "train", rule="be given for a loss that also compares labels"):
        train(data, recipe(loss="BCE + two-way", calibrator="none"), folder=tmp_path, progress=NoProgress())
    with raises_input_error("calibrator", "train", rule="have rows of a split 'val' to learn from"):
        train(data, recipe(val=0.0), folder=tmp_path, progress=NoProgress())
    with raises_input_error(hint="Did you mean TwoWayLoss?"):
        train(data, recipe(loss="TwoWaysLoss()"), folder=tmp_path, progress=NoProgress())


def test_mistakes_leave_no_folder(data, tmp_path):
    for mistake in ({"loss": "BCEE"}, {"rule": "Averag(3)"}, {"calibrator": "Gamma()"}):
        with raises_input_error(rule="name something known"):
            train(data, recipe(**mistake), folder=tmp_path / "run", progress=NoProgress())
    for loss in ("class-wise", "average-2"):
        with raises_input_error(
            "loss", "train", rule="fit the rows to train on", hint="Choose a loss for several labels"
        ):
            train(data, recipe(loss=loss, hidden=4, heads=2), folder=tmp_path / "run", progress=NoProgress())
    with raises_input_error("data", "train", rule="be a Dataset", got="list"):
        train([1], folder=tmp_path / "run")
    with raises_input_error("path", "read_data", rule="lead to data", got="photos.csv"):
        train("photos.csv", folder=tmp_path / "run")
    with raises_input_error("settings", "train", rule="be a TrainSettings", got="dict"):
        train(data, {"loss": "BCE"}, folder=tmp_path / "run")
    for losses in ([], {}, "BCE"):
        with raises_input_error("losses", "compare", rule="be losses by name"):
            compare(data, losses, recipe(), folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def content(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_refused_call_leaves_the_run_as_it_was(data, tmp_path):
    train(data, recipe(epochs=1), folder=tmp_path, progress=NoProgress())
    before = content(tmp_path)
    for settings, resume, words in (
        ({"epochs": 1}, False, "must be free of other runs"),
        ({"epochs": 1, "loss": "SPA", "lr": 0.5}, False, "must be free of other runs"),
        ({"epochs": 1, "loss": "SPA"}, True, "must go on with the same loss"),
        ({"epochs": 1, "lr": 0.5}, True, "must go on with the same lr"),
        ({"epochs": 1, "monitor": "F1"}, True, "must be one of the figures"),
        ({"epochs": 1, "hidden": 4}, True, "must go on with the same network"),
    ):
        with raises_input_error(match=words):
            train(data, recipe(**settings), folder=tmp_path, resume=resume, progress=NoProgress())
        assert content(tmp_path) == before, settings
    features, targets = population(seed=1)
    with raises_input_error(rule="go on with the same train"):
        train(from_arrays(features, targets.numpy()), recipe(epochs=1), folder=tmp_path, resume=True)
    assert content(tmp_path) == before
    (tmp_path / "checkpoint" / "last.safetensors").unlink()
    before = content(tmp_path)
    for resume, words in ((False, "must be free of other runs"), (True, "must have a checkpoint to go on from")):
        with raises_input_error(match=words):
            train(data, recipe(epochs=1, loss="SPA"), folder=tmp_path, resume=resume, progress=NoProgress())
        assert content(tmp_path) == before


def test_a_call_that_fit_refuses_leaves_no_folder(data, tmp_path):
    with raises_input_error(rule="be one of the figures"):
        train(data, recipe(monitor="F1"), folder=tmp_path / "run", progress=NoProgress())
    assert not (tmp_path / "run").exists()
    run = train(data, recipe(epochs=1), folder=tmp_path / "run", progress=NoProgress())
    assert run.finished


def test_a_comparison_that_fit_refuses_leaves_no_run(data, tmp_path):
    with raises_input_error(rule="be one of the figures"):
        compare(data, ["BCE"], recipe(monitor="F1"), folder=tmp_path, progress=lambda name: NoProgress())
    assert not (tmp_path / "bce").exists()


def test_a_comparison_with_a_figure_that_one_loss_lacks_begins_with_none(data, tmp_path):
    def compared(**settings):
        quick = recipe(epochs=1, **settings)
        return compare(
            data, ["BCE", "two-way"], quick, folder=tmp_path, overwrite=True, progress=lambda _: NoProgress()
        )

    with raises_input_error(rule="be one of the figures", got="'log loss per row'"):
        compared(monitor="log loss per row")
    assert not tmp_path.exists() or list(tmp_path.iterdir()) == []
    compared()
    before = content(tmp_path)
    with raises_input_error(rule="be one of the figures"):
        compared(monitor="log loss per row")
    assert content(tmp_path) == before


def test_objects_train_as_the_texts_that_build_them(data, tmp_path):
    settings = {"epochs": 1, "hidden": 0, "accelerator": "cpu"}
    parts = {"loss": mh.AsymmetricLoss(gamma_neg=2), "calibrator": mh.IsotonicCalibration(), "rule": mh.AverageK(2)}
    run = train(data, folder=tmp_path / "a", progress=NoProgress(), **settings, **parts)
    texts = {"loss": "AsymmetricLoss(gamma_neg=2)", "calibrator": "IsotonicCalibration()", "rule": "AverageK(2)"}
    same = train(data, TrainSettings.build(settings | texts), folder=tmp_path / "b", progress=NoProgress())
    assert torch.equal(run.predictions().read().probs, same.predictions().read().probs)
    assert run.config["loss"].startswith("AsymmetricLoss(gamma_neg=2, ")
    again = train(
        data, TrainSettings.build({k: v for k, v in run.config.items() if k != "data"}), folder=tmp_path / "c"
    )
    assert again.config == run.config
    found = compare(data, {"mine": parts["loss"]}, recipe(epochs=1), folder=tmp_path / "d")
    assert found.to_dict()["losses"]["mine"]["loss"] == run.config["loss"]


def test_data_are_read_where_a_path_is_passed(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("data.npz", features=data.features, targets=data.targets.dense().numpy())
    notes = []
    run = train("data.npz", epochs=1, hidden=0, accelerator="cpu", progress=NoProgress(), notes=notes.append)
    assert run.folder.as_posix() == "runs/data"
    assert run.config["data"] == {"paths": [str(tmp_path / "data.npz")]}
    assert any(note.startswith("Took 15% for 'val'") for note in notes)
    assert list(compare("data.npz", ["BCE"], epochs=1, hidden=0, accelerator="cpu").rows) == ["BCE"]
    assert (tmp_path / "runs" / "data-losses" / "bce").is_dir()


def test_corrections_do_not_move_rows_between_splits_of_a_run(data, tmp_path):
    rows = list(range(0, 600, 7))
    cells = 1 - data.targets.dense(rows).numpy()
    other = from_arrays(data.features[rows], cells, labels=data.labels, ids=[data.ids[row] for row in rows])
    runs = [
        train(one, recipe(epochs=1), folder=tmp_path / name, progress=NoProgress()).predictions().read()
        for name, one in (("plain", data), ("corrected", data.corrected(other)))
    ]
    assert runs[0].ids == runs[1].ids
    assert runs[0].splits == runs[1].splits


def test_advice_names_what_is_wanted(data, tmp_path):
    with raises_input_error(hint="Pick one of BCE, focal, ASL, SPA,"):
        build_loss("qqqqqqqqqqqq")
    with raises_input_error(hint="Did you mean BCE?"):
        build_loss("BCEE")
    losses = texts_of(["all", "AsymmetricLoss(gamma_neg=2)"], data, None)
    assert "BCE" in losses
    assert list(losses)[-1] == "AsymmetricLoss(gamma_neg=2)"


def test_scores_alone(data, tmp_path):
    settings = {"loss": "two-way", "calibrator": "none", "rule": "none"}
    run = train(data, recipe(**settings), folder=tmp_path / "run", progress=NoProgress())
    assert run.predictions().kinds == ("scores", "targets")
    assert run.figures["before"] is None


def test_an_unfinished_run_says_so(tmp_path):
    (tmp_path / "config.yaml").write_text("epochs: 1\n")
    run = Run(tmp_path)
    assert not run.finished
    with raises_input_error(rule="be finished"):
        _ = run.figures
    with raises_input_error(rule="be a folder with a config.yaml"):
        Run(tmp_path / "nowhere")


def test_every_loss_of_the_list_trains(data, tmp_path):
    notes = []
    losses = texts_of(["all"], data, notes.append)
    assert notes == ["Left out class-wise, cross-entropy, noised top-2, average-2: for data with one label per row."]
    comparison = compare(data, losses, recipe(epochs=2), folder=tmp_path, progress=lambda name: NoProgress())
    assert list(comparison.rows) == list(losses)
    assert json.loads((tmp_path / "comparison.json").read_text()) == comparison.to_dict()
    chance = float(data.targets.dense().float().mean())
    for name, row in comparison.rows.items():
        assert row["after"]["map"] > chance, name
    assert comparison.best("map") in losses


def test_one_label_a_row_can_be_trained_with_every_loss(tmp_path):
    features, targets = population(300, labels=4)
    single = np.eye(4, dtype=np.int8)[targets.float().argmax(1)]
    data = from_arrays(features, single)
    notes = []
    losses = texts_of(["all"], data, notes.append)
    assert set(losses) == set(ALL_LOSSES)
    assert not notes
    names = ("class-wise", "cross-entropy", "noised top-2", "average-2")
    chosen = {name: losses[name] for name in names}
    comparison = compare(data, chosen, recipe(epochs=2), folder=tmp_path, progress=lambda name: NoProgress())
    assert set(comparison.rows) == set(names)


def test_a_comparison_goes_on_where_it_was_broken_off(data, tmp_path):
    trained = []

    def progress(name):
        trained.append(name.partition(" ")[2])
        return NoProgress()

    compare(data, {"BCE": "BCE"}, recipe(), folder=tmp_path, progress=progress)
    before = (tmp_path / "bce" / "model.safetensors").stat().st_mtime_ns
    compare(data, {"BCE": "BCE", "ASL": "ASL"}, recipe(), folder=tmp_path, progress=progress)
    assert (tmp_path / "bce" / "model.safetensors").stat().st_mtime_ns == before
    with raises_input_error(rule="be free of runs with other settings or other data"):
        compare(data, {"BCE": "BCE"}, recipe(lr=0.01), folder=tmp_path, progress=progress)
    changed = data.take(range(len(data) - 1))
    with raises_input_error(rule="be free of runs with other settings or other data"):
        compare(changed, {"BCE": "BCE"}, recipe(), folder=tmp_path, progress=progress)
    compare(data, {"BCE": "BCE"}, recipe(lr=0.01), folder=tmp_path, progress=progress, overwrite=True)
    assert (tmp_path / "bce" / "model.safetensors").stat().st_mtime_ns > before


def test_role_gets_the_targets_it_estimates(data, tmp_path):
    run = train(data, recipe(loss="ROLELoss()"), folder=tmp_path, progress=NoProgress())
    assert run.finished
