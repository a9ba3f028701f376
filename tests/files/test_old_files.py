"""Files of earlier versions open, and give the numbers that they gave then.

`write.py` shows how the files came about. What they must give is in `expected.json` beside them, written by the code of
that time; nothing here computes it again.
"""

import csv
import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import save_file

import manyhot as mh
from experiments.runs import RunStore
from manyhot.backbones import Backbone, extract_features
from manyhot.cli.app import app
from manyhot.data import from_arrays, read_corrections, read_data
from manyhot.data.loading import FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import NoProgress, fit
from manyhot.engine.checkpoint import Checkpoint
from manyhot.errors import InputError
from manyhot.scale import predict_with_ray
from manyhot.search import Collection
from manyhot.serialization import from_dict, to_dict
from manyhot.studio.review import Review
from manyhot.training import Run, TrainSettings, train
from manyhot.training.comparison import run_state
from tests.files.write import SETTINGS, StopsAt, engine_parts, engine_plan, experiment, small_network

# By the commit that wrote them; the names of the files are the same in all of them.
FOLDERS = [Path(__file__).parent / name for name in ("0.1.0-29efffe", "0.1.0-10dc239", "0.1.0-11e3d50")]
FILES = FOLDERS[0]
LABELS = ["cat", "dog", "bird"]


@pytest.fixture(autouse=True, params=FOLDERS, ids=lambda folder: folder.name)
def every_folder(request, monkeypatch):
    monkeypatch.setitem(globals(), "FILES", request.param)


# What has other names or files in some of the folders.
with_old_names = pytest.mark.parametrize("every_folder", FOLDERS[:2], indirect=True, ids=lambda folder: folder.name)
with_new_names = pytest.mark.parametrize("every_folder", FOLDERS[2:], indirect=True, ids=lambda folder: folder.name)


def expected(folder):
    return json.loads((FILES / folder / "expected.json").read_text())


def tensor(value, dtype=torch.float64):
    """Numbers of `expected.json`; infinite ones are texts there."""
    return (
        value.to(dtype) if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value, dtype=float)).to(dtype)
    )


def assert_numbers(found, wanted, *, within=1e-6):
    """Equal up to the rounding of another processor, relative to 1 or to the number."""
    torch.testing.assert_close(
        torch.as_tensor(found).double(), tensor(wanted), rtol=within, atol=within, equal_nan=True
    )


def assert_answers(table, wanted, **tolerance):
    """A table has the scores, probabilities and decisions of an answer, and nothing else."""
    for kind in ("scores", "probs", "decisions", "abstain", "targets"):
        found = getattr(table, kind)
        if kind not in wanted:
            assert found is None or kind == "targets", kind
        elif found.is_floating_point():
            assert_numbers(found, wanted[kind], **tolerance)
        else:
            assert torch.equal(found.double(), tensor(wanted[kind])), kind


def copied(tmp_path, *names):
    """Files where they may be written to."""
    for name in names:
        source = FILES / name
        target = tmp_path / source.name
        shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
    return tmp_path / Path(names[0]).name


def names_of(folder, files=FILES):
    return sorted(path.stem for path in (files / "modules" / folder).glob("*.json"))


@pytest.mark.parametrize("name", names_of("links"))
def test_link(name):
    link, given = mh.load(FILES / "modules" / "links" / f"{name}.json"), expected("modules")
    scores, wanted = tensor(given["scores"]), given["links"][name]
    usual = scores.abs() < 100  # beyond 300, sums gave the log-odds of 300
    assert_numbers(link.log_odds(scores)[usual], tensor(wanted["log odds"])[usual], within=1e-9)
    assert_numbers(link.probs(scores)[usual], tensor(wanted["probs"])[usual], within=1e-12)


@with_old_names
@pytest.mark.parametrize("name", names_of("calibrators"))
def test_calibrator(name):
    check_calibrator(name)


@with_new_names
@pytest.mark.parametrize("name", names_of("calibrators", FOLDERS[2]))
def test_calibrator_by_its_new_name(name):
    check_calibrator(name)


