"""The engine on a GPU: accumulation, interruptions, half precision and compilation, checked against the CPU.

python benchmarks/engine_gpu.py
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import manyhot as mh
from manyhot.data.loading import FeatureBatches
from manyhot.data.targets import SparseTargets
from manyhot.engine import FitResult, FitSettings, NoProgress, fit
from manyhot.network import Network

sys.path.insert(0, str(Path(__file__).parents[1]))

from engine import Pixels

from tests.engine.problems import (
    BreaksOff,
    Broken,
    assert_close,
    assert_same,
    data_of,
    network_of,
    targets_of,
)
from tests.losses import CASES


def trained(
    case: Any,
    *,
    dtype: torch.dtype = torch.float64,
    after: int | None = None,
    folder: str | None = None,
    norm: bool = False,
    **options: Any,
) -> FitResult:
    dense = targets_of(case)
    train = data_of(dense, dtype=dtype)
    if after is not None:
        train = BreaksOff(train, after)
    loss = case.build(dense).to(dtype)
    fit_settings = FitSettings(
        **{"epochs": 2, "batch_size": 8, "lr": 0.01, "optimizer": "sgd", "accelerator": "cuda", **options}
    )
    network = network_of(heads=case.num_heads(), dtype=dtype, norm=norm, dropout=0.2 if after or folder else 0.0)
    val = None if folder is None else data_of(dense, dtype=dtype)
    return fit(
        network,
        loss,
        train,
        val=val,
        settings=fit_settings,
        folder=folder,
        resume=folder is not None,
        progress=NoProgress(),
    )


def resumes_exactly(name: str, **options: Any) -> None:
    case = CASES[name]
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        expected = trained(case, folder=one, **options)
        for after in (3, 2):
            try:
                trained(case, folder=other, after=after, checkpoint_minutes=1e-9, **options)
            except Broken:
                continue
            raise AssertionError("the run was not interrupted")
        assert_same(expected, trained(case, folder=other, **options))


def throughput(images: Tensor, targets: Tensor, precision: str, rounds: int = 5) -> tuple[float, float]:
    """Images a second of `fit` over those of a plain loop, on a small network with images in the GPU's memory."""
    labels, batch_size, epochs = targets.shape[1], 256, 40
    data = FeatureBatches(images.cpu(), SparseTargets.from_dense(targets.cpu()))

    def network() -> Network:
        return Network(nn.Sequential(Pixels()), mh.LinearHead(64, labels)).cuda()

    def plain() -> None:
        model, loss = network(), mh.BinaryCrossEntropyLoss().cuda()
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for _ in range(epochs):
            for chosen in torch.randperm(len(images)).split(batch_size):
                batch = data.features.index_select(0, chosen).cuda(non_blocking=True)
                with torch.autocast("cuda", torch.bfloat16, enabled=precision == "bf16"):
                    scores = model(batch)
                loss(scores, targets.index_select(0, chosen.cuda())).backward()
                optimizer.step()
                optimizer.zero_grad()

    def ours() -> None:
        fit_settings = FitSettings(epochs=epochs, batch_size=batch_size, accelerator="cuda", precision=precision)  # type: ignore[arg-type]
        fit(network(), mh.BinaryCrossEntropyLoss(), data, settings=fit_settings, progress=NoProgress())

    seconds: dict[Callable[[], None], list[float]] = {plain: [], ours: []}
    for turn in range(-1, rounds):
        for way in (plain, ours) if turn % 2 else (ours, plain):
            torch.cuda.synchronize()
            start = time.perf_counter()
            way()
            torch.cuda.synchronize()
            if turn >= 0:
                seconds[way].append(time.perf_counter() - start)
    return min(seconds[plain]) / min(seconds[ours]), epochs * len(images) / min(seconds[ours])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.parse_args()
    for name, case in CASES.items():
        whole = trained(case, accumulate=1)
        assert_close(whole, trained(case, accumulate=3))
        if name != "noised-top-k":  # its noise is drawn on the device
            on_cpu = trained(case, accelerator="cpu")
            whole.network.cpu(), whole.loss.cpu()
            assert_close(on_cpu, whole)
    print(f"{len(CASES)} losses: three accumulated parts give the same as one, and the GPU the same as the CPU")
    for options in (
        {},
        {"precision": "bf16"},
        {"precision": "16", "clip": 0.1},
        {"precision": "16", "accumulate": 2, "ema": 0.9, "optimizer": "adamw"},
    ):
        for name in ("bce", "two-way", "quasibinary", "role"):
            resumes_exactly(name, dtype=torch.float32, norm=True, **options)
    print("interrupted runs resume exactly, in full and in half precision")
    rough = trained(CASES["two-way"], dtype=torch.float32, precision="16", accumulate=2)
    whole = trained(CASES["two-way"], dtype=torch.float32, precision="32")
    assert_close(whole, rough, rtol=0.05)
    assert_close(whole, trained(CASES["two-way"], dtype=torch.float32, compile=True), rtol=1e-3)
    print("accumulated half precision and a compiled network stay close to full precision")
    images = torch.randint(0, 256, (4096, 3, 64, 64), dtype=torch.uint8, device="cuda")
    targets = (torch.rand(4096, 20, device="cuda") < 0.1).to(torch.int8)
    for precision in ("32", "bf16"):
        share, rate = throughput(images, targets, precision)
        print(f"precision {precision}: {rate:,.0f} images/s, {share:.1%} of the plain loop")


if __name__ == "__main__":
    main()
