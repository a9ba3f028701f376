"""A small run for others to kill: it trains, or goes on, and writes its weights in the end."""

import sys
import time
from pathlib import Path

import torch
from safetensors.torch import save_file

import manyhot as mh
from manyhot.data.loading import FeatureBatches
from manyhot.engine import FitSettings, NoProgress, fit
from tests.engine.problems import data_of, network_of, targets_of, weights


class Slow(FeatureBatches):
    """Takes its time, so that a killer can hit any step."""

    def load(self, groups, *, epoch):
        for batch in super().load(groups, epoch=epoch):
            time.sleep(0.01)
            yield batch


class Endless(Slow):
    """Stands still before the last epoch, so that a killer comes in time however busy the machine is."""

    last = 0

    def load(self, groups, *, epoch):
        if epoch == self.last:
            time.sleep(3600)
        return super().load(groups, epoch=epoch)


def trained(folder=None, *, kind=FeatureBatches, epochs=4):
    dense = targets_of()
    data = data_of(dense, kind=kind, dtype=torch.float32)
    settings = FitSettings(epochs=epochs, batch_size=4, ema=0.9, lr=0.02, accelerator="cpu", checkpoint_minutes=1e-9)
    network = network_of(dropout=0.3, dtype=torch.float32)
    loss = mh.QuasibinaryLoss()
    return fit(
        network,
        loss,
        data,
        val=data,
        settings=settings,
        folder=folder,
        resume=folder is not None,
        progress=NoProgress(),
    )


def main(folder: Path, epochs: int, kind: type[FeatureBatches] = Slow) -> None:
    torch.set_num_threads(1)
    print("ready", flush=True)
    Endless.last = epochs - 1
    result = trained(folder, kind=kind, epochs=epochs)
    save_file({name: value.contiguous().clone() for name, value in weights(result).items()}, str(folder / "end"))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Endless if sys.argv[3:] == ["endless"] else Slow)
