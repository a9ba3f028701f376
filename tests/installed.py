"""What an installed copy must do. Run it outside the repository, with the interpreter of the environment to try.

With torch and numpy alone it trains with a loss, calibrates, decides and evaluates. Where the command line is installed
as well, the same table goes through `manyhot evaluate`.
"""

import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

import manyhot as mh

ROWS, LABELS = 400, ["apple", "fork", "knife"]


def trained() -> mh.Predictions:
    torch.manual_seed(0)
    features = torch.randn(ROWS, 8)
    targets = (features[:, : len(LABELS)] + torch.randn(ROWS, len(LABELS)) > 1).int()
    loss = mh.StrictlyProperAsymmetricLoss()
    head = mh.LinearHead(8, len(LABELS)).init_bias(targets.float().mean(0), link=loss.link)
    optimiser = torch.optim.Adam(head.parameters(), lr=0.02)
    start = loss(head(features), targets).item()
    for _ in range(100):
        optimiser.zero_grad()
        loss(head(features), targets).backward()
        optimiser.step()
    scores = head(features).detach()
    assert loss(scores, targets).item() < start
    splits = ["val", "test"] * (ROWS // 2)
    return mh.Predictions(scores=scores, targets=targets, splits=splits, labels=LABELS, link=loss.link)


def decided(table: mh.Predictions) -> None:
    val, test = table.of_split("val"), table.of_split("test")
    calibrator = mh.BetaCalibration(link=table.link).fit(val.scores, val.targets)
    decision = mh.AverageK(1).fit(calibrator(val.scores))(calibrator(test.scores))
    assert decision.labels.shape == (ROWS // 2, len(LABELS))
    assert "mAP" in str(mh.evaluate(test))


def commanded(table: mh.Predictions, folder: Path) -> None:
    table.save(folder / "scores.parquet")
    command = Path(sys.executable).with_name("manyhot")
    shown = subprocess.run([command, "evaluate", folder / "scores.parquet"], capture_output=True, text=True, check=True)
    assert "mAP" in shown.stdout, shown.stdout


if __name__ == "__main__":
    here = Path(mh.__file__).parent
    table = trained()
    decided(table)
    complete = all(importlib.util.find_spec(name) for name in ("pyarrow", "rich", "typer"))
    if complete:
        with tempfile.TemporaryDirectory() as folder:
            commanded(table, Path(folder))
    print(f"manyhot {mh.__version__} in {here} works{', and its commands' if complete else ', without commands'}.")
