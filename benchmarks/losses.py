"""Time and memory of the losses: forward and backward, as ratios in one run to torch and timm, or on a GPU in detail.

python benchmarks/losses.py [--rounds 60] [--threads 1] [--small] [--json losses.json]
python benchmarks/losses.py --device cuda [--shape 4096x1000,4096x10000] [--json losses.json]

On a GPU every loss is timed beside its formula as one writes it down, both also compiled, ours replayed as a CUDA graph
too, and beside the time that it takes to move the bytes of scores, targets and gradient once.
"""

import argparse
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import naive
import torch
import torch.nn.functional as F
from timing import (
    Seconds,
    check,
    interleaved,
    peak_memory,
    print_table,
    ratio,
    read_options,
    sparse_targets,
    training_step,
    write_figures,
)
from torch import Tensor

import manyhot as mh

SHAPES = {"cpu": "512x80,256x1000,64x10000", "cuda": "4096x1000,4096x10000"}
SMALL_SHAPES = {"cpu": "16x80,16x1000,8x10000", "cuda": "16x80"}
TORCH_BCE, TIMM_ASL = "torch binary_cross_entropy_with_logits", "timm AsymmetricLossMultiLabel"
SPA, SPA_PAIRS = "StrictlyProperAsymmetricLoss", "SPA + LabelPairRegulariser"
# Bytes to read and write for a cell of scores and targets in float32, and their gradient.
READ_READ_WRITE = 12
PAIRS = (naive.spa_pairs, naive.warp, naive.rml)  # all pairs of 10,000 labels do not fit into memory

# name, peer, shapes by number of labels, the most that the ratio may be
TARGETS = [
    ("BinaryCrossEntropyLoss", TORCH_BCE, (80, 1000, 10000), 1.2),
    ("AsymmetricLoss", TIMM_ASL, (80, 1000, 10000), 1 / 1.5),
    (SPA, "BinaryCrossEntropyLoss", (80, 1000, 10000), 2.0),
    ("TwoWayLoss", "BinaryCrossEntropyLoss", (80, 1000, 10000), 5.0),
    (SPA_PAIRS, "BinaryCrossEntropyLoss", (80,), 6.0),
    (SPA_PAIRS, "BinaryCrossEntropyLoss", (10000,), 10.0),
]


class Candidate(NamedTuple):
    """A loss with what it takes.

    Attributes:
        loss: Ours.
        formula: The same as one writes it down.
        arguments: Of both: the scores, the targets, and what else there is.
        cell_bytes: To move for each cell at least.
    """

    loss: Callable[..., Tensor]
    formula: Callable[..., Tensor]
    arguments: tuple[Tensor, ...]
    cell_bytes: int = READ_READ_WRITE


