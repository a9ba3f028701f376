"""The verbs, from files to files, as a user types them."""

import csv
import json

import numpy as np
import pytest
import torch
from fastapi.testclient import TestClient

import manyhot as mh
from manyhot.evaluation.catalog import format_value
from manyhot.report import Report
from manyhot.report.findings import describe_sets
from manyhot.studio import open_studio
from manyhot.studio.app import build_api
from manyhot.studio.decisions import DecisionChoice, DecisionExplorer

LABELS = ["cat", "dog", "a bird, flying"]


def population(rows=900, seed=0):
    """Scores that are three times too sure, and targets drawn from the true log-odds."""
    draw = torch.Generator().manual_seed(seed)
    log_odds = torch.randn(rows, len(LABELS), generator=draw) * 1.5 - 1
    targets = (torch.rand(rows, len(LABELS), generator=draw) < torch.sigmoid(log_odds)).to(torch.int8)
    splits = ["val" if row % 2 else "test" for row in range(rows)]
    return 3 * log_odds, targets, splits


@pytest.fixture
def table(tmp_path):
    scores, targets, splits = population()
    path = tmp_path / "predictions.parquet"
    mh.Predictions(scores=scores, targets=targets, splits=splits, labels=LABELS, link=mh.SigmoidLink()).save(path)
    return path


@pytest.fixture
def run_json(run):
    return lambda *arguments: json.loads(run(*arguments, "--json").out)


def test_calibrate_mends_probabilities_and_writes_all_rows(table, run_json):
    report = run_json("calibrate", table, "--fit-on", "val")
    assert report["rows"] == 900
    assert report["judged rows"] == 450
    assert (
        report["after"]["ECE"] < report["before"]["ECE"] / 3
    )  # the truth itself is off by a sixth of it on so few rows
    assert report["after"]["log loss"] < report["before"]["log loss"]
    written = mh.Predictions.open(table.with_name("predictions.calibrated.parquet")).load()
    assert written.kinds == ("scores", "probs", "targets")
    assert torch.equal(written.probs, written.calibrator(written.scores))
    assert torch.equal(written.scores, mh.Predictions.open(table).load().scores)


def test_a_saved_calibrator_gives_the_same_again(table, tmp_path, run):
    saved, again = tmp_path / "calibrator.json", tmp_path / "again.parquet"
    run("calibrate", table, "-m", "platt-scaling(sharing='all')", "--fit-on", "val", "--save", saved)
    run("calibrate", table, "-m", saved, "-o", again)
    first = mh.Predictions.open(table.with_name("predictions.calibrated.parquet")).load()
    assert torch.equal(mh.Predictions.open(again).load().probs, first.probs)


def test_decide_gives_labels_and_judges_them(table, run_json):
    report = run_json("decide", table, "--rule", "average-k(1.5)", "--fit-on", "val")
    assert report["labels a row"] == pytest.approx(1.5, abs=0.15)
    assert 0 < report["micro_f"] < 1
    written = mh.Predictions.open(table.with_name("predictions.decided.parquet")).load()
    val = written.of_split("val")
    assert int(val.decisions.sum()) == int(1.5 * len(val))
    assert written.rule.k == 1.5


def test_labels_given_a_row_are_all_that_are_given_in_every_command(tmp_path, run_json):
    scores, targets, _ = population(rows=60)
    targets[torch.rand(targets.shape, generator=torch.Generator().manual_seed(1)) < 0.4] = -1
    path, decided = tmp_path / "some.parquet", tmp_path / "decided.parquet"
    mh.Predictions(scores=scores, targets=targets, labels=LABELS, link=mh.SigmoidLink()).save(path)
    told = run_json("decide", path, "--rule", "Threshold(0.1)", "-o", decided)
    values = run_json("evaluate", decided)["groups"]["sets"]["values"]
    table = mh.Predictions.open(decided).load()
    assert told["labels a row"] == pytest.approx(float(table.decisions.sum(1).double().mean()))
    assert values["mean_size"]["value"] == pytest.approx(told["labels a row"])
    assert DecisionExplorer(table).summary(DecisionChoice("rule")).mean_size == pytest.approx(told["labels a row"])
    among_known = float((table.decisions & (targets >= 0))[(targets >= 0).any(1)].sum(1).double().mean())
    assert values["known_size"]["value"] == pytest.approx(among_known)
    assert told["known_size"] == pytest.approx(among_known)
    (subject,) = Report(table).models
    assert f"is given {told['labels a row']:.2f} labels on average" in next(describe_sets(subject))


