"""What each of two processes runs, with a folder of its own: a run that breaks off and goes on."""

import os
import sys
from pathlib import Path

from safetensors.torch import save_file

import manyhot as mh
from manyhot.engine import FitSettings, NoProgress, fit
from tests.engine.problems import BreaksOff, Broken, data_of, network_of, targets_of, weights


def trained(folder=None, *, break_after=None):
    val = data_of(targets_of())
    train = val if break_after is None else BreaksOff(val, break_after)
    settings = FitSettings(epochs=4, batch_size=9, lr=0.02, accelerator="cpu", devices=1 if folder is None else 2)
    network, progress = network_of(), NoProgress()
    loss = mh.TwoWayLoss().double()
    return fit(network, loss, train, val=val, settings=settings, folder=folder, resume=bool(folder), progress=progress)


def main(base: Path) -> None:
    folder = base / f"of process {os.environ.get('RANK', '0')}"
    folder.mkdir()
    try:
        trained(folder, break_after=7)
    except Broken:
        result = trained(folder)
    save_file({name: value.contiguous().clone() for name, value in weights(result).items()}, str(folder / "end"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