def candidates(rows: int, labels: int, device: str) -> dict[str, Candidate]:
    """Every loss, by name."""
    scores, targets = (tensor.to(device) for tensor in sparse_targets(rows, labels))
    single = targets * (targets.cumsum(1) == 1)
    both_heads = torch.stack([scores, scores.flip(0)], dim=1)
    many, one = (scores, targets), (scores, single)
    # On a GPU the noise is drawn before, for the formula too; on the CPU the loss draws it.
    noise = (torch.randn(rows, 5, labels, device=device),) if device == "cuda" else ()
    spa = mh.StrictlyProperAsymmetricLoss
    role = mh.losses.ROLELoss(single.to(torch.int8), 3.0).to(device)
    class_wise = mh.losses.ClassWiseLoss(labels).to(device)
    index = torch.arange(rows, device=device)
    return {
        "BinaryCrossEntropyLoss": Candidate(mh.BinaryCrossEntropyLoss(), naive.bce, many),
        "FocalLoss": Candidate(mh.FocalLoss(), naive.focal, many),
        "AsymmetricLoss": Candidate(mh.AsymmetricLoss(4, 1, 0.05), naive.asl, many),
        SPA: Candidate(spa(), naive.spa, many),
        SPA_PAIRS: Candidate(mh.LabelPairRegulariser(spa(), 0.1), naive.spa_pairs, many),
        "QuasibinaryLoss": Candidate(mh.QuasibinaryLoss().to(device), naive.quasibinary, many),
        "TwoWayLoss": Candidate(mh.TwoWayLoss(), naive.two_way, many),
        "WARPLoss": Candidate(mh.losses.WARPLoss(), naive.warp, many),
        "RMLLoss": Candidate(mh.losses.RMLLoss(), naive.rml, many),
        "MultiLabelSoftmaxLoss": Candidate(mh.losses.MultiLabelSoftmaxLoss(), naive.softmax, many),
        "SoftmaxCrossEntropyLoss": Candidate(
            mh.losses.SoftmaxCrossEntropyLoss(no_label="uniform"), naive.cross_entropy, one
        ),
        "AverageKLoss": Candidate(mh.AverageKLoss(3), naive.average_k, (both_heads, single), 20),
        "NoisedTopKLoss": Candidate(mh.losses.NoisedTopKLoss(3), naive.noised_top_k, (*one, *noise), 32),
        "AssumeNegativeLoss": Candidate(mh.losses.AssumeNegativeLoss(), naive.assume_negative, one),
        "EPRLoss": Candidate(mh.losses.EPRLoss(3.0), naive.epr, one),
        "ROLELoss": Candidate(role, lambda s, y, r: naive.role(s, y, role.guesses, r), (*one, index), 20),
        "ClassWiseLoss": Candidate(class_wise, lambda s, y: naive.class_wise(s, y, class_wise.bias), one),
    }


def time_on_cpu(shapes: list[tuple[int, int]], rounds: int) -> dict[int, Seconds]:
    """Seconds of peers and losses, by the number of labels."""
    from timm.loss.asymmetric_loss import AsymmetricLossMultiLabel

    timm_asl: Any = AsymmetricLossMultiLabel
    results = {}
    for rows, labels in shapes:
        losses = candidates(rows, labels, "cpu")
        peers = {TORCH_BCE: F.binary_cross_entropy_with_logits, TIMM_ASL: timm_asl(gamma_neg=4, gamma_pos=1, clip=0.05)}
        many = losses[SPA].arguments
        steps = {name: training_step(loss, *many) for name, loss in peers.items()}
        steps |= {name: training_step(one.loss, *one.arguments) for name, one in losses.items()}
        results[labels] = interleaved(steps, rounds=rounds)
    return results


def compare_on_cpu(shapes: list[tuple[int, int]], options: argparse.Namespace) -> dict[str, Any]:
    """Prints the ratios to torch, whether the targets are met, and the memory of the label pairs."""
    print(f"torch {torch.__version__}, {options.threads} threads, 3 labels a row, {options.rounds} rounds\n")
    print("Forward + backward, median time over that of torch's binary cross-entropy in the same run\n")
    results = time_on_cpu(shapes, options.rounds)
    names = next(iter(results.values()))
    rows = [[name, *(f"{ratio(seconds, name, TORCH_BCE):.2f}" for seconds in results.values())] for name in names]
    base = [f"{1e6 * statistics.median(seconds[TORCH_BCE]):.0f}" for seconds in results.values()]
    print_table(["", *map(str, shapes)], [*rows, ["(torch, microseconds)", *base]])
    print()
    figures = []
    for name, peer, sizes, most in TARGETS:
        for labels in [labels for labels in sizes if labels in results]:
            value = ratio(results[labels], name, peer)
            check(f"{name} / {peer}, {labels} labels: {value:.2f}, at most {most:.2f}", value <= most)
            figures.append({"name": name, "peer": peer, "labels": labels, "most": most, "ratio": value})
    loss, _, (scores, targets), _ = candidates(*shapes[-1], "cpu")[SPA_PAIRS]
    peak = peak_memory(training_step(loss, scores, targets)) / (scores.numel() * scores.element_size())
    check(f"Extra memory of {SPA_PAIRS} at {shapes[-1]}: {peak:.1f} times the scores, below 12", peak < 12)
    return {"times": results, "targets": figures, "pair_memory": peak}


