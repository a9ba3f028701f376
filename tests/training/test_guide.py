"""The guide keeps its word: its example runs on photos as a user has them."""

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from manyhot.training import Run

GUIDE = Path(__file__).parents[2] / "docs" / "training.md"


@pytest.fixture
def photos(tmp_path, monkeypatch):
    """Forty small photos, half of them red, with a table of their labels; and a new one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MANYHOT_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(0)
    with Path("photos.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["path", "labels"])
        for number in range(41):
            pixels = draw.integers(0, 120, (32, 32, 3), dtype=np.uint8)
            pixels[..., 0] += 120 * (number % 2)
            name = f"{number}.png" if number < 40 else "new.jpg"
            Image.fromarray(pixels).save(name)
            if number < 40:
                writer.writerow([name, "red" if number % 2 else ""])
    return tmp_path


@pytest.mark.slow
def test_the_example_of_the_guide(photos, capsys):
    (example,) = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    exec(example, {})
    printed = capsys.readouterr().out
    assert "mAP" in printed
    assert "new.jpg" in printed
    assert Run("runs/photos").figures["after"]["groups"]["ranking"]["values"]["map"]["value"] == 1.0


def test_every_setting_that_the_guide_names_is_one():
    from manyhot.settings import TrainSettings, setting_types

    named = re.findall(r"--set ([a-z_]+)=", GUIDE.read_text())
    assert len(named) >= 4
    assert set(named) <= set(setting_types(TrainSettings))
