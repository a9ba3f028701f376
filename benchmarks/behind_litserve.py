"""A classifier behind LitServe, as one would write it: the peer of `manyhot studio` in benchmarks/studio.py.

python benchmarks/behind_litserve.py RUN PORT [--batch 32] [--wait 0.005] [--workers 1]
"""

import argparse
from typing import Any

import litserve as ls
import torch
from torch import Tensor

from manyhot.classifier import Classifier
from manyhot.images import decode
from manyhot.studio.classify import UPLOAD_MOST_PROBABLE
from manyhot.studio.items import MAX_SHOWN_ALONE, shown_labels, summarize_labels

# Probabilities, decisions and whether the rule abstains, of one image.
Output = tuple[Tensor, Tensor, bool]


def required(part: Tensor | None) -> Tensor:
    assert part is not None
    return part


class ImageAPI(ls.LitAPI):
    """Images uploaded as files of a form; answers like those of the studio."""

    def __init__(self, run: str, workers: int, **options: Any) -> None:
        super().__init__(**options)
        self.run, self.workers = run, workers

    def setup(self, device: str) -> None:
        self.classifier = Classifier.load(self.run, device=device)
        self.preprocessing = self.classifier.preprocessing
        torch.set_num_threads(max(1, torch.get_num_threads() // self.workers))

    def decode_request(self, request: Any) -> Tensor:
        assert self.preprocessing is not None
        data = request["image"].file.read()
        return self.preprocessing.prepare(decode(data, name="the image", min_side=max(self.preprocessing.size)))

    def predict(self, pixels: Tensor) -> Output | list[Output]:
        alone = pixels.ndim == 3
        with torch.no_grad():
            table = self.classifier.decide(self.classifier.network.scores(pixels[None] if alone else pixels))
        probs, decisions, abstain = (required(part) for part in (table.probs, table.decisions, table.abstain))
        results: list[Output] = list(zip(probs, decisions, abstain.tolist(), strict=True))
        return results[0] if alone else results

    def encode_response(self, output: Output) -> dict[str, Any]:
        probs, predicted, abstain = output
        names = self.classifier.labels.names
        labels = shown_labels(names, probs, predicted, probable=UPLOAD_MOST_PROBABLE, most=MAX_SHOWN_ALONE)
        answer = summarize_labels(labels, predicted, names, abstain=abstain)
        return {**answer, "labels": [label.model_dump() for label in labels]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a classifier")
    parser.add_argument("port", type=int)
    parser.add_argument("--batch", type=int, default=32, help="most images that are scored together (default: 32)")
    parser.add_argument("--wait", type=float, default=0.005, help="seconds to wait for more (default: 0.005)")
    parser.add_argument("--workers", type=int, default=1, help="processes with a model (default: 1)")
    options = parser.parse_args()
    api = ImageAPI(options.run, options.workers, max_batch_size=options.batch, batch_timeout=options.wait)
    server = ls.LitServer(api, accelerator="cpu", devices=1, workers_per_device=options.workers)
    server.run(host="127.0.0.1", port=options.port, num_api_servers=1, log_level="warning", generate_client_file=False)


if __name__ == "__main__":
    main()
