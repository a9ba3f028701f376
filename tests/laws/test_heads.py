"""Heads: signs of the bias, thresholds, starts from label rates."""

import math

import pytest
import torch

import manyhot as mh
from manyhot.heads import BIASES, MLPHead

LINKS = {
    "sigmoid": mh.SigmoidLink(),
    "focal": mh.FocalLoss().link,
    "asl": mh.AsymmetricLoss().link,
    "spa": mh.StrictlyProperAsymmetricLoss().link,
}


@pytest.mark.parametrize("head", [mh.LinearHead, mh.CosineHead])
@pytest.mark.parametrize("bias", ["none", "shared", "label"])
def test_a_score_above_zero_is_a_metric_above_the_threshold(head, bias):
    torch.manual_seed(0)
    layer = head(4, 3, bias=bias)
    if layer.bias is not None:
        torch.nn.init.normal_(layer.bias)
    features = torch.randn(20, 4)
    assert torch.equal(layer(features) > 0, layer.metrics(features) > layer.threshold())
    assert layer.threshold().shape == ((3,) if bias == "label" else ())


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS)
@pytest.mark.parametrize("head", [mh.LinearHead, mh.CosineHead])
def test_bias_from_label_rates(head, link):
    rates = torch.tensor([0.5, 0.1, 0.001])
    layer = head(4, 3, bias="label").init_bias(rates, link=link)
    torch.testing.assert_close(link.probs(layer(torch.zeros(1, 4))), rates.unsqueeze(0), rtol=1e-4, atol=1e-6)


def test_shared_bias_takes_the_mean_rate():
    layer = mh.LinearHead(4, 3, bias="shared").init_bias(torch.tensor([0.1, 0.2, 0.3]))
    assert torch.sigmoid(layer.bias).item() == pytest.approx(0.2, abs=1e-6)


def test_cosine_of_zero_vectors_is_zero_in_every_type():
    for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
        head = mh.CosineHead(4, 3).to(dtype)
        features = torch.zeros(2, 4, dtype=dtype, requires_grad=True)
        scores = head(features)
        scores.sum().backward()
        assert bool((scores == 0).all())
        assert bool(features.grad.isfinite().all())


def test_two_heads_are_selected_by_name():
    heads = mh.heads.TwoHeads(4, 3)
    features = torch.randn(5, 4)
    scores = heads(features)
    assert torch.equal(mh.heads.TwoHeads.select(scores, "single"), heads.single(features))
    assert torch.equal(mh.heads.TwoHeads.select(scores, "multi"), heads.multi(features))


def test_the_learned_threshold_is_the_predicted_one():
    """Corollary 1: with all positives at 5 and all negatives at -5, BCE learns the shared bias of the closed form."""
    labels = 10
    metrics = torch.full((labels, labels), -5.0, dtype=torch.float64).fill_diagonal_(5.0)
    bias = torch.zeros((), dtype=torch.float64, requires_grad=True)
    loss = mh.BinaryCrossEntropyLoss(reduction="batchmean")
    optimiser = torch.optim.LBFGS([bias], line_search_fn="strong_wolfe", tolerance_grad=1e-12, max_iter=200)

    def step():
        optimiser.zero_grad()
        value = loss(metrics - bias, torch.eye(labels))
        value.backward()
        return value

    optimiser.step(step)
    assert bias.item() == pytest.approx(mh.losses.optimal_bias(labels, -5, 5), abs=1e-6)


def test_quasibinary_starts_from_label_rates():
    rates = torch.tensor([0.5, 0.1, 0.01])
    head = mh.LinearHead(4, 3).init_bias(rates, link=mh.QuasibinaryLoss().link)
    torch.testing.assert_close(head.bias.exp(), rates)


@pytest.mark.parametrize("head", [mh.LinearHead, mh.CosineHead])
def test_heads_take_the_eight_starts(head):
    layer = head(4, 5, bias="label").init_diverse_bias(2)
    assert torch.equal(layer.bias, mh.heads.diverse_bias(2, 5))