def check_calibrator(name):
    calibrator, given = mh.load(FILES / "modules" / "calibrators" / f"{name}.json"), expected("modules")
    scores, wanted = tensor(given["scores"]), given["calibrators"][name]
    assert_numbers(calibrator.log_odds(scores), wanted["log odds"])
    assert_numbers(calibrator(scores), wanted["probs"], within=1e-9)


@pytest.mark.parametrize("name", names_of("rules"))
def test_rule(name):
    rule, given = mh.load(FILES / "modules" / "rules" / f"{name}.json"), expected("modules")
    decision, wanted = rule(tensor(given["probs"])), given["rules"][name]
    assert decision.labels.int().tolist() == wanted["labels"]
    assert decision.abstain.int().tolist() == wanted["abstain"]


@pytest.mark.parametrize("folder", ["calibrators", "links", "rules"])
def test_what_was_loaded_can_be_saved_and_is_the_same_then(folder, tmp_path):
    given = expected("modules")
    values = tensor(given["probs" if folder == "rules" else "scores"])
    for name in names_of(folder, FILES):
        first = mh.load(FILES / "modules" / folder / f"{name}.json")
        mh.save(first, tmp_path / "again.json")
        again = mh.load(tmp_path / "again.json")
        if folder == "rules":
            assert torch.equal(first(values).labels, again(values).labels), name
        else:
            assert torch.equal(first.log_odds(values), again.log_odds(values)), name


