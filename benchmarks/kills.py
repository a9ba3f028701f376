"""Kills a training run at random moments until it is over, and compares its weights with those of a run left alone.

python benchmarks/kills.py [--kills 50] [--seed 0]
"""

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests.engine.killed import trained  # noqa: E402
from tests.engine.problems import weights  # noqa: E402


def start(folder: Path, epochs: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.engine.killed", str(folder), str(epochs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)


def survive(folder: Path, *, kills: int, epochs: int, draw: random.Random) -> int:
    """Runs until the end, killing so many times on the way; returns how many kills hit a run at work."""
    hits, checkpoint = 0, folder / "checkpoint" / "last.safetensors"
    while hits < kills:
        before = checkpoint.stat().st_mtime_ns if checkpoint.exists() else 0
        process = start(folder, epochs)
        assert process.stdout is not None
        process.stdout.readline()  # imports are done
        time.sleep(draw.uniform(0, 0.5))
        process.kill()
        process.wait()
        process.stdout.close()
        if (folder / "end").exists():
            return hits
        hits += checkpoint.exists() and checkpoint.stat().st_mtime_ns != before
    process = start(folder, epochs)
    process.communicate()
    assert process.returncode == 0
    return hits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--epochs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hits = survive(folder, kills=arguments.kills, epochs=arguments.epochs, draw=random.Random(arguments.seed))
        got = load_file(folder / "end")
    expected = weights(trained(epochs=arguments.epochs))
    same = expected.keys() == got.keys() and all(torch.equal(got[key], value) for key, value in expected.items())
    print(f"{hits} kills; weights {'the same to the last bit' if same else 'DIFFER'}")
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()
