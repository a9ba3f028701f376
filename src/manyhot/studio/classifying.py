"""Pictures that are sent to be classified: checked, decoded, scored together with others, decided."""

from __future__ import annotations

import asyncio
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from manyhot.data.images import decode, open_image
from manyhot.decide import Threshold
from manyhot.decide.rule import rule_values
from manyhot.studio.batching import Batcher
from manyhot.studio.deciding import Choice, Deciding
from manyhot.studio.items import ALL_SHOWN, answer_of, shown_labels
from manyhot.studio.messages import Classified, Model

if TYPE_CHECKING:
    from manyhot.classifier import Classifier

UPLOAD_BYTES = 32 * 2**20
UPLOAD_PIXELS = 50_000_000
# What browsers show, and TIFF. The decoders of rarer formats are slower, stop all other threads, or do not keep limits.
UPLOAD_FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF")
# Pictures of more pixels are decoded one after the other: the largest takes some 800 megabytes.
LARGE_PIXELS = 2**23
# Pictures that may be under way at once; whoever comes after that is asked to try again.
MOST_WAITING = 128
# Passes through the network at once on a processor, and pictures in each for every core that it has: more leave the
# cache, which takes a sixth more time, and the first would wait for the last.
PASSES, PICTURES_A_CORE = 4, 2
# Labels that are shown besides those that are given.
PROBABLE = 12


class TooBusy(Exception):
    """More pictures are under way than are taken."""


class Classifying:
    """Answers for pictures that come as bytes.

    Args:
        classifier: With a backbone, and with probabilities.
        deciding: How labels are decided, where the caller chooses.
        most_waiting: How many pictures may be under way at once.
    """

    def __init__(self, classifier: Classifier, deciding: Deciding, *, most_waiting: int = MOST_WAITING) -> None:
        assert classifier.preprocessing is not None
        self.classifier, self.deciding, self.most_waiting = classifier, deciding, most_waiting
        self._preprocessing = classifier.preprocessing
        classifier.network.eval()
        self._device = next(classifier.network.parameters()).device
        passes = min(PASSES, torch.get_num_threads())
        on_processor = {"most": PICTURES_A_CORE * (torch.get_num_threads() // passes), "workers": passes}
        self._batcher = Batcher(self._probs_and_scores, **(on_processor if self._device.type == "cpu" else {}))
        # Decoding a picture takes memory, so not more at once than there are cores to do it.
        self._decoders = ThreadPoolExecutor(max(1, min(4, os.cpu_count() or 1)), thread_name_prefix="manyhot-decoder")
        self._large_decoder = ThreadPoolExecutor(1, thread_name_prefix="manyhot-large-decoder")
        self._under_way = 0

    def facts(self) -> Model:
        """What it is, and how large pictures may be."""
        return Model(words=repr(self.classifier), upload_bytes=UPLOAD_BYTES, upload_pixels=UPLOAD_PIXELS)

    async def classify(self, data: bytes, name: str, choice: Choice) -> Classified:
        """The answer for one picture.

        Args:
            data: The bytes of its file.
            name: What it is called.
            choice: How labels are decided; by the rule of the classifier by default.

        Raises:
            BadImage: The bytes are no picture, or too large a one.
            TooBusy: Too many others are under way.
        """
        start = time.perf_counter()
        if self._under_way >= self.most_waiting:
            raise TooBusy
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
        """Answers what is under way, and ends."""
        self._decoders.shutdown()
        self._large_decoder.shutdown()
        self._batcher.close()

    def _is_large(self, data: bytes, name: str) -> bool:
        """Whether a picture is large when it is decoded, as a JPEG seldom is: it is decoded at a smaller size."""
        side = 2 * max(self._preprocessing.size)
        header = open_image(data, name=name, max_pixels=UPLOAD_PIXELS, formats=UPLOAD_FORMATS)
        header.draft(None, (side, side))
        return bool(header.width * header.height > LARGE_PIXELS)

    def _prepare(self, data: bytes, name: str) -> Tensor:
        side = max(self._preprocessing.size)
        picture = decode(data, name=name, max_pixels=UPLOAD_PIXELS, at_least=side, formats=UPLOAD_FORMATS)
        return self._preprocessing.prepare(picture)

    def _probs_and_scores(self, pixels: Tensor) -> Tensor:
        """(N, 2, K)."""
        with torch.no_grad():
            scores = self.classifier.network.scores(pixels.to(self._device))
        table = self.classifier.decide(scores)
        assert table.scores is not None
        return torch.stack([table.probabilities(), table.scores], 1)

    def _answer(self, probs: Tensor, scores: Tensor, name: str, choice: Choice, start: float) -> Classified:
        names = self.classifier.labels.names
        values = rule_values(probs, scores, self.classifier.link)
        if choice.by not in (None, "rule"):
            decision = self.deciding.rule(self.deciding.settled(choice))(values)
        elif self.classifier.rule is not None:
            decision = self.classifier.rule(values)
        else:
            decision = Threshold(0.5)(probs)
        labels = shown_labels(names, probs[0], decision.labels[0], probable=PROBABLE, most=ALL_SHOWN)
        said = answer_of(labels, decision.labels[0], names, abstain=bool(decision.abstain[0]))
        return Classified(name=name, seconds=time.perf_counter() - start, **said)