def test_a_calibrator_of_the_command_line_gives_the_table_that_it_gave(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(copied(tmp_path, "calibrated"))
    wanted = expected("calibrated")["probs"]
    assert_numbers(mh.Predictions.open("calibrated.parquet").load().probs, wanted, within=0)
    app(["calibrate", "probs.parquet", "-m", "calibrator.json", "-o", "again.parquet"], standalone_mode=False)
    assert_numbers(mh.Predictions.open("again.parquet").load().probs, wanted)


@pytest.mark.parametrize("name", ["whole", "double", "probs", "scores", "batches"])
def test_table(name):
    wanted = expected("tables")[name]
    stored = mh.Predictions.open(FILES / "tables" / f"{name}.parquet")
    table = stored.load()
    assert len(stored) == len(table) == len(wanted["ids"])
    assert (table.labels.names, table.ids) == (wanted["labels"], wanted["ids"])
    assert (table.paths, table.splits) == (wanted["paths"], wanted["splits"])
    assert str((table.probs if table.scores is None else table.scores).dtype) == wanted["dtype"]
    present = {kind: value for kind, value in wanted.items() if value is not None}
    assert_answers(table, present, within=0)
    assert ("targets" in present) == (table.targets is not None)
    assert_numbers(table.probabilities(), wanted["probabilities"])


@pytest.mark.parametrize("name", ["whole", "double"])
def test_link_calibrator_and_rule_of_a_table_give_its_columns(name):
    table = mh.Predictions.open(FILES / "tables" / f"{name}.parquet").load()
    assert isinstance(table.link, mh.links.StrictlyProperAsymmetricLink)
    assert_numbers(table.calibrator(table.scores), table.probs)
    decision = table.rule(table.probs)
    assert torch.equal(decision.labels, table.decisions)
    assert torch.equal(decision.abstain, table.abstain)


@with_old_names
def test_a_table_whose_footer_names_a_calibrator_by_its_old_name(tmp_path):
    """The calibrator is one of the old files, and the metadata are as its version wrote them: `Isotonic` and `per`."""
    path, module = tmp_path / "table.parquet", FILES / "modules" / "calibrators" / "isotonic-shrunk-sigmoid.json"
    scores, calibrator = tensor(expected("modules")["scores"])[:, :3], json.loads(module.read_text())
    mh.Predictions(scores=scores, labels=LABELS, link=mh.SigmoidLink()).save(path)
    calibrator.pop("format")
    assert (calibrator["kind"], calibrator["arguments"]["per"]) == ("Isotonic", "shrunk")
    table = parquet.read_table(path)
    footer = json.loads(table.schema.metadata[b"manyhot"])
    assert footer["format"] == 1
    footer = json.dumps(footer | {"calibrator": calibrator}).encode()
    parquet.write_table(table.replace_schema_metadata({b"manyhot": footer}), path)
    found = mh.Predictions.open(path).load().calibrator
    assert isinstance(found, mh.IsotonicCalibration)
    assert found.sharing == "partial"
    assert torch.equal(found(scores), mh.load(module)(scores))


def pictures():
    with np.load(FILES / "classifiers" / "pictures.npz") as arrays:
        return arrays["x"]


@pytest.mark.parametrize("name", ["linear", "cosine", "hidden", "two-heads", "own-network", "digits"])
def test_classifier(name):
    given = expected("classifiers")
    backbone = small_network() if name == "own-network" else None
    classifier = mh.Classifier.load(FILES / "classifiers" / name, backbone=backbone)
    of_pictures = classifier.network.backbone is not None
    samples = list(pictures()) if of_pictures else tensor(given["features"], torch.float32)
    assert classifier.labels.names == LABELS
    assert_answers(classifier.predict(samples, workers=0), given[name], within=1e-5)


@pytest.mark.parametrize("name", ["linear", "own-network"])
def test_onnx_file(name):
    given = expected("classifiers")
    session = onnxruntime.InferenceSession(FILES / "classifiers" / f"{name}.onnx", providers=["CPUExecutionProvider"])
    samples = pictures() if name == "own-network" else np.array(given["features"], dtype=np.float32)
    outputs = [output.name for output in session.get_outputs()]
    found = dict(zip(outputs, session.run(None, {session.get_inputs()[0].name: samples}), strict=True))
    assert found["labels"].tolist() == LABELS
    for kind, wanted in given[name].items():
        assert_numbers(found[kind], wanted, within=1e-3 if name == "own-network" else 1e-5)


def test_features_in_a_cache_are_found_and_not_computed_again(tmp_path, monkeypatch):
    folder = copied(tmp_path, "cache")
    before = sorted(path.name for path in folder.rglob("*"))
    monkeypatch.setattr(Backbone, "forward", lambda *_: pytest.fail("computed again"))
    backbone = mh.load(FILES / "classifiers" / "digits").network.backbone
    found = extract_features(backbone, from_arrays(pictures()[:6], [[]] * 6, labels=LABELS), cache=folder)
    assert_numbers(found.features[:, ::25], expected("cache")["features"], within=0)
    assert sorted(path.name for path in folder.rglob("*")) == before


def test_a_folder_of_parts_is_one_table_and_can_be_searched():
    given = expected("parts")
    table = mh.Predictions.open(FILES / "parts").load()
    assert table.ids == given["ids"]
    assert_answers(table, given, within=0)
    hits = Collection.open(FILES / "parts").search("cat & !dog", k=3).hits
    assert [hit.id for hit in hits] == [name for name, _ in given["hits"]]
    assert [hit.prob for hit in hits] == pytest.approx([prob for _, prob in given["hits"]])


def test_a_folder_of_parts_knows_what_is_done(tmp_path):
    folder, given = copied(tmp_path, "parts"), expected("parts")
    with (folder / "left-out.csv").open(newline="") as file:
        assert {row["id"]: row["reason"] for row in csv.DictReader(file)} == given["left out"]
    photos = from_arrays(pictures()[:6], [[]] * 6, labels=LABELS, ids=given["ids"])
    before = {path.name: path.read_bytes() for path in folder.glob("*.parquet")}
    # Nothing is left to score, so that no cluster is started.
    written = predict_with_ray(FILES / "classifiers" / "digits", replace(photos, targets=None), folder)
    assert (written.rows, written.scored) == (6, 0)
    assert {path.name: path.read_bytes() for path in folder.glob("*.parquet")} == before
    more = from_arrays(pictures(), [[]] * 8, labels=LABELS, ids=[*given["ids"], "photo 6", "photo 7"])
    told = []

    class Enough(Exception):
        pass

    def watch(total):
        told.append(total)
        raise Enough

    with pytest.raises(Enough):
        predict_with_ray(FILES / "classifiers" / "digits", replace(more, targets=None), folder, watch=watch)
    assert told == [2]


@with_old_names
@pytest.mark.parametrize("name", names_of("rules"))
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_folder_of_parts_that_was_begun_with_another_rule_is_known(version, name, tmp_path):
    """The digest in `work.json` covers the rule as its version wrote it."""
    folder, classifier = copied(tmp_path, "parts"), FILES / "classifiers" / "digits"
    rule = json.loads((FILES / "modules" / "rules" / f"{name}.json").read_text())
    if version == 1:
        rule = json.loads(json.dumps(rule).replace('"format": 1, ', "").replace('"format": 2, ', ""))
    elif version == 2:
        rule = json.loads(json.dumps(rule).replace('{"kind"', '{"format": 2, "kind"')) | {"format": 2}
    else:
        rule = json.loads(json.dumps(to_dict(from_dict(rule))).replace('"format": 4', '"format": 3'))
    content = json.loads((classifier / "classifier.json").read_text()) | {"rule": rule}
    content.pop("manyhot")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]
    (folder / "work.json").write_text(json.dumps({"format": 1, "classifier": digest}))
    photos = from_arrays(pictures()[:6], [[]] * 6, labels=LABELS, ids=expected("parts")["ids"])
    now = mh.load(FILES / "modules" / "rules" / f"{name}.json")
    written = predict_with_ray(classifier, replace(photos, targets=None), folder, rule=now)
    assert (written.rows, written.scored) == (6, 0)
    with pytest.raises(InputError, match="begun with this classifier and rule"):
        predict_with_ray(classifier, replace(photos, targets=None), folder, rule=mh.Threshold(0.123))