def milliseconds(loss: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> float | None:
    """Median time of forward + backward; None if it runs out of memory or cannot be compiled."""
    import torch._inductor.exc
    import triton

    step = training_step(loss, *arguments)
    try:
        step()
        return float(triton.testing.do_bench(step, warmup=30, rep=100, return_mode="median"))
    except (torch.OutOfMemoryError, torch._inductor.exc.InductorError) as error:
        print(f"  ({type(error).__name__}: {str(error).splitlines()[0][:100]})")
        torch.cuda.empty_cache()
        return None


def graphed(loss: Callable[..., Tensor], arguments: tuple[Tensor, ...]) -> float:
    """The same replayed as a CUDA graph, which only losses without device synchronisation allow."""
    import triton

    step = training_step(loss, *arguments)
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph, stream=stream):
        step()
    return float(triton.testing.do_bench(graph.replay, warmup=30, rep=100, return_mode="median"))


def copy_bandwidth() -> float:
    """Bytes a second of a large copy, read and written."""
    import triton

    source = torch.empty(1 << 30, dtype=torch.float32, device="cuda").normal_()
    target = torch.empty_like(source)
    taken = float(triton.testing.do_bench(lambda: target.copy_(source), return_mode="median"))
    return 8 * source.numel() / (taken / 1e3)


def compare_on_gpu(shapes: list[tuple[int, int]]) -> dict[str, Any]:
    """Prints the milliseconds of every loss on a GPU."""
    bandwidth = copy_bandwidth()
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}; copies {bandwidth / 1e12:.2f} TB/s both ways")
    columns = ["naive", "naive compiled", "ours", "ours compiled", "ours in a graph", "floor"]
    results = []
    for rows, labels in shapes:
        times: dict[str, list[float | None]] = {}
        for name, (loss, formula, arguments, cell_bytes) in candidates(rows, labels, "cuda").items():
            torch.compiler.reset()
            naive_forms = [] if formula in PAIRS and labels > 1000 else [formula, torch.compile(formula, dynamic=False)]
            compiled = torch.compile(loss, fullgraph=True, dynamic=False)
            forms = [milliseconds(form, arguments) for form in (*naive_forms, loss, compiled)]
            floor = rows * labels * cell_bytes / bandwidth * 1e3
            missing: list[None] = [None] * (4 - len(forms))
            times[name] = [*missing, *forms, graphed(compiled, arguments), floor]
            results.append({"name": name, "shape": (rows, labels), **dict(zip(columns, times[name], strict=True))})
            torch.cuda.empty_cache()
        print(f"\n{(rows, labels)}: milliseconds of forward + backward (-: not possible)\n")
        cells = [[name, *("-" if v is None else f"{v:.3f}" for v in row)] for name, row in times.items()]
        print_table(["", *columns], cells)
    return {"bandwidth": bandwidth, "times": results}


def main() -> None:
    options = read_options(
        __doc__,
        rounds=(60, 1, "how often each loss runs on the CPU"),
        device=("cpu", "cpu", "cpu or cuda"),
        shape=("", "", f"rows x labels (default: {SHAPES['cpu']}, on a GPU {SHAPES['cuda']})"),
    )
    texts = options.shape or (SMALL_SHAPES if options.small else SHAPES)[options.device]
    shapes = [(int(rows), int(labels)) for rows, labels in (text.split("x") for text in texts.split(","))]
    on_gpu = options.device == "cuda"
    write_figures(options, compare_on_gpu(shapes) if on_gpu else compare_on_cpu(shapes, options))


if __name__ == "__main__":
    main()
