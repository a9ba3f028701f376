"""What the guide shows runs, and what it says in numbers is true."""

import re
from pathlib import Path

import torch

from manyhot.decide.risk import allowed_loss

GUIDE = (Path(__file__).parents[2] / "docs" / "decisions.md").read_text()


def test_the_examples_run_one_after_the_other(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    state = torch.get_rng_state()
    for code in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(code, names)
    torch.set_rng_state(state)
    assert (tmp_path / "build" / "rule.json").exists()


def test_the_rows_that_promises_take():
    on_average, surely = (
        next(n for n in range(1, 99) if allowed_loss(n, 0.1, delta) >= -1e-12) for delta in (None, 0.05)
    )
    assert (
        f"On average, 10 % takes {on_average} rows with labels; surely, with `delta=0.05`, it takes {surely}."
        in " ".join(GUIDE.split())
    )