RUNS = ["finished", "finished-quasibinary"]


def features():
    with np.load(FILES / "trained" / "features.npz") as arrays:
        return torch.from_numpy(arrays["x"])


@with_old_names
@pytest.mark.parametrize("name", RUNS)
def test_finished_run(name):
    run, given = Run(FILES / "trained" / name), expected("trained")[name]
    renamed = {"calibrator": "BetaCalibration()", "rule": "ExpectedFBeta()"}
    before = given["config"]
    assert (before.pop("nodes"), before.pop("strategy")) == (1, "auto")
    assert run.config == before | {"find_unused_parameters": False} | {
        name: text for name, text in renamed.items() if before[name] != "none"
    }
    check_finished_run(run, given)


@with_new_names
@pytest.mark.parametrize("name", RUNS)
def test_finished_run_with_its_evaluation(name):
    run, given = Run(FILES / "trained" / name), expected("trained")[name]
    assert run.config == given["config"]
    check_finished_run(run, given)
    assert run.evaluation_is_current  # so that a report does not evaluate its table again
    assert run.evaluation.to_dict() == run.figures["after"]


def check_finished_run(run, given):
    assert run.finished
    assert (run.figures, run.history) == (given["figures"], given["history"])
    table = run.predictions().load()
    assert (table.labels.names, table.ids, table.splits) == (given["labels"], given["ids"], given["splits"])
    assert_answers(table, given["table"], within=0)
    assert_answers(run.classifier().predict(features()[:8]), given["answers"], within=1e-5)
    trace = run.normaliser or {}
    assert trace.keys() == given.get("normaliser", {}).keys()
    for key, wanted in given.get("normaliser", {}).items():
        assert trace[key] == pytest.approx(wanted, nan_ok=True), key


@pytest.mark.parametrize("name", RUNS)
def test_the_classifier_of_a_run_gives_the_predictions_of_the_run(name):
    """Ids are row numbers of the data: network, calibrator, rule and table are held against each other."""
    run = Run(FILES / "trained" / name)
    table = run.predictions().load()
    found = run.classifier().predict(features()[[int(row) for row in table.ids]])
    assert_numbers(found.scores, table.scores, within=1e-5)
    assert_numbers(found.probs, table.probabilities(), within=1e-5)
    assert torch.equal(found.decisions, table.decisions)


