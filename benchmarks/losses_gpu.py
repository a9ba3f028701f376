"""Losses on a GPU: their properties, and forward + backward timed against naive forms, compilers and memory bandwidth.

python benchmarks/losses_gpu.py properties
python benchmarks/losses_gpu.py times [--shape 4096 1000] [--json gpu.json]
"""

import argparse
import dataclasses
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import naive
import torch
import torch._inductor.exc
import triton
from timing import sparse_targets
from torch import Tensor

import manyhot as mh
from manyhot.testing import LOSS_PROPERTIES, check_compiles, check_link_is_slope_ratio

sys.path.insert(0, str(Path(__file__).parents[1]))
from tests.losses import CASES


def check_properties(names: list[str]) -> int:
    """Every property of every loss in float32 and bfloat16; compiled by Inductor in float32."""
    broken, cases = 0, {name: CASES[name] for name in names or CASES}
    for dtype in (torch.float32, torch.bfloat16):
        for name, case in cases.items():
            on_gpu = dataclasses.replace(case, device="cuda", dtype=dtype)
            for check in LOSS_PROPERTIES:
                options = {"backend": "inductor"} if check is check_compiles and dtype == torch.float32 else {}
                start = time.perf_counter()
                try:
                    check(on_gpu, **options)
                except Exception as error:  # every property is checked, and every failure reported
                    broken += 1
                    print(f"BROKEN {dtype} {name} {check.__name__}: {type(error).__name__} {str(error)[:300]}")
                if time.perf_counter() - start > 20:
                    print(f"slow: {dtype} {name} {check.__name__} {time.perf_counter() - start:.0f} s")
            if dtype == torch.float32 and case.build(torch.zeros(1, 5)).adds_over_labels:
                check_link_is_slope_ratio(case.build(torch.zeros(1, 5)))
        print(
            f"{dtype}: {len(cases)} losses x {len(LOSS_PROPERTIES)} properties checked, {broken} broken so far",
            flush=True,
        )
    return broken


def candidates(rows: int, labels: int) -> list[tuple[Any, ...]]:
    """Name, ours, naive, arguments besides the scores, scores, minimum bytes per cell to move."""
    scores, targets = (t.cuda() for t in sparse_targets(rows, labels))
    single = targets * (targets.cumsum(1) == 1)
    heads = torch.stack([scores, scores.flip(0)], dim=1)
    noise = torch.randn(rows, 5, labels, device="cuda")
    role = mh.losses.ROLELoss(single.to(torch.int8), 3.0).cuda()
    class_wise = mh.losses.ClassWiseLoss(labels).cuda()
    index = torch.arange(rows, device="cuda")
    spa = mh.StrictlyProperAsymmetricLoss
    read_read_write = 12
    return [
        ("BinaryCrossEntropyLoss", mh.BinaryCrossEntropyLoss(), naive.bce, scores, (targets,), read_read_write),
        ("FocalLoss", mh.FocalLoss(), naive.focal, scores, (targets,), read_read_write),
        ("AsymmetricLoss", mh.AsymmetricLoss(4, 1, 0.05), naive.asl, scores, (targets,), read_read_write),
        ("StrictlyProperAsymmetricLoss", spa(), naive.spa, scores, (targets,), read_read_write),
        ("SPA + LabelPairRegulariser", mh.LabelPairRegulariser(spa(), 0.1), naive.spa_pairs, scores, (targets,), 12),
        ("QuasibinaryLoss", mh.QuasibinaryLoss().cuda(), naive.quasibinary, scores, (targets,), read_read_write),
        ("TwoWayLoss", mh.TwoWayLoss(), naive.two_way, scores, (targets,), read_read_write),
        ("WARPLoss", mh.losses.WARPLoss(), naive.warp, scores, (targets,), read_read_write),
        ("RMLLoss", mh.losses.RMLLoss(), naive.rml, scores, (targets,), read_read_write),
        (
            "MultiLabelSoftmaxLoss",
            mh.losses.MultiLabelSoftmaxLoss(),
            naive.softmax,
            scores,
            (targets,),
            read_read_write,
        ),
        (
            "SoftmaxCrossEntropyLoss",
            mh.losses.SoftmaxCrossEntropyLoss(),
            naive.cross_entropy,
            scores,
            (single,),
            read_read_write,
        ),
        ("AverageKLoss", mh.AverageKLoss(3), naive.average_k, heads, (single,), 20),
        ("NoisedTopKLoss", mh.losses.NoisedTopKLoss(3), naive.noised_top_k, scores, (single, noise), 32),
        (
            "AssumeNegativeLoss",
            mh.losses.AssumeNegativeLoss(),
            naive.assume_negative,
            scores,
            (single,),
            read_read_write,
        ),
        ("EPRLoss", mh.losses.EPRLoss(3.0), naive.epr, scores, (single,), read_read_write),
        ("ROLELoss", role, lambda s, y, r: naive.role(s, y, role.guesses, r), scores, (single, index), 20),
        ("ClassWiseLoss", class_wise, lambda s, y: naive.class_wise(s, y, class_wise.bias), scores, (single,), 12),
    ]


