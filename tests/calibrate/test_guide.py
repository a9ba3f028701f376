"""What the guide shows runs, and what it asserts is true."""

import re
from pathlib import Path

import torch

GUIDE = (Path(__file__).parents[2] / "docs" / "calibration.md").read_text()


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    state = torch.get_rng_state()
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(code, names)
    torch.set_rng_state(state)
    assert (tmp_path / "build" / "calibrator.json").exists()