def test_commands_report_and_studio_agree_to_the_last_digit(tmp_path, run_json):
    scores, targets, splits = population(rows=400)
    draw = torch.Generator().manual_seed(1)
    targets[torch.rand(targets.shape, generator=draw) < 0.4] = -1
    targets[::25] = -1
    path, calibrated, decided = (tmp_path / f"{name}.parquet" for name in ("scores", "calibrated", "decided"))
    ids, link = [f"{row}" for row in range(400)], mh.SigmoidLink()
    mh.Predictions(scores=scores, targets=targets, splits=splits, ids=ids, labels=LABELS, link=link).save(path)
    reported = run_json("calibrate", path, "--fit-on", "val", "-o", calibrated)
    rule = "Abstain(Threshold(0.3), at_most=0.1)"
    told = run_json("decide", calibrated, "--rule", rule, "--fit-on", "val", "-o", decided)

    def values_of(file):
        groups = run_json("evaluate", file)["groups"].values()
        return {name: value["value"] for group in groups for name, value in group["values"].items()}

    before, values = values_of(path), values_of(decided)
    assert values["coverage"] < 1
    for way, evaluated in (("before", before), ("after", values)):
        assert reported[way] == {"log loss": evaluated["log_loss"], "ECE": evaluated["ece"]}
    sets = [name for name in told if name in values]
    assert {"micro_f", "macro_f", "sample_f", "known_size", "coverage", "exact_match"} <= set(sets)
    assert {name: told[name] for name in sets} == {name: values[name] for name in sets}
    (model,) = Report(decided).models
    assert {name: model.evaluation[name] for name in values} == values
    assert model.evaluation_before["ece"] == before["ece"]
    assert model.evaluation_before["log_loss"] == before["log_loss"]
    (overall, *_) = [figure for figure in Report(decided).plots if figure.key == "reliability"]
    assert f"calibrated: calibration error {format_value('ece', values['ece'])}" in overall.alt
    assert f"is given {values['mean_size']:.2f} labels on average" in next(describe_sets(model))
    studio, _ = open_studio(decided, read_only=True)
    with TestClient(build_api(studio)) as client:
        summary, trust = (
            client.get(f"/api/{page}", params={"split": "test"}).json() for page in ("decide", "reliability")
        )
    assert summary["mean_size"] == values["mean_size"]
    observed = summary["observed"]
    assert [observed[name] for name in ("precision", "recall", "f")] == [
        values[f"micro_{name}"] for name in ("precision", "recall", "f")
    ]
    assert (trust["ece"], trust["ace"]) == (values["ece"], values["ace"])


def test_decide_without_anything_to_learn(table, run_json):
    report = run_json("decide", table, "--rule", "TopK(2)")
    assert report["labels a row"] == 2


@pytest.mark.parametrize(
    ("risk", "words"),
    [
        ("false_negatives", "labels of a row that are missed, at most 20 % guaranteed"),
        ("false_discoveries", "labels predicted for a row that are wrong, at most 20 % guaranteed"),
    ],
)
def test_the_risk_that_is_controlled_is_told(table, run_json, run, risk, words):
    rule = f"ConformalRiskControl(0.2, '{risk}')"
    told = run_json("decide", table, "--rule", rule, "--fit-on", "val")
    decided = mh.Predictions.open(table.with_name("predictions.decided.parquet")).load().of_split("test")
    given, true = decided.decisions, decided.targets == 1
    if risk == "false_negatives":
        losses = [(true[row] & ~given[row]).sum() / true[row].sum() for row in range(len(true)) if true[row].any()]
    else:
        losses = [(given[row] & ~true[row]).sum() / given[row].sum().clamp(min=1) for row in range(len(true))]
    assert told["risk"] == pytest.approx(float(torch.stack(losses).double().mean()))
    assert told["risk"] == pytest.approx(0.2, abs=0.05)
    shown = " ".join(run("decide", table, "--rule", rule, "--fit-on", "val", "--overwrite").out.split())
    assert f"{words} │ {100 * told['risk']:.1f} %" in shown


def test_a_person_is_asked(table, run_json):
    report = run_json("decide", table, "-r", "Abstain(Threshold(0.5), at_most=0.2)", "--fit-on", "val")
    assert report["rows for a person"] == pytest.approx(0.2, abs=0.06)
    assert mh.Predictions.open(table.with_name("predictions.decided.parquet")).load().abstain.any()


def test_evaluate_prints_a_table_and_json(table, run_json, run):
    shown = run("evaluate", table, "--split", "test", "--by-label").out
    assert "mAP" in shown
    assert "a bird, flying" in shown
    values = run_json("evaluate", table, "--split", "test")
    scores, targets, splits = population()
    rows = torch.tensor([split == "test" for split in splits])
    want = mh.metrics.MeanAveragePrecision().update(scores[rows], targets[rows]).compute().value
    assert str(want)[:8] in json.dumps(values)


