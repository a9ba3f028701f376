"""How each family of test vectors is computed with this package: case and number type in, named results out."""

import torch

import manyhot as mh
from manyhot.checks import prepare_batch
from manyhot.losses.baselines import count_excess
from manyhot.losses.batch_statistics import log_batch_normaliser
from manyhot.losses.kernels import label_pair_rows
from manyhot.losses.softmax import AverageKLoss

SPA_NAMES = ("zeta_pos", "k_pos", "b_pos", "zeta_neg", "k_neg", "b_neg")


class Vector:
    """One test vector, its numbers as tensors of one type."""

    def __init__(self, case, dtype):
        self.dtype, self.inputs, self.expected = dtype, case["inputs"], case["expected"]
        self.params = {name: value if value is None else as_number(value) for name, value in case["params"].items()}

    def tensor(self, name):
        return torch.tensor(to_floats(self.inputs[name]), dtype=self.dtype)

    def leaf(self, name):
        return self.tensor(name).requires_grad_()

    @property
    def targets(self):
        return torch.tensor(self.inputs["targets"])

    def one_hot(self, num_labels, name="labels"):
        return mh.one_hot(torch.tensor(self.inputs[name]), num_labels)

    def only(self, *names):
        return {name: self.params[name] for name in names}


def as_number(value):
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value


def to_floats(value):
    return [to_floats(item) for item in value] if isinstance(value, list) else float(value)


def gradient(value, leaf):
    return torch.autograd.grad(value, leaf, retain_graph=True)[0]


def additive(make):
    def run(case):
        scores, targets = case.leaf("scores"), case.targets
        mean = make(case, "mean")(scores, targets)
        results = {
            "elements": make(case, "none")(scores, targets),
            "sum": make(case, "sum")(scores, targets),
            "mean": mean,
            "grad_mean": gradient(mean, scores),
        }
        if "link" in case.expected:
            log_odds = make(case, "mean").link.log_odds(scores)
            probs = make(case, "mean").link.probs(scores)
            results |= {"link": probs, "one_minus_link": torch.sigmoid(-log_odds), "logit_link": log_odds}
        return results

    return run


def make_bce(case, reduction):
    return mh.BinaryCrossEntropyLoss(reduction=reduction)


def make_focal(case, reduction):
    return mh.FocalLoss(**case.only("gamma_neg", "gamma_pos"), reduction=reduction)


def make_asl(case, reduction):
    return mh.AsymmetricLoss(**case.only("gamma_neg", "gamma_pos"), margin=case.params["m"], reduction=reduction)


def make_spa(case, reduction="mean"):
    return mh.StrictlyProperAsymmetricLoss(**case.only(*SPA_NAMES), reduction=reduction)


def lpr(case):
    scores = case.leaf("scores")
    link = mh.SigmoidLink() if case.params["link"] == "sigmoid" else make_spa(case).link
    batch = prepare_batch("lpr", scores, case.targets)
    rows = label_pair_rows(link.log_odds(scores), batch)
    return {"rows": rows, "value": rows.mean(), "grad": gradient(rows.mean(), scores)}


def spa_lpr(case):
    scores = case.leaf("scores")
    value = mh.LabelPairRegulariser(make_spa(case), weight=case.params["lambda"])(scores, case.targets)
    return {"value": value, "grad": gradient(value, scores)}


def two_way(case):
    scores, targets = case.leaf("scores"), case.targets
    options = {
        "temperature_pos": case.params["T_pos"],
        "temperature_neg": case.params["T_neg"],
        "margin": case.params["margin"],
    }
    batch = prepare_batch("two_way", scores, targets)
    sample, column = (mh.TwoWayLoss(axis, **options) for axis in ("sample", "class"))
    values = {
        "sample_value": sample(scores, targets),
        "class_value": column(scores, targets),
        "value": mh.TwoWayLoss(**options)(scores, targets),
    }
    grads = {
        "grad_sample": gradient(values["sample_value"], scores),
        "grad_class": gradient(values["class_value"], scores),
        "grad": gradient(values["value"], scores),
    }
    return {
        "sample_rows": sample.terms(batch)[0].values,
        "class_cols": column.terms(batch)[0].values,
        **values,
        **grads,
    }


