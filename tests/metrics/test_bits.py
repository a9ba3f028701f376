"""Sets of samples as bits."""

import pytest
import torch

from manyhot.metrics.retrieval import count_bits, intersect_bits, pack_bits, unpack_bits


@pytest.mark.parametrize("samples", [0, 1, 8, 63, 64, 65, 200])
def test_packed_and_unpacked(samples):
    marks = torch.rand(6, samples, generator=torch.Generator().manual_seed(samples)) < 0.5
    marks[0], marks[1] = True, False
    words = pack_bits(marks)
    assert words.dtype == torch.int64
    assert torch.equal(unpack_bits(words, samples), marks)
    assert torch.equal(count_bits(words), marks.sum(1))


def test_intersection():
    marks = torch.rand(6, 100, generator=torch.Generator().manual_seed(0)) < 0.5
    sets = torch.tensor([[0, 1, 2], [3, 3, 3], [5, 4, 0]])
    want = torch.stack([marks[some].all(0) for some in sets])
    assert torch.equal(unpack_bits(intersect_bits(pack_bits(marks), sets), 100), want)


def test_words_with_every_single_bit():
    words = torch.tensor([[1 << place if place < 63 else -(1 << 63)] for place in range(64)])
    assert count_bits(words).tolist() == [1] * 64
    assert count_bits(torch.tensor([[-1], [0]])).tolist() == [64, 0]
