"""The set of the largest expected F-beta, against trying all sets and against plain sums."""

import itertools
import resource

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.decide.sets import TIE_TOLERANCE, expected_f


def f_beta(chosen, present, beta):
    if not any(chosen) and not any(present):
        return 1.0
    right = sum(a and b for a, b in zip(chosen, present, strict=True))
    return (1 + beta**2) * right / (beta**2 * sum(present) + sum(chosen))


def expectations(probs, beta):
    """The expected F-beta of every set."""
    worlds = list(itertools.product([0, 1], repeat=len(probs)))
    chances = [np.prod([p if y else 1 - p for p, y in zip(probs, world, strict=True)]) for world in worlds]
    return {
        chosen: sum(c * f_beta(chosen, world, beta) for c, world in zip(chances, worlds, strict=True))
        for chosen in worlds
    }


@pytest.mark.slow
@settings(max_examples=120, deadline=None, derandomize=True)
@given(
    st.lists(st.one_of(st.floats(0, 1), st.sampled_from([0.0, 0.5, 1.0])), min_size=1, max_size=6),
    st.sampled_from([1.0, 2.0, 0.5, 0.37]),
)
def test_no_set_is_better(probs, beta):
    values = expectations(probs, beta)
    got = tuple(mh.ExpectedFBeta(beta)(torch.tensor([probs], dtype=torch.float64)).labels[0].int().tolist())
    assert values[got] >= max(values.values()) - 1e-9
    smaller = [sum(chosen) for chosen, value in values.items() if value > max(values.values()) - TIE_TOLERANCE / 2]
    assert sum(got) <= min(smaller)


def test_expectations_of_all_sizes():
    for probs in ([0.9, 0.7, 0.2], [1.0, 0.5, 0.5, 0.0], [0.3], [0.999999, 0.6, 0.50001, 0.49999, 1e-9]):
        values = expectations(probs, 1.5)
        want = [values[tuple([1] * k + [0] * (len(probs) - k))] for k in range(len(probs) + 1)]
        got = expected_f(torch.tensor([probs], dtype=torch.float64), 1.5, len(probs))
        torch.testing.assert_close(got, torch.tensor([want], dtype=torch.float64), rtol=0, atol=1e-12)


def naive_expected(probs, beta):
    """By the distribution of the number of labels among the first k and among the others."""

    def numbers(chances):
        total = np.ones(1)
        for p in chances:
            total = np.convolve(total, [1 - p, p])
        return total

    values = [float(np.prod(1 - probs))]
    for k in range(1, len(probs) + 1):
        inside, outside = numbers(probs[:k]), numbers(probs[k:])
        right, others = np.arange(len(inside))[:, None], np.arange(len(outside))[None]
        f = (1 + beta**2) * right / (beta**2 * (right + others) + k)
        values.append(float((inside[:, None] * outside[None] * f).sum()))
    return np.array(values)


@pytest.mark.parametrize("power", [1, 8], ids=["many labels", "few labels"])
def test_many_labels_against_plain_sums(power):
    probs = np.sort(np.random.default_rng(0).random((3, 120)) ** power)[:, ::-1].copy()
    got = expected_f(torch.from_numpy(probs), 1.0, 120)
    want = np.stack([naive_expected(row, 1.0) for row in probs])
    np.testing.assert_allclose(got.numpy(), want, rtol=0, atol=1e-9)
    sizes = mh.ExpectedFBeta()(torch.from_numpy(probs)).sizes
    assert sizes.tolist() == want.argmax(1).tolist()


@pytest.mark.parametrize("beta", [1.0, 2.0, 0.5, 1.3, 0.05, 30.0])
@pytest.mark.parametrize("labels", [1, 7, 80, 200])
def test_any_beta_against_plain_sums(beta, labels):
    draw = torch.Generator().manual_seed(labels)
    probs = torch.rand(6, labels, generator=draw, dtype=torch.float64) ** torch.tensor([[1.0, 1, 3, 8, 20, 0]]).T
    probs[0, 0], probs[1, -1] = 1.0, 0.0
    ordered = probs.sort(1, descending=True).values
    want = np.stack([naive_expected(row, beta) for row in ordered.numpy()])
    for rows in (slice(None), *range(6)):  # together, and each with as few terms as it needs
        got = expected_f(ordered[rows].view(-1, labels), beta, labels)
        np.testing.assert_allclose(got.numpy(), want[rows].reshape(-1, labels + 1), rtol=0, atol=2e-10)


def test_nothing_is_the_answer_where_nothing_is_probable():
    probs = torch.tensor([[0.05, 0.05, 0.05], [0.0, 0.0, 0.0], [0.4, 0.4, 0.4]])
    assert mh.ExpectedFBeta()(probs).sizes.tolist() == [0, 0, 3]


def test_one_label_is_a_threshold_of_one_half():
    probs = torch.tensor([[0.49], [0.5], [0.51], [1.0]])
    assert mh.ExpectedFBeta()(probs).labels.flatten().tolist() == [False, False, True, True]


def test_certain_labels():
    assert mh.ExpectedFBeta()(torch.tensor([[1.0, 0.0, 1.0, 1e-20]])).labels.tolist() == [[True, False, True, False]]


def test_equal_probabilities_go_to_the_lower_index():
    labels = mh.ExpectedFBeta(0.3)(torch.tensor([[0.6, 0.6, 0.6, 0.6]])).labels
    assert labels[0].tolist() == sorted(labels[0].tolist(), reverse=True)
    assert int(labels.sum()) > 0


def test_it_beats_thresholds_on_average():
    """Over samples whose labels come true as promised, no threshold has a larger mean F1 of samples."""
    draw = torch.Generator().manual_seed(0)
    probs = torch.rand(4000, 8, generator=draw) ** 3
    present = torch.rand(4000, 8, generator=draw) < probs

    def mean_f(labels):
        right, size = (labels & present).sum(1), labels.sum(1) + present.sum(1)
        return torch.where(size > 0, 2 * right / size.clamp(min=1), 1.0).mean().item()

    best = max(mean_f(probs >= t / 50) for t in range(51))
    assert mean_f(mh.ExpectedFBeta()(probs).labels) > best + 0.005


@pytest.mark.slow
def test_many_probable_labels_need_little_memory():
    draw = torch.Generator().manual_seed(0)
    probs = 0.6 + 0.1 * torch.rand(10, 6000, generator=draw)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert mh.ExpectedFBeta()(probs).labels.all()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # a table for each number: 2 GB