def quasibinary(case):
    scores, targets = case.leaf("scores"), case.targets
    loss = mh.QuasibinaryLoss(penalty_weight=case.params["penalty_weight"])
    value = loss(scores, targets)
    labels = int(targets.sum())
    batch = prepare_batch("quasibinary", scores, targets)
    log_c = log_batch_normaliser(batch) if labels else torch.tensor(torch.inf)
    probs = loss.link.probs(scores) if labels else torch.zeros_like(scores)
    return {"n_labels": labels, "log_C": log_c, "value": value, "grad": gradient(value, scores), "q_clipped": probs}


def quasibinary_ema(case):
    loss = mh.QuasibinaryLoss(alpha=case.params["alpha"])
    log_c, averages = [], []
    for batch in case.inputs["batches"]:
        scores, targets = torch.tensor(to_floats(batch["scores"]), dtype=case.dtype), torch.tensor(batch["targets"])
        loss(scores, targets)
        fresh = log_batch_normaliser(prepare_batch("quasibinary", scores, targets))
        log_c.append(float(fresh) if targets.any() else float("inf"))
        averages.append(float(loss.link.log_normaliser) if loss.link.fitted else None)
    test = case.tensor("test_scores")
    return {
        "log_C": log_c,
        "log_C_avg": averages,
        "test_log_q": loss.link.log_probs(test),
        "test_prob": loss.link.probs(test),
    }


def uniform_losses(case):
    features, weights = case.leaf("features"), case.tensor("weights")
    options = {"scale": case.params["gamma"]} if case.params["gamma"] else {}
    head, loss = mh.uniform_classifier(case.params["loss"], features.shape[1], weights.shape[0], **options)
    head.to(case.dtype)
    with torch.no_grad():
        head.weight.copy_(weights)
        if head.bias is not None:
            head.bias.copy_(case.tensor("bias").view_as(head.bias))
    scores, targets = head(features), case.one_hot(weights.shape[0])
    rows = type(loss)(reduction="none")(scores, targets)
    value = loss(scores, targets)
    return {
        "scores_with_bias": scores,
        "rows": rows.sum(1) if rows.ndim == 2 else rows,
        "value": value,
        "grad_features": gradient(value, features),
        "grad_weights": gradient(value, head.weight),
        "grad_bias": None if head.bias is None else gradient(value, head.bias).view(case.tensor("bias").shape),
    }


def classwise_bce(case):
    scores = case.leaf("scores")
    mean, none = (
        mh.losses.ClassWiseLoss(scores.shape[1], reduction=reduction).to(case.dtype) for reduction in ("mean", "none")
    )
    for loss in (mean, none):
        loss.bias.data.copy_(case.tensor("bias"))
    targets = case.one_hot(scores.shape[1])
    value = mean(scores, targets)
    return {
        "rows": none(scores, targets),
        "value": value,
        "grad_scores": gradient(value, scores),
        "grad_bias": gradient(value, mean.bias),
    }


def single_label(make):
    def run(case):
        scores = case.leaf("scores")
        targets = case.one_hot(scores.shape[1])
        value = make("mean")(scores, targets)
        return {"rows": make("none")(scores, targets), "value": value, "grad": gradient(value, scores)}

    return run


def epr(case):
    scores = case.leaf("scores")
    loss = mh.losses.EPRLoss(case.params["K"], beta=case.params["beta"])
    targets = case.one_hot(scores.shape[1])
    value = loss(scores, targets)
    excess = count_excess(loss.check(scores, targets), torch.sigmoid(scores), loss.expected_labels)
    return {"k_hat": excess + case.params["K"], "value": value, "grad": gradient(value, scores)}


def role(case):
    scores = case.leaf("scores")
    targets = case.one_hot(scores.shape[1])
    loss = mh.losses.ROLELoss(targets, expected_labels=case.params["K"]).to(case.dtype)
    loss.guesses.data.copy_(case.tensor("theta"))
    value = loss(scores, targets, torch.arange(len(scores)))
    batch = loss.check(scores, targets)
    halves = {
        "half_scores": loss.reduce(loss.half_terms(batch, scores, loss.guesses)),
        "half_theta": loss.reduce(loss.half_terms(batch, loss.guesses, scores)),
    }
    return {
        "value": value,
        **halves,
        "grad_scores": gradient(value, scores),
        "grad_theta": gradient(value, loss.guesses),
    }


def noised_topk(case):
    scores, noise = case.leaf("scores"), case.tensor("noise")
    targets = case.one_hot(scores.shape[1])
    options = case.only("k", "epsilon")
    value = mh.losses.NoisedTopKLoss(**options)(scores, targets, noise)
    rows = mh.losses.NoisedTopKLoss(**options, reduction="none")(scores, targets, noise)
    return {"rows": rows, "value": value, "grad": gradient(value, scores)}


