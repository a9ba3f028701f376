"""The classifier: from samples to labels, with probabilities that mean what they say."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyhot.backbones.backbone import Backbone
from manyhot.backbones.preprocessing import Preprocessing
from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import check_count, kind_of
from manyhot.classifier.answers import Answer, answers_of
from manyhot.classifier.samples import as_features, as_images
from manyhot.classifier.scoring import predict_parts
from manyhot.data import Dataset
from manyhot.decide.rule import Rule, rule_values
from manyhot.labels import Labels
from manyhot.links import Link, NoLink
from manyhot.network import Network
from manyhot.predictions import Predictions
from manyhot.predictions.memory import concatenate
from manyhot.refusal import refusal
from manyhot.state import ExactState, Fitted

OWNER = "Classifier"


class Classifier:
    """A network, the names of its labels, and what turns its scores into probabilities and decisions.

    Args:
        network: From samples to scores.
        labels: K names, or `Labels`.
        link: What the scores mean: `loss.link` of the loss that the network was trained with.
        calibrator: What gives the probabilities instead of the link, fitted on held-out data.
        rule: What gives the decisions, on probabilities; on scores if there is neither a calibrator nor a link that
            gives probabilities.
        preprocessing: What a picture goes through first; that of the backbone by default.

    Example:
        >>> head = mh.LinearHead(2, 3, bias="none")
        >>> head.weight.data = torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]])
        >>> network = Network(None, head)
        >>> classifier = Classifier(network, ["cat", "dog", "bird"], link=mh.SigmoidLink(), rule=mh.Threshold(0.5))
        >>> classifier.predict([[2.0, -1.0], [-3.0, -3.0]]).decisions
        tensor([[ True, False, False],
                [False, False,  True]])
        >>> classifier.answers([[2.0, -1.5]], top=1)
        [Answer('0': cat 88 %; not bird 38 %)]
    """

    def __init__(
        self,
        network: Network,
        labels: Sequence[str] | Labels,
        *,
        link: Link,
        calibrator: Calibrator | None = None,
        rule: Rule | None = None,
        preprocessing: Preprocessing | None = None,
    ) -> None:
        given: object = network
        if not isinstance(given, Network):
            raise refusal("network", OWNER, "be a Network", kind_of(given), "Pass `Network(backbone, head)`.")
        self.network = given
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        for name, part, kind in (("link", link, Link), ("calibrator", calibrator, Calibrator), ("rule", rule, Rule)):
            if not isinstance(part, kind) and (name == "link" or part is not None):
                remedy = "Pass `loss.link`." if name == "link" else "Leave it out, or pass an instance."
                raise refusal(name, OWNER, f"be a {name}", kind_of(part), remedy)
        self.link, self.calibrator, self.rule = link, calibrator, rule
        self.preprocessing = preprocessing or getattr(network.backbone, "preprocessing", None)
        self._check()

    @property
    def in_features(self) -> int:
        """The number D of features that the head takes."""
        return int(_head_of(self.network).in_features)

    @property
    def gives_probs(self) -> bool:
        """Whether there are probabilities: a calibrator, or a link of a loss that adds over labels."""
        return self.calibrator is not None or not isinstance(self.link, NoLink)

    def predict(
        self,
        samples: Any,
        *,
        batch_size: int = 64,
        workers: int | None = None,
        on_bad_image: str = "skip",
        device: str | torch.device | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Predictions:
        """Scores, probabilities and decisions of samples, in their order.

        Args:
            samples: One or several paths (images, folders, patterns such as "photos/*.jpg", tars, or a table with a
                column of paths), pictures of Pillow, arrays (H, W, C) or tensors (3, H, W) of uint8, a data set, or
                features (N, D) where the network has no backbone.
            batch_size: How many samples the network sees at once.
            workers: Processes that read images; as many as there are cores by default, none for a few images.
            on_bad_image: "skip" leaves out what cannot be read and names it in `unreadable` and `notes` of the result;
                "fail" refuses.
            device: Where to compute, such as "cuda"; the network moves there. Where it is by default.
            advance: Called with how many samples have been dealt with since the last call.
        """
        parts = list(
            self.predict_parts(
                samples,
                rows=2**62,
                batch_size=batch_size,
                workers=workers,
                on_bad_image=on_bad_image,
                device=device,
                advance=advance,
            )
        )
        table = concatenate(parts)
        table.unreadable = {name: reason for part in parts for name, reason in part.unreadable.items()}
        table.notes = [note for part in parts for note in part.notes]
        table.notes += [f"Left out {name}: {reason}." for name, reason in table.unreadable.items()]
        return table

    def predict_parts(
        self,
        samples: Any,
        *,
        rows: int = 16384,
        batch_size: int = 64,
        workers: int | None = None,
        on_bad_image: str = "skip",
        device: str | torch.device | None = None,
        advance: Callable[[int], None] | None = None,
    ) -> Iterator[Predictions]:
        """As `predict`, in tables of about `rows` rows each: for more than fits in memory; see `PredictionsWriter`."""
        check_count("batch_size", OWNER, batch_size, low=1)
        check_count("rows", OWNER, rows, low=1)
        return predict_parts(
            self,
            self.dataset(samples),
            rows=rows,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image,
            device=device,
            advance=advance,
        )

    def answers(
        self,
        samples: Any,
        *,
        top: int = 5,
        batch_size: int = 64,
        workers: int | None = None,
        on_bad_image: str = "skip",
        device: str | torch.device | None = None,
    ) -> list[Answer]:
        """What is said about each sample, for people; without a rule, labels of at least 50 % are given.

        Images that cannot be read are left out, so match answers to images by `path`, not by their place.

        Args:
            samples: As for `predict`, as are the others.
            top: How many labels to name with their probability besides those that are given.
            batch_size: How many samples the network sees at once.
            workers: Processes that read images.
            on_bad_image: "skip" or "fail".
            device: Where to compute.
        """
        check_count("top", OWNER, top, low=0)
        table = self.predict(samples, batch_size=batch_size, workers=workers, on_bad_image=on_bad_image, device=device)
        return answers_of(table, top=top)

    def decide(self, scores: Tensor) -> Predictions:
        """The table of scores (N, K) that the network gave: with probabilities and decisions."""
        scores = scores.detach().float().cpu()
        probs = None
        with torch.no_grad():
            if self.calibrator is not None:
                probs = self.calibrator(scores, kind="scores")
            elif self.gives_probs:
                probs = self.link.probs(scores)
        values = scores if probs is None else rule_values(probs, scores, self.link)
        decision = None if self.rule is None else self.rule(values)
        return Predictions(
            scores=scores,
            probs=probs,
            decisions=decision,
            labels=self.labels,
            link=self.link,
            calibrator=self.calibrator,
            rule=self.rule,
        )

    def dataset(self, samples: Any) -> Dataset:
        """Samples of any kind as a data set that the network can be fed with."""
        if self.network.backbone is None:
            return as_features(samples, self.in_features)
        return as_images(samples)

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Writes `model.safetensors` and `classifier.json` into a folder; `load` reads them, and nothing is executed.

        Args:
            folder: Made if it is not there. Files of these names are replaced.
        """
        from manyhot.classifier.bundle import save_bundle

        save_bundle(self, Path(folder))

    @classmethod
    def load(
        cls,
        folder: str | os.PathLike[str],
        *,
        backbone: nn.Module | None = None,
        device: str | torch.device = "cpu",
        kinds: Iterable[type[ExactState]] = (),
    ) -> Classifier:
        """Reads what `save` wrote.

        Args:
            folder: The folder.
            backbone: For a network of your own that `wrap` made a backbone: that network, built anew. Its weights are
                read from the folder.
            device: Where the network is to be.
            kinds: Links, calibrators and rules of your own that the file may name besides those of this package.
        """
        from manyhot.classifier.bundle import load_bundle

        return load_bundle(cls, Path(folder), backbone=backbone, device=device, kinds=kinds)

    def export(
        self, path: str | os.PathLike[str], *, opset: int = 18, check: bool = True, label_names: bool = True
    ) -> None:
        """Writes one ONNX file that takes pictures of any size and gives scores, probabilities and decisions.

        Resizing, normalisation, network, calibration and rule are all inside. Input `images` (N, H, W, 3) uint8, or
        `features` (N, D) float32 without a backbone. Outputs `scores` (N, K), `probs` (N, K), `decisions` (N, K) bool,
        `abstain` (N,) bool, and `labels` (K,), the names; as far as the classifier has them.

        Args:
            path: The file; one that is there is replaced.
            opset: Version of the operators, at least 18.
            check: Run the file with ONNX Runtime on random samples first, and refuse to write one that disagrees.
            label_names: Whether to give the names as an output, which a few runtimes without texts refuse. They are
                in the metadata of the file in any case.
        """
        from manyhot.classifier.onnx_file import export_onnx

        export_onnx(self, Path(path), opset=opset, check=check, label_names=label_names)

    def __repr__(self) -> str:
        """What it is made of, in one line."""
        backbone = self.network.backbone
        name = "features" if backbone is None else getattr(backbone, "name", type(backbone).__name__)
        parts = [name, f"{len(self.labels):,} labels", f"link {type(self.link).__name__}"]
        parts += [] if self.calibrator is None else [f"calibrator {type(self.calibrator).__name__}"]
        parts += [] if self.rule is None else [f"rule {self.rule!r}"]
        return f"Classifier({'; '.join(parts)})"

    def _check(self) -> None:
        head = _head_of(self.network)
        if head.num_labels != len(self.labels):
            rule = f"have as many names as the head has labels, {head.num_labels}"
            raise refusal("labels", OWNER, rule, str(len(self.labels)), "Pass the labels that it was trained on.")
        if self.network.backbone is not None and not isinstance(self.network.backbone, Backbone):
            remedy = "Pass `manyhot.backbones.wrap(module, width)` to `Network`."
            raise refusal("network", OWNER, "have a Backbone or none", kind_of(self.network.backbone), remedy)
        for part in (self.calibrator, self.rule):
            if isinstance(part, Fitted):
                part.require_fitted()
        if self.calibrator is not None:
            self.calibrator.require_kind("scores")
        if self.rule is not None and self.rule.needs_probs and not self.gives_probs:
            rule = "only compare where there are no probabilities"
            remedy = "Pass a fitted calibrator too, or a rule such as `AverageK` that was fitted on scores."
            raise refusal("rule", OWNER, rule, type(self.rule).__name__, remedy)


def _head_of(network: Network) -> Any:
    """The head, which must know its sizes."""
    head = network.head
    if not hasattr(head, "num_labels") or not hasattr(head, "in_features"):
        remedy = "Use `LinearHead`, `CosineHead` or `TwoHeads`."
        raise refusal("network", OWNER, "have a head of manyhot", kind_of(network.head), remedy)
    return head
