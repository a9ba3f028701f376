"""The experiment on search, on runs that are made up."""

import json

import pytest
import torch

import manyhot as mh
from experiments import count_intervals, retrieval


@pytest.fixture
def runs(tmp_path):
    """Two runs whose scores come from the same probabilities, through the links of their losses."""
    draw = torch.Generator().manual_seed(0)
    log_odds = 2 * torch.randn(400, 6, generator=draw) - 1
    targets = (torch.rand(400, 6, generator=draw) < torch.sigmoid(log_odds)).to(torch.int8)
    splits = ["val"] * 200 + ["test"] * 200
    for name, link in {"bce": mh.SigmoidLink(), "spa": mh.links.StrictlyProperAsymmetricLink()}.items():
        scores = link.scores_of_log_odds(log_odds.double()).float()
        calibrator = mh.PlattScaling(link=link).fit(scores[:200], targets[:200])
        table = mh.Predictions(
            scores=scores, probs=calibrator(scores), targets=targets, splits=splits, link=link, calibrator=calibrator
        )
        (tmp_path / "runs" / name).mkdir(parents=True)
        table.save(tmp_path / "runs" / name / "predictions.parquet")
    return tmp_path / "runs"


@pytest.mark.slow
def test_whole(runs, tmp_path, capsys):
    retrieval.run(runs, tmp_path / "out", 20)
    found = {(row["loss"], row["read by"]): row for row in json.loads((tmp_path / "out/retrieval.json").read_text())}
    ways = (retrieval.SIGMOID, retrieval.LINK, retrieval.CALIBRATED)
    assert list(found) == [("BCE", ways[1]), ("BCE", ways[2]), *(("SPA", way) for way in ways)]
    # The same probabilities, whatever the loss; only its own link reads them rightly.
    same, own, plain = (found[name]["precision"] for name in (("BCE", ways[1]), ("SPA", ways[1]), ("SPA", ways[0])))
    assert own["map"] == pytest.approx(same["map"], abs=0.01)
    assert plain["map"] < own["map"]
    assert found["SPA", ways[1]]["counts"]["count_coverage"] > 0.8 > found["SPA", ways[0]]["counts"]["count_coverage"]
    text = (tmp_path / "out/retrieval.md").read_text()
    assert "match none of the 200 test rows" in text
    assert "Not run: ASL, two-way, SPA + LPR, quasibinary." in text
    assert text.count("| SPA | own link |") == 3
    assert (tmp_path / "out/retrieval.png").stat().st_size > 1000
    assert (tmp_path / "out/retrieval-counts.png").stat().st_size > 1000
    assert "BCE, own link" in capsys.readouterr().out


def test_other_rows_are_refused(runs):
    path = runs / "spa" / "predictions.parquet"
    table = mh.Predictions.open(path).load()
    table.replace(targets=1 - table.targets).save(path)
    with pytest.raises(SystemExit, match="has other test rows than the runs before"):
        retrieval.judge(runs, 5)


def test_no_runs(tmp_path):
    with pytest.raises(SystemExit, match="holds no runs such as bce"):
        retrieval.judge(tmp_path, 5)


def test_a_calibrator_that_has_seen_the_rows_holds_its_intervals(runs):
    found = count_intervals.judge(runs / "spa", 20)
    assert [(name, rows) for name, rows, *_ in found] == [
        ("`val`", 200),
        ("other test rows", 100),
        ("the rows that are evaluated", 100),
    ]
    assert found[-1][-1] == 1
    assert count_intervals.page(found, 20).count("\n| ") == 4