@pytest.mark.parametrize("name", RUNS)
def test_the_figures_of_a_run_are_those_of_its_table(name):
    run = Run(FILES / "trained" / name)
    table, wanted = run.predictions().load(), run.figures["after"]
    found = mh.evaluate(table.of_split(run.figures["judged"])).to_dict()
    assert found["counts"] == wanted["counts"]
    for group, content in wanted["groups"].items():
        for figure, value in content["values"].items():
            now = found["groups"][group]["values"][figure]["value"]
            assert now == pytest.approx(value["value"], rel=1e-5, nan_ok=True), figure


@with_old_names
@pytest.mark.parametrize("name", RUNS)
def test_the_evaluation_of_a_run_is_read_from_its_figures(name):
    run = Run(FILES / "trained" / name)
    for evaluation, wanted in ((run.evaluation, run.figures["after"]), (run.evaluation_before, run.figures["before"])):
        assert (evaluation is None) == (wanted is None)
        if evaluation is not None:
            # The first version noted no split, and another message for too few rows.
            assert evaluation.to_dict() == {"split": None, **wanted, "too_small": evaluation.too_small}
            assert str(evaluation).startswith("Evaluation of")
    assert not run.evaluation_is_current  # so that a report evaluates its table anew


@pytest.mark.parametrize("name", RUNS)
def test_a_run_that_was_broken_off_goes_on_to_the_end_that_it_would_have_come_to(name, tmp_path, monkeypatch, capsys):
    broken = name.replace("finished", "broken-off")
    copied(tmp_path, f"trained/{broken}", "trained/features.npz")
    monkeypatch.chdir(tmp_path)
    assert not Run(broken).finished
    app(["train", "--resume", broken, "--no-report"], standalone_mode=False)
    run, given = Run(broken), expected("trained")[name]
    assert run.figures["best epoch"] == given["figures"]["best epoch"] > 2  # after the break, in the second epoch
    assert run.figures["rows"] == given["figures"]["rows"]
    for found, wanted in zip(run.history, given["history"], strict=True):
        for column in ("epoch", "steps", "lr", "train loss", "mAP"):
            assert float(found[column]) == pytest.approx(float(wanted[column]), rel=1e-4), column
        # At first per cell, now per row; every cell is known.
        per_cell = "log loss" in wanted
        per_row = float(wanted["log loss"]) * len(LABELS) if per_cell else float(wanted["log loss per row"])
        assert float(found["log loss per row"]) == pytest.approx(per_row, rel=1e-4)
    table = run.predictions().load()
    assert (table.ids, table.splits) == (given["ids"], given["splits"])
    assert_numbers(table.scores, given["table"]["scores"], within=1e-5)
    assert_numbers(run.classifier().predict(features()[:8]).scores, given["answers"]["scores"], within=1e-5)


OLD_CONFIG = {"FocalLoss": "AsymmetricFocalLoss", "BetaCalibration": "Beta", "ExpectedFBeta": "ExpectedF"}


def write_old_names(run, version):
    """Turns the settings and the checkpoint of a run that was broken off into those of an earlier version."""
    config = (run / "config.yaml").read_text().removeprefix("format: 3\n")
    assert "\nfind_unused_parameters: false\n" in config
    config = config.replace("\nfind_unused_parameters: false\n", "\nnodes: 1\nstrategy: auto\n")
    for new, old in OLD_CONFIG.items():
        assert f" {new}(" in config
        config = config.replace(f" {new}(", f" {old}(")
    (run / "config.yaml").write_text(config)
    path = run / "checkpoint" / "last.safetensors"
    checkpoint = Checkpoint.read(path)
    metadata = json.loads(json.dumps(dict(checkpoint.metadata)).replace("FocalLoss(", "AsymmetricFocalLoss("))
    if version == 1:
        text = "AsymmetricFocalLoss( gamma_neg=4, gamma_pos=1, reduction='mean' (link): AsymmetricLink() )"
        metadata["setting"]["loss"] = text
    assert "AsymmetricFocalLoss(" in metadata["setting"]["loss"]
    text = json.dumps(metadata | {"format": version})
    save_file(dict(checkpoint.tensors), str(path), metadata={"manyhot": text})


