"""Every benchmark against peers runs, at small sizes, and writes its figures."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
NAMES = ("features", "linear", "losses", "metrics", "predictions", "retrieval", "search", "split", "thresholds")


@pytest.mark.process
@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_runs_at_small_sizes(name, tmp_path):
    file = tmp_path / "figures.json"
    command = [sys.executable, FOLDER / f"{name}.py", "--small", "--json", file]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    figures = json.loads(file.read_text())
    assert figures.pop("options")["small"]
    assert figures
    assert " x " in done.stdout or "seconds" in done.stdout