def test_evaluate_judges_the_split_test_and_others_on_demand(table, run_json, run):
    assert "450 rows of the split 'test'" in run("evaluate", table).out
    of_test = run_json("evaluate", table)
    assert (of_test["split"], of_test["counts"]["rows"]) == ("test", 450)
    assert of_test["groups"] == run_json("evaluate", table, "--split", "test")["groups"]
    of_all = run_json("evaluate", table, "--split", "all")
    assert (of_all["split"], of_all["counts"]["rows"]) == (None, 900)
    assert run_json("evaluate", table, "--split", "val")["split"] == "val"


def test_intervals_and_shots(table, tmp_path, run_json, run):
    counts = tmp_path / "counts.csv"
    with counts.open("w", newline="") as file:
        csv.writer(file).writerows([("label", "count"), ("dog", 50), ("cat", 5), (LABELS[2], 500)])
    shown = json.dumps(run_json("evaluate", table, "--train-counts", counts, "--intervals", "0.9"))
    assert "medium" in shown
    counts.write_text("label,count\ncat,1\n")
    assert "must name every label; got none for 'dog'" in run("evaluate", table, "--train-counts", counts, code=2).err


def test_a_csv_of_another_model_goes_all_the_way(tmp_path, run):
    scores, targets, splits = population(200)
    with (tmp_path / "scores.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "split", *LABELS])
        writer.writerows([f"photo {i}", splits[i], *row] for i, row in enumerate(scores.tolist()))
    with (tmp_path / "truth.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "labels"])
        names = mh.Labels(LABELS).decode(targets)
        writer.writerows((f"photo {i}", "|".join(row)) for i, row in reversed(list(enumerate(names))))
    calibrated, decided = tmp_path / "calibrated.parquet", tmp_path / "decided.parquet"
    truth = ("--kind", "scores", "--targets", tmp_path / "truth.csv")
    run("calibrate", tmp_path / "scores.csv", *truth, "-m", "PlattScaling", "--fit-on", "val", "-o", calibrated)
    run("decide", calibrated, "--rule", "ExpectedFBeta", "-o", decided)
    back = mh.Predictions.open(decided).load()
    assert torch.equal(back.targets, targets)
    assert back.ids[3] == "photo 3"
    np.testing.assert_allclose(back.scores, scores, rtol=1e-6)
    run("evaluate", decided, "--split", "test")


def test_probabilities_alone_can_be_calibrated(tmp_path, run_json):
    scores, targets, splits = population()
    path = tmp_path / "probs.parquet"
    mh.Predictions(probs=torch.sigmoid(scores), targets=targets, splits=splits, labels=LABELS).save(path)
    report = run_json("calibrate", path, "-m", "TemperatureScaling(sharing='all')", "--fit-on", "val")
    assert report["after"]["ECE"] < report["before"]["ECE"]
    written = mh.Predictions.open(tmp_path / "probs.calibrated.parquet").load()
    assert float(written.calibrator.temperature) == pytest.approx(3, rel=0.15)


def test_a_calibrator_of_probabilities_takes_them_wherever_it_is_loaded(table, tmp_path, run):
    scores, targets, splits = population()
    path, saved, again = tmp_path / "probs.parquet", tmp_path / "calibrator.json", tmp_path / "again.parquet"
    probs = torch.sigmoid(scores)
    mh.Predictions(probs=probs, targets=targets, splits=splits, labels=LABELS).save(path)
    run("calibrate", path, "--fit-on", "val", "--save", saved)
    written = mh.Predictions.open(tmp_path / "probs.calibrated.parquet").load()
    test = torch.tensor([split == "test" for split in splits])
    loaded = mh.load(saved)
    ece = mh.metrics.CalibrationError().update(loaded(probs)[test], targets[test]).compute()["ece"]
    assert ece < 0.05
    torch.testing.assert_close(loaded(probs), written.probs)
    run("calibrate", path, "-m", saved, "-o", again)
    assert torch.equal(mh.Predictions.open(again).load().probs, written.probs)
    refused = run("calibrate", table, "-m", saved, "-o", tmp_path / "no.parquet", code=2).err
    assert "`PREDICTIONS` of `manyhot calibrate` must hold probs for this calibrator; got none." in refused


def test_scores_with_a_calibrator_are_judged_before_as_well(tmp_path, run_json):
    scores, targets, splits = population()
    path = tmp_path / "scores.parquet"
    calibrator = mh.PlattScaling(sharing="all").fit(scores, targets)
    columns = {"scores": scores, "targets": targets, "splits": splits, "labels": LABELS}
    mh.Predictions(**columns, calibrator=calibrator).save(path)
    assert run_json("calibrate", path, "--fit-on", "val")["before"]["ECE"] is not None


def test_import_with_names_of_its_own(tmp_path, run):
    (tmp_path / "all.csv").write_text("image,cat,dog,tags\na.jpg,0.9,0.1,cat/dog\nb.jpg,0.2,0.3,\nc.jpg,0.5,0.6,cow\n")
    words = ("--kind", "probs", "--id-column", "image", "--labels-column", "tags", "--separator", "/")
    refused = run("import", tmp_path / "all.csv", *words, code=2).err
    assert "cow" in refused
    assert not list(tmp_path.glob("*.parquet"))
    run("import", tmp_path / "all.csv", *words, "--leave-out-others", "--label", "dog", "--label", "cat")
    table = mh.Predictions.open(tmp_path / "all.imported.parquet").load()
    assert table.labels.names == ["dog", "cat"]
    assert table.ids == ["a.jpg", "b.jpg", "c.jpg"]
    assert table.targets.tolist() == [[1, 1], [0, 0], [0, 0]]


def test_another_table_to_learn_from(table, tmp_path, run_json, run):
    scores, targets, _ = population(seed=1)
    val, other = tmp_path / "val.parquet", tmp_path / "other.parquet"
    mh.Predictions(scores=scores, targets=targets, labels=LABELS).save(val)
    assert run_json("calibrate", table, "--fit-table", val)["judged rows"] == 450
    mh.Predictions(scores=scores, targets=targets, labels=["x", "y", "z"]).save(other)
    refused = run("calibrate", table, "--fit-table", other, "-o", tmp_path / "new.parquet", code=2).err
    assert "`--fit-table` of `manyhot calibrate` must have the labels of PREDICTIONS in the same order" in refused


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["calibrate"],
            "`--fit-on or --fit-table` of `manyhot calibrate` must name the rows to learn from; got neither.",
        ),
        (["calibrate"], "this table has 'test' (450 rows), 'val' (450 rows)."),
        (["calibrate", "--fit-on", "vla"], "Did you mean 'val'?"),
        (["calibrate", "-m", "Isotnic", "--fit-on", "val"], "Did you mean IsotonicCalibration?"),
        (["calibrate", "-m", "Threshold(0.5)", "--fit-on", "val"], "must be a calibrator; got Threshold."),
        (["decide", "-r", "ExpectedFBeta", "--on", "scores"], "must be probs for ExpectedFBeta; got scores."),
        (["evaluate", "--split", "tset"], "Did you mean 'test'?"),
        (["decide", "-r", "TopK(1)", "--fit-on", "vla"], "Did you mean 'val'?"),
        (["decide", "-r", "AverageK()"], "must fit AverageK(k); got missing a required argument: 'k'."),
    ],
)
def test_refusals_are_one_sentence(table, arguments, words, run):
    verb, *options = arguments
    refused = run(verb, table, *options, code=2)
    assert words in " ".join(refused.err.split())
    assert "Traceback" not in refused.err
    assert [path.name for path in table.parent.iterdir()] == ["predictions.parquet"]