@pytest.mark.parametrize("version", [1, 2])
def test_a_run_whose_loss_has_another_name_now_goes_on_to_the_same_bits(version, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("manyhot.engine.trainer.SHOW_EVERY_SECONDS", 0.0)
    shutil.copy(FILES / "trained" / "features.npz", tmp_path)
    data, source = read_data("features.npz"), {"paths": ["features.npz"]}
    own = {"loss": "FocalLoss()", "hidden": 0, "monitor": "mAP"}
    settings = TrainSettings.build(SETTINGS | own)
    wanted = train(data, settings, folder="whole", source=source, progress=NoProgress())
    with pytest.raises(KeyboardInterrupt):
        train(data, settings, folder="broken-off", source=source, progress=StopsAt(5))
    write_old_names(Path("broken-off"), version)
    assert run_state(Path("broken-off"), {"data": source, **settings.to_dict()}) == "begun"
    app(["train", "--resume", "broken-off", "--no-report"], standalone_mode=False)
    found = Run("broken-off")
    assert found.config == wanted.config
    assert Path("broken-off", "model.safetensors").read_bytes() == Path("whole", "model.safetensors").read_bytes()
    assert torch.equal(found.predictions().load().probs, wanted.predictions().load().probs)


def test_fit_goes_on_from_a_checkpoint_to_the_same_weights(tmp_path):
    given, folder = expected("checkpoint"), copied(tmp_path, "checkpoint")
    targets = SparseTargets.from_dense(tensor(given["targets"], torch.int8))
    data = FeatureBatches(tensor(given["features"], torch.float32), targets)
    found = fit(*engine_parts(), data, settings=engine_plan(), folder=folder, resume=True, progress=NoProgress())
    assert_numbers(found.network.head.weight.detach(), given["weight"])
    assert_numbers(found.network.head.bias.detach(), given["bias"])
    assert [epoch["train loss"] for epoch in found.history] == pytest.approx(given["train loss"], rel=1e-5)


def test_a_review_holds_the_same_edits(tmp_path):
    folder, given = copied(tmp_path, "review"), expected("review")
    before = {name: (folder / name).read_bytes() for name in ("reviewed.csv", "reviewed.csv.journal")}
    collection = {name: given[name] for name in ("labels", "ids", "paths", "splits")}
    with Review(folder / "reviewed.csv", **collection) as review:
        assert review.notes == []
        cells = {str(row): {str(column): value for column, value in review.cells(row).items()} for row in range(6)}
        assert cells == given["cells"]
        assert (review.done_rows(), review.edited_rows()) == (given["done"], given["edited"])
    # Opened and closed, it says what it said.
    assert {name: (folder / name).read_bytes() for name in before} == before
    with Review(folder / "reviewed.csv", **collection) as review:
        assert review.undo() == 0
        assert review.cells(0) == {0: 1, 1: 0}


def test_corrections_of_a_review_are_read():
    found, wanted = read_corrections(FILES / "review" / "reviewed.csv"), expected("review")["corrections"]
    assert (found.labels.names, found.ids, list(found.splits)) == (wanted["labels"], wanted["ids"], wanted["splits"])
    assert found.targets.dense().tolist() == wanted["targets"]


def test_a_kept_run_of_the_experiments_is_found_by_its_settings():
    given, ledger = expected("experiment"), RunStore(FILES / "experiment")
    assert experiment().file().as_posix() == given["file"]
    found = ledger.find(experiment())
    assert found["settings"] == given["settings"]
    assert found["figures"] == {"trial": {"top-1": 0.5}}


def test_the_files_name_no_folder_of_the_machine_that_wrote_them():
    named = [path for path in FILES.rglob("*") if path.is_file() and b"/tmp/" in path.read_bytes()]
    assert named == []
