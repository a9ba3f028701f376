"""Many who ask at once, one network."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from manyhot.studio.classify import MicroBatcher
from tests.waiting import HANG


def test_everybody_gets_the_scores_of_their_own_input():
    batcher = MicroBatcher(lambda inputs: inputs * 2)
    with ThreadPoolExecutor(16) as threads:
        inputs = [torch.tensor([float(number)]) for number in range(500)]
        found = list(threads.map(lambda one: batcher.submit(one).result(), inputs))
    batcher.close()
    assert torch.equal(torch.stack(found), 2 * torch.stack(inputs))


def test_requests_that_wait_are_scored_together_up_to_a_number():
    sizes, may_go = [], threading.Event()

    def score(inputs):
        may_go.wait(HANG)
        sizes.append(len(inputs))
        return inputs

    batcher = MicroBatcher(score, most=4)
    futures = [batcher.submit(torch.tensor([1.0])) for _ in range(10)]
    may_go.set()
    for future in futures:
        future.result()
    batcher.close()
    assert sum(sizes) == 10
    assert max(sizes) == 4
    assert len(sizes) <= 4


def test_who_asks_is_told_of_an_error_and_others_are_served():
    def score(inputs):
        if bool((inputs < 0).any()):
            raise ValueError("negative")
        return inputs

    batcher = MicroBatcher(score)
    with pytest.raises(ValueError, match="negative"):
        batcher.submit(torch.tensor([-1.0])).result()
    assert float(batcher.submit(torch.tensor([1.0])).result()) == 1.0
    batcher.close()


def test_closing_answers_what_waits_and_takes_no_more():
    batcher = MicroBatcher(lambda inputs: inputs)
    futures = [batcher.submit(torch.tensor([float(number)])) for number in range(100)]
    batcher.close()
    batcher.close()
    assert [float(future.result()) for future in futures] == list(range(100))
    with pytest.raises(RuntimeError, match="shutting down"):
        batcher.submit(torch.tensor([1.0]))


def test_who_no_longer_waits_is_left_out():
    seen, begun, may_go = [], threading.Event(), threading.Event()

    def score(inputs):
        begun.set()
        may_go.wait(HANG)
        seen.extend(inputs.squeeze(1).tolist())
        return inputs

    batcher = MicroBatcher(score)
    first = batcher.submit(torch.tensor([1.0]))
    assert begun.wait(HANG)
    second = batcher.submit(torch.tensor([2.0]))
    third = batcher.submit(torch.tensor([3.0]))
    assert second.cancel()
    may_go.set()
    first.result(), third.result()
    batcher.close()
    assert seen == [1.0, 3.0]


def test_several_workers_score_at_once_and_answer_everybody():
    both = threading.Barrier(2)

    def score(inputs):
        both.wait(HANG)  # broken, and so an error, where the second pass waits for the first
        return inputs

    batcher = MicroBatcher(score, most=1, workers=2)
    futures = [batcher.submit(torch.tensor([float(number)])) for number in range(20)]
    batcher.close()
    assert [float(future.result()) for future in futures] == list(range(20))


def test_workers_share_the_cores_and_leave_those_of_others_alone():
    before = torch.get_num_threads()
    torch.set_num_threads(4)
    try:
        batcher = MicroBatcher(lambda inputs: inputs.new_full((len(inputs),), torch.get_num_threads()), workers=2)
        assert int(batcher.submit(torch.zeros(10, 10)).result()) == 2
        batcher.close()
        with ThreadPoolExecutor(1) as other:
            assert other.submit(torch.get_num_threads).result() == 4
        assert torch.get_num_threads() == 4
    finally:
        torch.set_num_threads(before)