def test_nothing_is_overwritten_unasked(table, run):
    run("decide", table, "--rule", "TopK(1)")
    old = table.with_name("predictions.decided.parquet").read_bytes()
    refused = run("decide", table, "--rule", "TopK(2)", code=2).err
    assert "`--out` of `manyhot decide` must name a file that is not there yet" in " ".join(refused.split())
    assert table.with_name("predictions.decided.parquet").read_bytes() == old
    run("decide", table, "--rule", "TopK(2)", "--overwrite")
    assert table.with_name("predictions.decided.parquet").read_bytes() != old


def test_scores_without_a_link_are_not_cut_as_probabilities(tmp_path, run_json, run):
    scores, targets, splits = population()
    path = tmp_path / "ranks.parquet"
    mh.Predictions(scores=scores, targets=targets, splits=splits, labels=LABELS, link=mh.TwoWayLoss().link).save(path)
    assert "alibrat" in run("decide", path, "--rule", "Threshold(0.5)", code=2).err
    run("decide", path, "--rule", "AverageK(1)", "--fit-on", "val", "--on", "scores")
    report = run_json("calibrate", path, "--fit-on", "val")
    assert report["before"] == {"log loss": None, "ECE": None}
    assert report["after"]["ECE"] < 0.05


def test_a_mistyped_verb(run):
    shown = run("evalaute", code=2)
    assert "Did you mean 'evaluate'?" in " ".join(shown.err.split())


def test_missing_files_and_kinds(tmp_path, run):
    assert "nothing.parquet" in run("evaluate", tmp_path / "nothing.parquet", code=2).err
    (tmp_path / "plain.csv").write_text("id,cat,dog\na,0.5,0.5\n")
    refused = run("evaluate", tmp_path / "plain.csv", code=2).err
    assert "kind" in refused


def test_help_has_examples_and_the_version_is_told(run):
    for verb in ("evaluate", "calibrate", "decide"):
        assert f"manyhot {verb} " in run(verb, "--help").out
    assert run("--version").out.strip() == f"manyhot {mh.__version__}"
