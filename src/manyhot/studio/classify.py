"""Classifies uploaded images in micro-batches."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyhot.decide import Threshold
from manyhot.decide.rule import rule_values
from manyhot.images import ImageLimits, decode, open_header
from manyhot.network import score_batch
from manyhot.studio.decisions import DecisionChoice, DecisionExplorer
from manyhot.studio.items import MAX_SHOWN_ALONE, shown_labels, summarize_labels
from manyhot.studio.schemas import Classification, ModelInfo

if TYPE_CHECKING:
    from manyhot.classifier import Classifier

Pending = tuple[Tensor, "Future[Tensor]"]


class MicroBatcher:
    """Collects single inputs into batches for the network.

    While the network is busy, requests are queued; when it is free, it takes all that wait, up to a limit. A single
    request never waits for others, and many share the cost of a pass.

    Args:
        score: From inputs (n, ...) to scores (n, K); called by as many threads as there are workers.
        most: How many inputs the network takes at once.
        workers: How many passes may run at once, each on its share of the cores. Two passes on a core each take less
            time than one of both on two cores, which would wait for each other after every layer.

    Example:
        >>> batcher = MicroBatcher(lambda inputs: inputs.sum(1, keepdim=True))
        >>> batcher.submit(torch.tensor([1.0, 2.0])).result()
        tensor([3.])
        >>> batcher.close()
    """

    def __init__(self, score: Callable[[Tensor], Tensor], *, most: int = 32, workers: int = 1) -> None:
        self._score, self._most = score, most
        self._waiting: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
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

    def _gather(self, first: Pending) -> tuple[list[Pending], bool]:
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

    def _answer(self, batch: list[Pending]) -> None:
        if not batch:
            return
        try:
            scores = self._score(torch.stack([inputs for inputs, _ in batch]))
        except Exception as error:  # passed on to the callers; the thread must go on for later requests
            for _, future in batch:
                future.set_exception(error)
            return
        for (_, future), row in zip(batch, scores, strict=True):
            future.set_result(row)


UPLOAD_BYTES = 32 * 2**20
# Images of more pixels are decoded one after the other: the largest takes some 800 megabytes.
LARGE_PIXELS = 2**23
# Images in progress at once; further requests get status 429.
MAX_WAITING = 128
# Concurrent passes through the network on a CPU, and images per core in each: larger batches leave the cache, which
# takes a sixth more time, and the first image would wait for the last.
MAX_PASSES, IMAGES_PER_CORE = 4, 2
# Labels that are shown besides the predicted ones.
UPLOAD_MOST_PROBABLE = 12


class TooManyUploads(Exception):
    """Raised when too many images are in progress."""


class UploadClassifier:
    """Classifies uploaded images.

    Args:
        classifier: With a backbone, and with probabilities.
        explorer: Makes the decisions if the caller chooses a decision method.
        most_waiting: At most this many images may be in progress at once.
    """

    def __init__(self, classifier: Classifier, explorer: DecisionExplorer, *, most_waiting: int = MAX_WAITING) -> None:
        assert classifier.preprocessing is not None
        self.classifier, self.explorer, self.most_waiting = classifier, explorer, most_waiting
        self._preprocessing = classifier.preprocessing
        classifier.network.eval()
        on_cpu = next(classifier.network.parameters()).device.type == "cpu"
        passes = min(MAX_PASSES, torch.get_num_threads())
        on_processor = {"most": IMAGES_PER_CORE * (torch.get_num_threads() // passes), "workers": passes}
        self._batcher = MicroBatcher(self._probs_and_scores, **(on_processor if on_cpu else {}))
        # Decoding an image takes memory, so at most one at a time per core.
        self._decoders = ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1)), thread_name_prefix="manyhot-decoder")
        self._large_decoder = ThreadPoolExecutor(1, thread_name_prefix="manyhot-large-decoder")
        self._under_way = 0

    def facts(self) -> ModelInfo:
        """The model, and the limits of uploads."""
        pixels = ImageLimits.UPLOAD.max_pixels
        return ModelInfo(words=repr(self.classifier), upload_bytes=UPLOAD_BYTES, upload_pixels=pixels)

    async def classify(self, data: bytes, name: str, choice: DecisionChoice) -> Classification:
        """Classifies one image.

        Args:
            data: The bytes of its file.
            name: Its file name.
            choice: The decision method; the rule of the classifier by default.

        Raises:
            UnreadableImage: The bytes are no image, or one that is too large.
            TooManyUploads: Too many others are in progress.
        """
        start = time.perf_counter()
        if self._under_way >= self.most_waiting:
            raise TooManyUploads
        self._under_way += 1
        try:
            loop = asyncio.get_running_loop()
            large = await loop.run_in_executor(self._decoders, self._is_large, data, name)
            pool = self._large_decoder if large else self._decoders
            pixels = await loop.run_in_executor(pool, self._prepare, data, name)
            probs, scores = await asyncio.wrap_future(self._batcher.submit(pixels))
        finally:
            self._under_way -= 1
        return self._answer(probs.unsqueeze(0), scores.unsqueeze(0), name, choice, start)

    def close(self) -> None:
        """Finishes the images in progress, and stops."""
        self._decoders.shutdown()
        self._large_decoder.shutdown()
        self._batcher.close()

    def _is_large(self, data: bytes, name: str) -> bool:
        """Whether the decoded image is large; most JPEG files are not, since they are decoded at a smaller size."""
        side = 2 * max(self._preprocessing.size)
        header = open_header(data, name=name, limits=ImageLimits.UPLOAD)
        header.draft(None, (side, side))
        return bool(header.width * header.height > LARGE_PIXELS)

    def _prepare(self, data: bytes, name: str) -> Tensor:
        side = max(self._preprocessing.size)
        return self._preprocessing.prepare(decode(data, name=name, limits=ImageLimits.UPLOAD, min_side=side))

    def _probs_and_scores(self, pixels: Tensor) -> Tensor:
        """(N, 2, K)."""
        table = self.classifier.decide(score_batch(self.classifier.network, pixels))
        assert table.scores is not None
        return torch.stack([table.probabilities(), table.scores], 1)

    def _answer(self, probs: Tensor, scores: Tensor, name: str, choice: DecisionChoice, start: float) -> Classification:
        names = self.classifier.labels.names
        values = rule_values(probs, scores, self.classifier.link)
        if choice.by not in (None, "rule"):
            decision = self.explorer.rule(self.explorer.settled(choice))(values)
        elif self.classifier.rule is not None:
            decision = self.classifier.rule(values)
        else:
            decision = Threshold(0.5)(probs)
        labels = shown_labels(names, probs[0], decision.labels[0], probable=UPLOAD_MOST_PROBABLE, most=MAX_SHOWN_ALONE)
        summary = summarize_labels(labels, decision.labels[0], names, abstain=bool(decision.abstain[0]))
        return Classification(name=name, seconds=time.perf_counter() - start, **summary)
