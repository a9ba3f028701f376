"""Many who ask at once, one network: requests that wait are scored together."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future

import torch
from torch import Tensor

Waiting = tuple[Tensor, "Future[Tensor]"]


class Batcher:
    """Scores inputs one by one for those who ask, and together for the network.

    While the network is busy, requests gather; when it is free, it takes all that wait, up to a number. So a lone
    request waits for nobody, and many share the cost of a pass.

    Args:
        score: From inputs (n, ...) to scores (n, K); called by as many threads as there are workers.
        most: How many inputs the network takes at once.
        workers: How many passes may run at once, each on its share of the cores. Two passes on a core each take less
            time than one of both on two cores, which would wait for each other after every layer.

    Example:
        >>> batcher = Batcher(lambda inputs: inputs.sum(1, keepdim=True))
        >>> batcher.submit(torch.tensor([1.0, 2.0])).result()
        tensor([3.])
        >>> batcher.close()
    """

    def __init__(self, score: Callable[[Tensor], Tensor], *, most: int = 32, workers: int = 1) -> None:
        self._score, self._most = score, most
        self._waiting: queue.SimpleQueue[Waiting | None] = queue.SimpleQueue()
        self._lock, self._closed = threading.Lock(), False
        self._begun, cores = threading.Barrier(workers + 1), torch.get_num_threads()
        self._threads = [
            threading.Thread(target=self._work, args=(max(1, cores // workers),), name="manyhot-batcher", daemon=True)
            for _ in range(workers)
        ]
        for thread in self._threads:
            thread.start()
        self._begun.wait()
        # What a worker has set holds for itself, but also for all threads that come after it.
        torch.set_num_threads(cores)

    def submit(self, inputs: Tensor) -> Future[Tensor]:
        """The scores (K,) of one input, once they are there.

        Raises:
            RuntimeError: The batcher has been closed.
        """
        future: Future[Tensor] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the server is shutting down")
            self._waiting.put((inputs, future))
        return future

    def close(self) -> None:
        """Answers what waits, and ends."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in self._threads:
                    self._waiting.put(None)
        for thread in self._threads:
            thread.join()

    def _work(self, cores: int) -> None:
        torch.get_num_threads()  # a thread that has never asked would take the number of all others at its first pass
        torch.set_num_threads(cores)
        self._begun.wait()
        while True:
            first = self._waiting.get()
            if first is None:
                return
            batch, last = self._gather(first)
            self._answer([one for one in batch if one[1].set_running_or_notify_cancel()])
            if last:
                return

    def _gather(self, first: Waiting) -> tuple[list[Waiting], bool]:
        """What waits, as far as it is not left to the other workers, and whether nothing comes after it."""
        batch = [first]
        share = min(self._most, 1 + self._waiting.qsize() // len(self._threads))
        while len(batch) < share:
            try:
                more = self._waiting.get_nowait()
            except queue.Empty:
                break
            if more is None:
                return batch, True
            batch.append(more)
        return batch, False

    def _answer(self, batch: list[Waiting]) -> None:
        if not batch:
            return
        try:
            scores = self._score(torch.stack([inputs for inputs, _ in batch]))
        except Exception as error:  # whoever asked is told; the thread must go on for the others
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), row in zip(batch, scores, strict=True):
            future.set_result(row)
