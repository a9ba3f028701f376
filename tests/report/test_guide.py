"""The guide keeps its word: its examples run, and its tables and pages name every function."""

import re
from pathlib import Path

import pytest
from PIL import Image

from manyhot import report
from manyhot.evaluation import pipeline

DOCS = Path(__file__).parents[2] / "docs"
GUIDE = (DOCS / "report.md").read_text()


@pytest.mark.slow
def test_the_examples_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pipeline, "REPLICATES", {1 << 18: 10})  # intervals from fewer draws take less time
    names: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(example, names)
    written = set(re.findall(r'"(\w+\.png)"\)', GUIDE))
    assert len(written) == 14
    for name in written:
        assert Path(name).stat().st_size < 40_000
        with Image.open(name) as picture:
            assert 500 <= picture.width <= 1400


def test_the_guide_shows_what_it_writes():
    shown = re.findall(r"\(images/(report-\w+\.png)\)", GUIDE)
    assert len(shown) == 5
    assert all((DOCS / "images" / name).is_file() for name in shown)


def test_every_function_is_in_the_guide_and_on_its_page():
    page = (DOCS / "api" / "report.md").read_text()
    on_page = re.findall(r"\w+", " ".join(re.findall(r"members: \[(.*?)\]", page)))
    assert sorted(on_page) == sorted(report.__all__)
    assert all(f"`{name}`" in GUIDE or f"{name}(" in GUIDE for name in report.__all__)