def softmax_multilabel(case):
    scores, targets = case.leaf("scores"), case.targets
    value = mh.losses.MultiLabelSoftmaxLoss()(scores, targets)
    return {
        "rows": mh.losses.MultiLabelSoftmaxLoss(reduction="none")(scores, targets),
        "value": value,
        "value_all_rows": mh.losses.MultiLabelSoftmaxLoss(reduction="sum")(scores, targets) / len(scores),
        "grad": gradient(value, scores),
    }


def softmax_with(no_label):
    def run(case):
        scores = case.leaf("scores")
        targets = case.one_hot(scores.shape[1])
        loss = mh.losses.SoftmaxCrossEntropyLoss(no_label=no_label, no_label_weight=case.params["weight"])
        in_term, out_term = (term.mean() for term in loss.terms(loss.check(scores, targets)))
        value = loss(scores, targets)
        grad = gradient(value, scores)
        return {"in_term": in_term, "out_term": out_term / case.params["weight"], "value": value, "grad": grad}

    return run


def avgk(case):
    single, multi = case.leaf("sccp_scores"), case.leaf("ml_scores")
    targets = case.one_hot(single.shape[1])
    loss = AverageKLoss(case.params["K"], alpha=case.params["alpha"])
    scores = torch.stack([single, multi], dim=1)
    batch = loss.check(scores, targets)
    candidates = loss.candidates(batch)
    entropy, *others = (term.mean() for term in loss.terms(batch))
    value = loss(scores, targets)
    return {
        "n_candidates": int(candidates.sum()),
        "candidates": [row.nonzero().flatten().tolist() for row in candidates],
        "ce_term": entropy,
        "bce_term": sum(others),
        "value": value,
        "grad_ml": gradient(value, multi),
        "grad_sccp": gradient(value, single),
    }


def phi(case):
    options = {"gamma_neg": case.params["gamma_neg"], "gamma_pos": case.params["gamma_pos"], "margin": case.params["m"]}
    if "z" in case.inputs:
        return {"phi": mh.links.phi(case.tensor("z"), **options)}
    link = mh.links.AsymmetricLink(**options)
    return {"phi": link.probs(case.tensor("scores")), "logit_phi": link.log_odds(case.tensor("scores"))}


def optimal_bias(case):
    labels, low, high = int(case.params["N"]), case.params["A"], case.params["B"]
    b = mh.losses.optimal_bias(labels, low, high)
    scores = torch.full((1, labels), low - b, dtype=torch.float64)
    scores[0, 0] = high - b
    loss = mh.BinaryCrossEntropyLoss(reduction="batchmean")(scores, mh.one_hot(torch.tensor([0]), labels))
    return {"b": b, "separates": low <= b < high, "loss_at_b": loss}


COVERED = {
    "asl": additive(make_asl),
    "assume_negative": single_label(lambda reduction: mh.losses.AssumeNegativeLoss(reduction=reduction)),
    "asymmetric_focal": additive(make_focal),
    "avgk": avgk,
    "bce": additive(make_bce),
    "classwise_bce": classwise_bce,
    "cross_entropy": single_label(lambda reduction: mh.losses.SoftmaxCrossEntropyLoss(reduction=reduction)),
    "epr": epr,
    "lpr": lpr,
    "noised_topk": noised_topk,
    "optimal_bias": optimal_bias,
    "phi": phi,
    "quasibinary": quasibinary,
    "quasibinary_ema": quasibinary_ema,
    "role": role,
    "softmax_maxconf": softmax_with("maxconf"),
    "softmax_multilabel": softmax_multilabel,
    "softmax_uniform": softmax_with("uniform"),
    "spa": additive(make_spa),
    "spa_lpr": spa_lpr,
    "two_way": two_way,
    "uniform_losses": uniform_losses,
}


def gain(family, case):
    """By how much a head multiplies its features: sums of terms of that size can cancel, each exact to 7 digits."""
    if family != "uniform_losses" or not case.params["gamma"]:
        return 1.0
    lengths = case.tensor("features").norm(dim=1)
    return case.params["gamma"] / float(lengths[lengths > 0].min())


# Printed variants that the package does not offer, by family.
LEFT_OUT = {"avgk": {"bce_term_fixed_normalisers"}}
