"""How the test vectors of decisions are computed: case in, named results out."""

import math

import torch

import manyhot as mh

ACTIVATIONS = {"none": lambda scores: scores, "softmax": lambda scores: scores.softmax(1), "sigmoid": torch.sigmoid}


def avgk_threshold(case):
    activate = ACTIVATIONS[case.params["activation"]]
    held_out = activate(case.tensor("val"))
    rule = mh.AverageK(case.params["K"]).fit(held_out)
    results = {
        "k": min(math.floor(case.params["K"] * len(held_out) + 1e-6), held_out.numel()),
        "lambda": rule.threshold,
    }
    for part in ("val", "test"):
        labels = rule(activate(case.tensor(part))).labels
        chosen = torch.tensor(case.inputs[f"{part}_labels"]).unsqueeze(1)
        results[f"{part}_sets"] = [row.nonzero().flatten() for row in labels]
        results[f"{part}_mean_size"] = labels.sum(1).double().mean()
        results[f"{part}_accuracy"] = labels.gather(1, chosen).double().mean()
    return results


def threshold_decision(case):
    metrics, t = case.tensor("metrics"), float(case.inputs["t"])
    accepted = mh.decide.UniformThreshold().learn(threshold=torch.tensor(t, dtype=torch.float64))(metrics).labels
    top = mh.NoneOfThese(mh.TopK(1), threshold=t)(metrics)
    decision = torch.where(top.sizes > 0, top.labels.int().argmax(1), -1)
    return {"accepted": accepted.int(), "decision": decision}


COVERED = {"avgk_threshold": avgk_threshold, "threshold_decision": threshold_decision}
