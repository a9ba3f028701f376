"""Time and memory of the losses on the CPU, as ratios to those of torch and timm in one run.

python benchmarks/losses.py [--rounds 60] [--threads 1] [--json losses.json]
"""

import argparse
import json
import statistics
from typing import Any

import torch
import torch.nn.functional as F
from timing import interleaved, peak_memory, ratio, sparse_targets, training_step
from timm.loss.asymmetric_loss import AsymmetricLossMultiLabel

import manyhot as mh

SHAPES = [(512, 80), (256, 1000), (64, 10000)]
TORCH_BCE, TIMM_ASL = "torch binary_cross_entropy_with_logits", "timm AsymmetricLossMultiLabel"


def candidates(rows: int, labels: int) -> dict[str, tuple[Any, ...]]:
    """Every loss with the arguments that it takes besides the scores; the peers come first."""
    scores, targets = sparse_targets(rows, labels)
    single = targets * (targets.cumsum(1) == 1)
    both_heads = torch.stack([scores, scores.flip(0)], dim=1)
    spa = mh.StrictlyProperAsymmetricLoss
    timm_asl: Any = AsymmetricLossMultiLabel
    return {
        TORCH_BCE: (F.binary_cross_entropy_with_logits, scores, targets),
        TIMM_ASL: (timm_asl(gamma_neg=4, gamma_pos=1, clip=0.05), scores, targets),
        "BinaryCrossEntropyLoss": (mh.BinaryCrossEntropyLoss(), scores, targets),
        "FocalLoss": (mh.FocalLoss(), scores, targets),
        "AsymmetricLoss": (mh.AsymmetricLoss(gamma_neg=4, gamma_pos=1, margin=0.05), scores, targets),
        "StrictlyProperAsymmetricLoss": (spa(), scores, targets),
        "SPA + LabelPairRegulariser": (mh.LabelPairRegulariser(spa(), weight=0.1), scores, targets),
        "QuasibinaryLoss": (mh.QuasibinaryLoss(), scores, targets),
        "TwoWayLoss": (mh.TwoWayLoss(), scores, targets),
        "WARPLoss": (mh.losses.WARPLoss(), scores, targets),
        "RMLLoss": (mh.losses.RMLLoss(), scores, targets),
        "MultiLabelSoftmaxLoss": (mh.losses.MultiLabelSoftmaxLoss(), scores, targets),
        "SoftmaxCrossEntropyLoss": (mh.losses.SoftmaxCrossEntropyLoss(no_label="uniform"), scores, single),
        "AverageKLoss": (mh.AverageKLoss(3), both_heads, single),
        "NoisedTopKLoss": (mh.losses.NoisedTopKLoss(3), scores, single),
        "AssumeNegativeLoss": (mh.losses.AssumeNegativeLoss(), scores, single),
        "EPRLoss": (mh.losses.EPRLoss(3.0), scores, single),
        "ROLELoss": (mh.losses.ROLELoss(single, 3.0), scores, single, torch.arange(rows)),
        "ClassWiseLoss": (mh.losses.ClassWiseLoss(labels), scores, single),
    }


# name, peer, shapes by number of labels, the most that the ratio may be
TARGETS = [
    ("BinaryCrossEntropyLoss", TORCH_BCE, (80, 1000, 10000), 1.2),
    ("AsymmetricLoss", TIMM_ASL, (80, 1000, 10000), 1 / 1.5),
    ("StrictlyProperAsymmetricLoss", "BinaryCrossEntropyLoss", (80, 1000, 10000), 2.0),
    ("TwoWayLoss", "BinaryCrossEntropyLoss", (80, 1000, 10000), 5.0),
    ("SPA + LabelPairRegulariser", "BinaryCrossEntropyLoss", (80,), 6.0),
    ("SPA + LabelPairRegulariser", "BinaryCrossEntropyLoss", (10000,), 10.0),
]


def measure(rounds: int) -> dict[int, dict[str, list[float]]]:
    results = {}
    for rows, labels in SHAPES:
        steps = {name: training_step(loss, *arguments) for name, (loss, *arguments) in candidates(rows, labels).items()}
        results[labels] = interleaved(steps, rounds=rounds)
    return results


def print_times(results: dict[int, dict[str, list[float]]]) -> None:
    print("Forward + backward, median time over that of torch's binary cross-entropy in the same run\n")
    print(f"{'':40}" + "".join(f"{shape!s:>16}" for shape in SHAPES))
    for name in results[80]:
        row = [ratio(results[labels], name, TORCH_BCE) for _, labels in SHAPES]
        print(f"{name:40}" + "".join(f"{value:15.2f}x" for value in row))
    base = [statistics.median(results[labels][TORCH_BCE]) * 1e6 for _, labels in SHAPES]
    print(f"{'(torch, microseconds)':40}" + "".join(f"{value:16.0f}" for value in base))


def check_targets(results: dict[int, dict[str, list[float]]]) -> list[dict[str, object]]:
    print(f"\n{'target':64}{'labels':>8}{'at most':>10}{'measured':>10}")
    rows: list[dict[str, object]] = []
    for name, peer, shapes, most in TARGETS:
        for labels in shapes:
            value = ratio(results[labels], name, peer)
            verdict = "met" if value <= most else "MISSED"
            print(f"{name + ' / ' + peer:64}{labels:8}{most:10.2f}{value:10.2f}  {verdict}")
            rows.append({"name": name, "peer": peer, "labels": labels, "most": most, "ratio": value})
    return rows


def print_memory() -> float:
    rows, labels = SHAPES[-1]
    loss, scores, targets = candidates(rows, labels)["SPA + LabelPairRegulariser"]
    peak: float = peak_memory(training_step(loss, scores, targets)) / (scores.numel() * scores.element_size())
    verdict = "met" if peak < 12 else "MISSED"
    print(f"\nPeak extra memory of SPA + LabelPairRegulariser at {(rows, labels)}, in sizes of the scores:")
    print(f"{peak:.1f} (below 12: {verdict})")
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=60, help="how often each loss runs (default: 60)")
    parser.add_argument(
        "--threads",
        type=int,
        default=1,
        help="threads of torch (default: 1; more would measure the neighbours on a shared machine)",
    )
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    print(f"torch {torch.__version__}, {arguments.threads} threads, 3 labels a row, {arguments.rounds} rounds\n")
    results = measure(arguments.rounds)
    print_times(results)
    targets = check_targets(results)
    peak = print_memory()
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"times": results, "targets": targets, "pair_memory": peak}, file)


if __name__ == "__main__":
    main()
