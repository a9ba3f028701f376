"""Tables and a run that reports are written of."""

import pytest
from PIL import Image

import manyhot as mh
from manyhot.demo import write_scenes
from manyhot.evaluation import pipeline
from manyhot.report import Report
from tests.report_page.material import population, trained


@pytest.fixture
def table():
    """120 rows of 4 labels, with probabilities and decisions of no known origin."""
    probs, targets = population(120, 4)
    return mh.Predictions(probs=probs, targets=targets, decisions=probs >= 0.4, labels=["cat", "dog", "sea", "sky"])


@pytest.fixture(autouse=True)
def few_draws(monkeypatch):
    """Intervals from fewer draws, which are as good for a test."""
    monkeypatch.setattr(pipeline, "REPLICATES", {1 << 18: 10})


@pytest.fixture(scope="session")
def scenes(tmp_path_factory):
    """The table of 120 scenes to train on, 30 to calibrate on and 120 to judge, some of which carry no label."""
    return write_scenes(tmp_path_factory.mktemp("scenes"), samples=120, seed=0)


@pytest.fixture(scope="session")
def run(scenes, tmp_path_factory):
    """A run on these scenes."""
    return trained(scenes, tmp_path_factory.mktemp("runs") / "run")


@pytest.fixture(scope="session")
def page(run):
    """The page of that run, which takes a few seconds to draw."""
    return Report(run).html()


@pytest.fixture
def pictures(tmp_path, table):
    """The table with paths, of which the first 60 lead to pictures and the others to nothing."""
    names = [f"{row:03d}.png" for row in range(len(table))]
    for row, name in enumerate(names[:60]):
        Image.new("RGB", (30, 20), (4 * row, 120, 90)).save(tmp_path / name)
    return table.replace(paths=names)