def milliseconds(loss: Callable[..., Tensor], scores: Tensor, arguments: tuple[Tensor, ...]) -> float | None:
    """Median time of forward + backward; None if it runs out of memory or cannot be compiled."""
    leaf = scores.clone().requires_grad_()

    def step() -> None:
        leaf.grad = None
        loss(leaf, *arguments).backward()

    try:
        step()
        return float(triton.testing.do_bench(step, warmup=30, rep=100, return_mode="median"))
    except (torch.OutOfMemoryError, torch._inductor.exc.InductorError) as error:
        print(f"  ({type(error).__name__}: {str(error).splitlines()[0][:100]})")
        torch.cuda.empty_cache()
        return None


def graphed(loss: Callable[..., Tensor], scores: Tensor, arguments: tuple[Tensor, ...]) -> float:
    """The same replayed as a CUDA graph, which only losses without device synchronisation allow."""
    leaf = scores.clone().requires_grad_()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            leaf.grad = None
            loss(leaf, *arguments).backward()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    leaf.grad = None
    with torch.cuda.graph(graph, stream=stream):
        loss(leaf, *arguments).backward()
    return float(triton.testing.do_bench(graph.replay, warmup=30, rep=100, return_mode="median"))


def copy_bandwidth() -> float:
    """Bytes a second of a large copy, read and written."""
    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    taken = float(triton.testing.do_bench(lambda: target.copy_(source), return_mode="median"))
    return 8 * source.numel() / (taken / 1e3)


def times(shape: tuple[int, int], bandwidth: float) -> list[dict[str, object]]:
    rows, labels = shape
    print(f"\n{shape}: milliseconds of forward + backward (-: not possible)")
    columns = ("naive", "naive compiled", "ours", "ours compiled", "ours in a graph", "floor")
    print(f"{'':32}" + "".join(f"{column:>16}" for column in columns), flush=True)
    results = []
    for name, ours, plain, scores, arguments, cell_bytes in candidates(rows, labels):
        torch.compiler.reset()
        pairs = plain in (naive.spa_pairs, naive.warp, naive.rml) and labels > 1000
        naive_time = None if pairs else milliseconds(plain, scores, arguments)
        naive_compiled = None if pairs else milliseconds(torch.compile(plain, dynamic=False), scores, arguments)
        compiled = torch.compile(ours, fullgraph=True, dynamic=False)
        mine, mine_compiled = milliseconds(ours, scores, arguments), milliseconds(compiled, scores, arguments)
        in_graph = graphed(compiled, scores, arguments)
        floor = rows * labels * cell_bytes / bandwidth * 1e3
        row = [naive_time, naive_compiled, mine, mine_compiled, in_graph, floor]
        print(f"{name:32}" + "".join(f"{'-' if v is None else f'{v:.3f}':>16}" for v in row), flush=True)
        results.append({"name": name, "shape": shape, **dict(zip(columns, row, strict=True))})
        torch.cuda.empty_cache()
    return results


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["properties", "times"])
    parser.add_argument("--shape", type=int, nargs=2, action="append", metavar=("ROWS", "LABELS"))
    parser.add_argument("--only", nargs="+", default=[], help="names of the losses whose properties are checked")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    if arguments.what == "properties":
        return int(check_properties(arguments.only) > 0)
    bandwidth = copy_bandwidth()
    print(f"copy bandwidth {bandwidth / 1e12:.2f} TB/s, read and written")
    shapes = [tuple(shape) for shape in arguments.shape or [(4096, 1000), (4096, 10000)]]
    results = [row for shape in shapes for row in times(shape, bandwidth)]
    if arguments.json:
        Path(arguments.json).write_text(json.dumps({"bandwidth": bandwidth, "times": results}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
