"""Every rule under trial, with what the laws need to know about it."""

import manyhot as mh

CASES = {
    "threshold": (lambda: mh.Threshold(0.3), {}),
    "nothing": (lambda: mh.Threshold(float("inf")), {}),
    "costs": (lambda: mh.decide.CostThresholds(1.0, 3.0), {}),
    "costs-of-labels": (lambda: mh.decide.CostThresholds([1.0, 2.0, 1.0, 5.0, 0.0], 3.0), {"names_labels": True}),
    "top-k": (lambda: mh.TopK(2), {}),
    "top-none": (lambda: mh.TopK(0), {}),
    "top-more-than-there-are": (lambda: mh.TopK(9), {}),
    "label-thresholds": (lambda: mh.LabelThresholds(), {}),
    "label-thresholds-unshrunk": (lambda: mh.LabelThresholds(beta=2, shrink=0), {}),
    "label-thresholds-precision": (lambda: mh.LabelThresholds(precision=0.8), {}),
    "label-thresholds-precision-shrunk": (lambda: mh.LabelThresholds(precision=0.8, shrink=5), {}),
    "label-thresholds-recall": (lambda: mh.LabelThresholds(recall=0.9), {}),
    "average-k": (lambda: mh.AverageK(1.3), {"reads_unknown": True}),
    "average-0": (lambda: mh.AverageK(0), {"reads_unknown": True}),
    "average-more-than-there-are": (lambda: mh.AverageK(99), {"reads_unknown": True}),
    "uniform": (lambda: mh.decide.UniformThreshold(), {}),
    "classes": (lambda: mh.decide.ClassThresholds(), {"reads_unknown": True}),
    "expected-f": (lambda: mh.ExpectedFBeta(), {}),
    "expected-f-2": (lambda: mh.ExpectedFBeta(2.0), {}),
    "misses": (lambda: mh.ConformalRiskControl(0.2), {}),
    "misses-delta": (lambda: mh.ConformalRiskControl(0.4, delta=0.2), {}),
    "errors": (lambda: mh.ConformalRiskControl(0.3, "false_discoveries"), {}),
    "errors-delta": (lambda: mh.ConformalRiskControl(0.4, "false_discoveries", delta=0.2), {}),
    "risk-out-of-reach": (lambda: mh.ConformalRiskControl(0.01), {}),
    "none-of-these": (lambda: mh.NoneOfThese(mh.TopK(2), keep=0.8), {"reads_unknown": True}),
    "none-of-these-given": (lambda: mh.NoneOfThese(mh.LabelThresholds(), threshold=0.5), {}),
    "ask": (lambda: mh.Abstain(mh.Threshold(0.5), at_most=0.2), {"reads_unknown": True}),
    "ask-errors": (lambda: mh.Abstain(mh.LabelThresholds(), max_errors=0.5), {"reads_unknown": True}),
    "ask-none": (
        lambda: mh.Abstain(mh.NoneOfThese(mh.AverageK(1.5), threshold=0.4), at_most=0.3),
        {"reads_unknown": True},
    ),
    "none-ask": (lambda: mh.NoneOfThese(mh.Abstain(mh.ExpectedFBeta(), max_errors=1.0)), {"reads_unknown": True}),
}