def test_the_eight_starts():
    n = 8
    i = torch.arange(1.0, n + 1)
    level = math.log(96 * n)
    high = [True, True, False, True, True, True, False, False]
    want = [
        i,
        64 * i / n,
        64 * (n - i) / n,
        (96 * i).log(),
        (96 * (n + 1 - i)).log(),
        torch.tensor([level if h else 0.0 for h in high]),
        torch.tensor([0.0 if h else level for h in high]),
    ]
    for mode, start in enumerate(want, start=1):
        torch.testing.assert_close(mh.heads.diverse_bias(mode, n), start)
    random = mh.heads.diverse_bias(0, n, generator=torch.Generator().manual_seed(0))
    assert 0 < random.abs().max().item() <= 1 / math.sqrt(n)


@pytest.mark.parametrize("name", mh.losses.UNIFORM_LOSSES)
def test_twelve_classifiers_train(name):
    torch.manual_seed(0)
    head, loss = mh.uniform_classifier(name, 6, 3, scale=16.0)
    features, targets = torch.randn(30, 6), mh.one_hot(torch.arange(30) % 3, 3)
    features[:, :3] += 2 * targets
    optimiser = torch.optim.SGD(head.parameters(), lr=0.1)
    first = loss(head(features), targets).item()
    for _ in range(20):
        optimiser.zero_grad()
        loss(head(features), targets).backward()
        optimiser.step()
    assert loss(head(features), targets).item() < first
    assert len(mh.losses.UNIFORM_LOSSES) == 12


def test_a_hidden_layer_tells_apart_what_no_plane_does():
    """Exclusive or: no linear head gets all four corners right, one with a hidden layer does."""
    torch.manual_seed(0)
    corners = torch.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    targets = torch.tensor([[0], [1], [1], [0]])
    head = mh.MLPHead(2, 1, hidden=16)
    optimiser, loss = torch.optim.Adam(head.parameters(), lr=0.05), mh.BinaryCrossEntropyLoss()
    for _ in range(300):
        optimiser.zero_grad()
        loss(head(corners), targets).backward()
        optimiser.step()
    assert torch.equal(head(corners) > 0, targets.bool())


def test_a_hidden_layer_drops_out_in_training_alone():
    head = mh.MLPHead(4, 3, hidden=64, dropout=0.5).init_bias(torch.full((3,), 0.2))
    features = torch.randn(5, 4, generator=torch.Generator().manual_seed(0))
    assert not torch.equal(head(features), head(features))
    head.eval()
    assert torch.equal(head(features), head(features))
    torch.testing.assert_close(head.last.bias.detach().sigmoid(), torch.full((3,), 0.2))


HEADS = {
    f"{kind.__name__} {bias}": (kind, {"bias": bias}) for kind in (mh.LinearHead, mh.CosineHead) for bias in BIASES
}
HEADS |= {"MLPHead": (MLPHead, {"hidden": 16}), "TwoHeads": (mh.heads.TwoHeads, {})}
HEADS |= {"TwoHeads hidden": (mh.heads.TwoHeads, {"hidden": 16})}


@pytest.mark.parametrize("name", HEADS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_heads_compute_in_float32_under_autocast(name, dtype):
    """Scores of lower precision tie, and ties count as errors."""
    torch.manual_seed(0)
    kind, options = HEADS[name]
    head = kind(64, 50, **options).eval()
    features = torch.randn(200, 64).to(dtype)  # as the backbone gives them
    with torch.autocast("cpu", dtype=dtype):
        scores = head(features)
        assert (torch.randn(2, 2) @ torch.randn(2, 2)).dtype == dtype
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, head(features.float()), rtol=1e-6, atol=1e-6)
    assert len(scores.flatten().unique()) > 0.99 * scores.numel()
    scores.sum().backward()
    assert all(p.grad.dtype == torch.float32 for p in head.parameters() if p.grad is not None)


def test_heads_of_a_low_precision_stay_so():
    features = torch.randn(3, 4, dtype=torch.bfloat16)
    for head in (mh.LinearHead(4, 2).bfloat16(), MLPHead(4, 2, hidden=3).bfloat16()):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            inside = head(features)
        assert inside.dtype == torch.bfloat16
        assert torch.equal(inside, head(features))


@pytest.mark.parametrize("name", HEADS)
def test_heads_give_shapes_on_the_meta_device_and_compile_under_autocast(name):
    kind, options = HEADS[name]
    head = kind(4, 3, **options).eval()
    assert head.to("meta")(torch.zeros(5, 4, device="meta")).shape[-1] == 3
    head = kind(4, 3, **options).eval()
    features = torch.randn(5, 4, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled = torch.compile(head, backend="eager", fullgraph=True)(features)
        torch.testing.assert_close(compiled, head(features))
