"""Sets of samples as bits."""

import pytest
import torch

from manyhot.metrics import bits


@pytest.mark.parametrize("samples", [0, 1, 8, 63, 64, 65, 200])
def test_packed_and_unpacked(samples):
    marks = torch.rand(6, samples, generator=torch.Generator().manual_seed(samples)) < 0.5
    marks[0], marks[1] = True, False
    words = bits.pack(marks)
    assert words.dtype == torch.int64
    assert torch.equal(bits.unpack(words, samples), marks)
    assert torch.equal(bits.count(words), marks.sum(1))


def test_intersection():
    marks = torch.rand(6, 100, generator=torch.Generator().manual_seed(0)) < 0.5
    sets = torch.tensor([[0, 1, 2], [3, 3, 3], [5, 4, 0]])
    want = torch.stack([marks[some].all(0) for some in sets])
    assert torch.equal(bits.unpack(bits.intersect(bits.pack(marks), sets), 100), want)


def test_words_with_every_single_bit():
    words = torch.tensor([[1 << place if place < 63 else -(1 << 63)] for place in range(64)])
    assert bits.count(words).tolist() == [1] * 64
    assert bits.count(torch.tensor([[-1], [0]])).tolist() == [64, 0]
