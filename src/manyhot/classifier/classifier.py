"""The classifier: from samples to scores, calibrated probabilities, decisions and answers; and its folder on disk.

The weights are saved as safetensors, everything else as JSON. Neither can hold code.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.backbones import Backbone, Preprocessing, rebuild
from manyhot.calibrate.calibrator import Calibrator
from manyhot.checks import check_int, describe_type
from manyhot.data import Dataset, Files, ImageSource, Pixels, SparseTargets, read_images
from manyhot.data.loading import Batches, FeatureBatches, ImageBatches
from manyhot.decide import Rule, Threshold
from manyhot.errors import InputError, first_line, owned
from manyhot.files import atomic_write
from manyhot.formatting import format_prob
from manyhot.heads import CosineHead, LinearHead, MLPHead, TwoHeads
from manyhot.images import Array, import_pillow, to_rgb
from manyhot.labels import Labels
from manyhot.links import Link
from manyhot.network import Network, score_batch
from manyhot.predictions import Predictions
from manyhot.registry import RENAMED
from manyhot.serialization import from_dict, import_safetensors, to_dict


@dataclass(frozen=True)
class Answer:
    """The predicted labels of one sample.

    Attributes:
        path: The path of the sample, or its id.
        labels: The names of the predicted labels, the most probable first.
        probs: The probability of these labels and of the next most probable ones, the highest first.
        abstain: Whether the rule abstained.
        none: Whether none of the labels is predicted.

    Example:
        >>> Answer("cat.jpg", ["cat"], {"cat": 0.93, "dog": 0.21}, abstain=False, none=False)
        Answer('cat.jpg': cat 93.0 %; not dog 21 %)
    """

    path: str
    labels: list[str]
    probs: dict[str, float]
    abstain: bool
    none: bool

    def __repr__(self) -> str:
        """One line: the predicted labels, then the next most probable ones."""
        shown = {name: f"{name} {format_prob(prob)}" for name, prob in self.probs.items()}
        predicted = ", ".join(shown[name] for name in self.labels)
        others = ", ".join(text for name, text in shown.items() if name not in self.labels)
        if self.abstain:
            return f"Answer({self.path!r}: abstained; {', '.join(filter(None, (predicted, others)))})"
        return f"Answer({self.path!r}: {predicted or 'none of these'}{f'; not {others}' if others else ''})"


def build_answers(table: Predictions, *, top: int) -> list[Answer]:
    """An answer for each row of a table.

    Args:
        table: Predictions with probabilities; without decisions, labels of at least 50 % are predicted.
        top: How many further labels to name.
    """
    probs = table.probabilities()
    if table.decisions is None:
        table = table.replace(decisions=Threshold(0.5)(probs))
    assert table.decisions is not None
    assert table.abstain is not None
    order = probs.argsort(dim=1, descending=True, stable=True)
    names, answers = table.labels.names, []
    for row, path in enumerate(table.paths or table.ids):
        predicted, columns, abstain = table.decisions[row], order[row], bool(table.abstain[row])
        shown = columns[predicted[columns] | ((~predicted[columns]).cumsum(0) <= top)].tolist()
        labels = [names[column] for column in shown if predicted[column]]
        shown_probs = {names[column]: float(probs[row, column]) for column in shown}
        answers.append(Answer(path, labels, shown_probs, abstain=abstain, none=not labels and not abstain))
    return answers


PREDICT_OWNER = "Classifier.predict"


def as_images(samples: Any) -> Dataset:
    """A data set of images.

    Args:
        samples: A data set, a path or several (images, folders, patterns, tars, tables), or one or several images: of
            Pillow, arrays (H, W), (H, W, C) or (N, H, W, C), or tensors (3, H, W) or (N, 3, H, W).
    """
    if isinstance(samples, Dataset):
        if samples.images is None:
            hint = "Pass images, or use a classifier of features."
            raise InputError("samples", PREDICT_OWNER, "hold images", "a data set of features", hint)
        return samples
    several = samples if isinstance(samples, list | tuple) else [samples]
    if several and all(isinstance(sample, str | os.PathLike) for sample in several):
        return read_images(samples)
    images = [pixels for sample in several for pixels in as_pixels(sample)]
    array = np.empty(len(images), dtype=object)
    array[:] = images
    return Dataset(Labels([]), None, [str(row) for row in range(len(array))], images=Pixels(array))


def as_features(samples: Any, width: int) -> Dataset:
    """A data set of features (N, D)."""
    if isinstance(samples, Dataset):
        if samples.features is None:
            hint = "Extract features with the backbone that the head was trained on."
            raise InputError("samples", PREDICT_OWNER, "hold features", "a data set of images", hint)
        features = samples.features
    else:
        try:
            features = np.asarray(samples.detach().cpu() if isinstance(samples, Tensor) else samples, dtype=np.float32)
        except (TypeError, ValueError):
            hint = "Pass a matrix of numbers: this classifier has no backbone to read images with."
            raise InputError("samples", PREDICT_OWNER, "be features (N, D)", describe_type(samples), hint) from None
    if features.ndim != 2 or features.shape[1] != width:
        rule = f"be features (N, D) with D = {width}"
        raise InputError("samples", PREDICT_OWNER, rule, str(features.shape), "Pass one row per sample.")
    if isinstance(samples, Dataset):
        return samples
    return Dataset(Labels([]), None, [str(row) for row in range(len(features))], features=features)


def as_pixels(sample: Any) -> list[Array]:
    """The images of one sample as arrays (H, W) or (H, W, C) of uint8."""
    if hasattr(sample, "getexif"):
        upright = import_pillow().ImageOps.exif_transpose(sample)
        return [np.asarray(to_rgb(upright, "of Pillow"))]
    got, rule = describe_type(sample), "be paths, images, a data set, or arrays or tensors of pixels"
    if isinstance(sample, np.ndarray | Tensor):
        got = f"{tuple(sample.shape)} of {str(sample.dtype).removeprefix('torch.')}"
    if isinstance(sample, Tensor):
        rule = "be images (3, H, W) or (N, 3, H, W) of uint8 where they are tensors"
        if sample.dtype == torch.uint8 and sample.ndim in (3, 4) and sample.shape[-3] in (1, 3):
            pixels = sample.cpu().movedim(-3, -1).numpy()
            return list(pixels) if pixels.ndim == 4 else [pixels]
    elif isinstance(sample, np.ndarray):
        rule = "be images (H, W), (H, W, C) or (N, H, W, C) of uint8 where they are arrays"
        if sample.dtype == np.uint8 and sample.ndim in (2, 3, 4):
            several = sample.ndim == 4 or (sample.ndim == 3 and sample.shape[2] > 4)
            return list(sample) if several else [sample]
    hint = "Scale values to 0 to 255 and convert them to uint8, or pass paths."
    raise InputError("samples", PREDICT_OWNER, rule, got, hint)


OWNER, LOAD_OWNER = "Classifier", "Classifier.load"
# Format 1 had fewer options of heads, all at their defaults. 3: heads have other names. Links, calibrators and rules
# carry a format of their own, that of `manyhot.save`.
FORMAT = 3
CLASSIFIER_FILE, WEIGHTS_FILE = "classifier.json", "model.safetensors"
# The heads that a file can name.
HEADS: dict[str, type[nn.Module]] = {kind.__name__: kind for kind in (LinearHead, CosineHead, MLPHead, TwoHeads)}
PARTS = ("link", "calibrator", "rule")


class Classifier:
    """A network, the names of its labels, and what turns its scores into probabilities and decisions.

    Args:
        network: From samples to scores.
        labels: K names, or `Labels`.
        link: What the scores mean: `loss.link` of the loss that the network was trained with.
        calibrator: What gives the probabilities instead of the link, fitted on held-out data.
        rule: What gives the decisions, on probabilities; on scores if there is neither a calibrator nor a link that
            gives probabilities.
        preprocessing: Resizing and normalisation of images; that of the backbone by default.

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
        value: object = network
        if not isinstance(value, Network):
            raise InputError("network", OWNER, "be a Network", describe_type(value), "Pass `Network(backbone, head)`.")
        self.network = value
        self.labels = labels if isinstance(labels, Labels) else Labels(labels)
        for name, part, kind in (("link", link, Link), ("calibrator", calibrator, Calibrator), ("rule", rule, Rule)):
            if not isinstance(part, kind) and (name == "link" or part is not None):
                hint = "Pass `loss.link`." if name == "link" else "Leave it out, or pass an instance."
                raise InputError(name, OWNER, f"be a {name}", describe_type(part), hint)
        self.link, self.calibrator, self.rule = link, calibrator, rule
        self.preprocessing = preprocessing or getattr(network.backbone, "preprocessing", None)
        self._check()

    @property
    def in_features(self) -> int:
        """The number D of features that the head takes."""
        head: Any = self.network.head
        return int(head.in_features)

    @property
    def gives_probs(self) -> bool:
        """Whether there are probabilities: a calibrator, or a link of a loss that adds over labels."""
        return self.calibrator is not None or self.link.gives_probs

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
                column of paths), images of Pillow, arrays (H, W, C) or tensors (3, H, W) of uint8, a data set, or
                features (N, D) where the network has no backbone.
            batch_size: How many samples the network sees at once.
            workers: Processes that read images; as many as there are cores by default, none for a few images.
            on_bad_image: "skip" leaves out what cannot be read and names it in `unreadable` and `notes` of the result;
                "fail" raises an error.
            device: Where to compute, such as "cuda"; the network moves there. Where it is by default.
            advance: Called with how many samples have been dealt with since the last call.
        """
        (table,) = self.predict_parts(
            samples,
            rows=2**62,
            batch_size=batch_size,
            workers=workers,
            on_bad_image=on_bad_image,
            device=device,
            advance=advance,
        )
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
        check_int("batch_size", OWNER, batch_size, low=1)
        check_int("rows", OWNER, rows, low=1)
        if device is not None:
            self.network.to(device)
        dataset = self.dataset(samples)
        every = range(len(dataset))
        groups = [every[start : start + batch_size] for start in range(0, max(len(every), 1), batch_size)]
        data: FeatureBatches | ImageBatches
        if dataset.images is None:
            nothing = SparseTargets(np.zeros(len(dataset) + 1), np.zeros(0), num_labels=0)
            data = FeatureBatches(dataset.features, nothing)
        else:
            assert self.preprocessing is not None
            data = ImageBatches(dataset, self.preprocessing, workers=workers, on_bad_image=on_bad_image)
        return self._tables(dataset, data, groups, rows=rows, advance=advance or (lambda count: None))

    def _tables(
        self, dataset: Dataset, data: Batches, groups: list[range], *, rows: int, advance: Callable[[int], None]
    ) -> Iterator[Predictions]:
        """Tables of about `rows` rows."""
        unreadable: dict[str, str] = getattr(data, "unreadable", {})
        targets, notes = self._targets(dataset)
        none = torch.empty(0, len(self.labels))
        scores, numbers, reported = [none], list[int](), 0
        for group, batch in zip(groups, data.load(groups, epoch=None), strict=True):
            if len(batch.rows):
                scores.append(score_batch(self.network, batch.inputs))
                numbers += batch.rows.tolist()
            advance(len(group))
            if len(numbers) >= rows or group is groups[-1]:
                table = self.decide(torch.cat(scores)).replace(
                    ids=[dataset.ids[row] for row in numbers],
                    paths=None if dataset.images is None else [_path(dataset.images, row) for row in numbers],
                    splits=None if dataset.splits is None else dataset.splits[np.array(numbers, dtype=np.int64)],
                    targets=None if targets is None else targets.dense(numbers),
                )
                table.notes, table.unreadable = notes, dict(islice(unreadable.items(), reported, None))
                yield table
                scores, numbers, notes, reported = [none], [], [], len(unreadable)

    def _targets(self, dataset: Dataset) -> tuple[SparseTargets | None, list[str]]:
        """The true labels of a data set that has them, in the order of the classifier, and its notes."""
        known = set(dataset.labels.names)
        missing = [name for name in self.labels.names if name not in known]
        if missing and dataset.targets is not None:
            return None, [*dataset.notes, f"Left out the true labels, because there are none for {missing[0]!r}."]
        return None if missing else dataset.select_labels(self.labels).targets, list(dataset.notes)

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
        """The predicted labels of each sample, to be printed; without a rule, those of at least 50 %.

        Unreadable images are left out, so match answers to images by `path`, not by position.

        Args:
            samples: As for `predict`, as are the others.
            top: How many further labels to name with their probability.
            batch_size: How many samples the network sees at once.
            workers: Processes that read images.
            on_bad_image: "skip" or "fail".
            device: Where to compute.
        """
        check_int("top", OWNER, top, low=0)
        table = self.predict(samples, batch_size=batch_size, workers=workers, on_bad_image=on_bad_image, device=device)
        return build_answers(table, top=top)

    def decide(self, scores: Tensor) -> Predictions:
        """The table of scores (N, K) that the network gave: with probabilities and decisions."""
        scores = scores.detach().float().cpu()
        table = Predictions(scores=scores, labels=self.labels, link=self.link, calibrator=self.calibrator)
        if self.gives_probs:
            table = table.replace(probs=table.probabilities(), calibrator=self.calibrator)
        if self.rule is not None:
            decision = self.rule(table.rule_values() if self.gives_probs else scores)
            table = table.replace(decisions=decision, rule=self.rule)
        return table

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
        folder = Path(folder)
        # Copies: the format rejects tensors that share memory.
        state = {name: tensor.cpu().contiguous().clone() for name, tensor in self.network.state_dict().items()}
        data = import_safetensors("Saved classifiers").torch.save(state, metadata={"format": "pt"})
        weights = {"file": WEIGHTS_FILE, "sha256": hashlib.sha256(data).hexdigest()}
        content = self.describe() | {"weights": weights}
        with atomic_write(folder / WEIGHTS_FILE) as part:
            part.write_bytes(data)
        with atomic_write(folder / CLASSIFIER_FILE) as part:
            part.write_text(json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n", encoding="utf-8")

    def describe(self) -> dict[str, Any]:
        """Everything but the weights, as values that JSON can hold."""
        from manyhot import __version__

        parts: dict[str, Any] = {name: getattr(self, name) for name in PARTS}
        return {
            "format": FORMAT,
            "manyhot": __version__,
            "labels": self.labels.names,
            "backbone": self.network.backbone.spec if isinstance(self.network.backbone, Backbone) else None,
            "head": describe_head(self.network.head),
            "reading": self.network.reading,
            "preprocessing": None if self.preprocessing is None else self.preprocessing.describe(),
            **{name: None if part is None else to_dict(part) for name, part in parts.items()},
        }

    @classmethod
    def load(
        cls, folder: str | os.PathLike[str], *, backbone: nn.Module | None = None, device: str | torch.device = "cpu"
    ) -> Classifier:
        """Reads what `save` wrote.

        Args:
            folder: The folder.
            backbone: For a network of your own that `wrap` made a backbone: that network, built again. Its weights are
                read from the folder.
            device: Where the network is to be.
        """
        folder = Path(folder)
        content = read_content(folder)
        try:
            head = dict(content["head"])
            kind = str(head.pop("kind"))
            built = HEADS[RENAMED.get(kind, kind) if content["format"] < 3 else kind](**head)
            network = Network(_build_backbone(content["backbone"], backbone), built, reading=content["reading"])
            described = {name: content[name] for name in PARTS}
            parts: dict[str, Any] = {name: None if one is None else from_dict(one) for name, one in described.items()}
            prepared = content["preprocessing"]
            preprocessing = None if prepared is None else Preprocessing.restore(prepared)
            classifier = cls(network, Labels(content["labels"]), preprocessing=preprocessing, **parts)
            digest = str(content["weights"]["sha256"])
        except InputError as error:
            raise InputError(got=f"{folder / CLASSIFIER_FILE} cannot be taken: {error}") from None
        except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError) as error:
            got = f"{str(folder / CLASSIFIER_FILE)!r} ({type(error).__name__}: {first_line(error)})"
            raise _damaged(f"hold a {CLASSIFIER_FILE} as `save` wrote it", got) from error
        _load_weights(network, folder / WEIGHTS_FILE, digest)
        network.to(device).eval()
        return classifier

    @owned("Classifier.export")
    def export(
        self, path: str | os.PathLike[str], *, opset: int = 18, check: bool = True, label_names: bool = True
    ) -> None:
        """Writes one ONNX file that maps images of any size to scores, probabilities and decisions.

        Resizing, normalisation, network, calibration and rule are all inside. Input `images` (N, H, W, 3) uint8, or
        `features` (N, D) float32 without a backbone. Outputs `scores` (N, K), `probs` (N, K), `decisions` (N, K) bool,
        `abstain` (N,) bool, and `labels` (K,), the names; as far as the classifier has them.

        Args:
            path: The file; one that is there is replaced.
            opset: Version of the operators, at least 18.
            check: Whether to compare the model with the classifier on random samples, by ONNX Runtime, before the file
                is written; a difference raises an error.
            label_names: Whether to output the label names, which a few runtimes without strings do not support. They
                are in the metadata of the file in any case.
        """
        from manyhot.classifier.onnx_export import export_onnx

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
        head: Any = self.network.head
        if not hasattr(head, "num_labels") or not hasattr(head, "in_features"):
            hint = "Use `LinearHead`, `CosineHead` or `TwoHeads`."
            raise InputError("network", OWNER, "have a head of manyhot", describe_type(head), hint)
        if head.num_labels != len(self.labels):
            rule = f"have as many names as the head has labels, {head.num_labels}"
            raise InputError("labels", OWNER, rule, str(len(self.labels)), "Pass the labels that it was trained on.")
        if self.network.backbone is not None and not isinstance(self.network.backbone, Backbone):
            hint = "Pass `manyhot.backbones.wrap(module, width)` to `Network`."
            raise InputError("network", OWNER, "have a Backbone or none", describe_type(self.network.backbone), hint)
        if self.calibrator is not None:
            self.calibrator.require_fitted()
            self.calibrator.require_kind("scores")
        if self.rule is not None:
            self.rule.require_fitted()
            if self.rule.needs_probs and not self.gives_probs:
                rule = "only compare where there are no probabilities"
                hint = "Pass a fitted calibrator too, or a rule such as `AverageK` that was fitted on scores."
                raise InputError("rule", OWNER, rule, type(self.rule).__name__, hint)


def _path(images: ImageSource, row: int) -> str:
    return str(images.path(row)) if isinstance(images, Files) else images.name(row)


def describe_head(head: nn.Module) -> dict[str, Any]:
    """Kind and constructor arguments of a head."""
    kind = type(head)
    if HEADS.get(kind.__name__) is not kind:
        hint = "Put layers of your own into the backbone with `manyhot.backbones.wrap`."
        raise InputError("head", "Classifier.save", f"be one of {', '.join(HEADS)}", describe_type(head), hint)
    attributes = {name: "bias_kind" if name == "bias" else name for name in inspect.signature(kind).parameters}
    return {"kind": kind.__name__, **{name: getattr(head, own) for name, own in attributes.items()}}


def _damaged(rule: str, got: str) -> InputError:
    return InputError("folder", LOAD_OWNER, rule, got, "Save the classifier again, or take the folder from a backup.")


def read_content(folder: Path) -> dict[str, Any]:
    """The JSON of a folder as it was written, of a format that is known."""
    path = folder / CLASSIFIER_FILE
    if not path.is_file():
        problem = ", a file" if folder.is_file() else ", where there is nothing"
        problem = f" without a {CLASSIFIER_FILE}" if folder.is_dir() else problem
        hint = "Pass the folder of a run, or one that `Classifier.save` wrote."
        raise InputError("folder", LOAD_OWNER, "be a folder with a classifier", f"{str(folder)!r}{problem}", hint)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise _damaged(f"hold a {CLASSIFIER_FILE} in JSON", f"{str(path)!r} ({error})") from None
    number = content.get("format") if isinstance(content, dict) else None
    if isinstance(number, int) and number > FORMAT:
        got = f"{str(path)!r} of format {number}, written by manyhot {content.get('manyhot')}"
        raise InputError("folder", LOAD_OWNER, f"have format {FORMAT} or older", got, "Update manyhot.")
    if number not in range(1, FORMAT + 1):
        raise _damaged(f"hold a {CLASSIFIER_FILE} of manyhot", f"{str(path)!r}, which is none")
    return dict(content)


def _build_backbone(spec: Mapping[str, Any] | None, module: nn.Module | None) -> Backbone | None:
    """The backbone of a spec; `module` is the network that was wrapped, or a whole backbone."""
    if spec is None:
        if module is not None:
            rule, hint = "be left out for a classifier of features", "Leave it out, and pass features to `predict`."
            raise InputError("backbone", LOAD_OWNER, rule, describe_type(module), hint)
        return None
    if isinstance(module, Backbone):
        return module
    if spec.get("kind") == "wrapped" and module is None:
        hint = "Build that network and pass it as `backbone`; its weights are read from the folder."
        rule = f"be given for a network of your own, {spec.get('name')!r}"
        raise InputError("backbone", LOAD_OWNER, rule, "none", hint)
    return rebuild(spec, module=module)


def _load_weights(network: Network, path: Path, digest: str) -> None:
    """Reads the weights of a file; raises an error if it is not the one of the digest, or of another network."""
    if not path.is_file():
        hint = "Copy it there, or save the classifier again."
        raise InputError("folder", LOAD_OWNER, f"hold {WEIGHTS_FILE}", f"{str(path.parent)!r} without it", hint)
    safetensors, data = import_safetensors("Saved classifiers"), path.read_bytes()
    try:
        state: dict[str, Tensor] = safetensors.torch.load(data)
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        got = f"{str(path)!r} of {len(data):,} bytes ({first_line(error)})"
        raise _damaged("hold whole weights", got) from None
    if hashlib.sha256(data).hexdigest() != digest:
        raise _damaged(f"hold the weights that its {CLASSIFIER_FILE} was written with", f"others in {str(path)!r}")
    declared = network.state_dict()
    for name in (*declared, *state):
        wanted, given = (str(tuple(side[name].shape)) if name in side else "nothing" for side in (declared, state))
        if wanted != given:
            hint = "Pass the network that was saved, or save the classifier again."
            rule, got = f"hold weights of the network's shapes, {wanted}", f"{given} for {name!r} in {str(path)!r}"
            raise InputError("folder", LOAD_OWNER, rule, got, hint)
    # A network in half or double precision comes back as one.
    for name, part in network.named_children():
        own = {t.dtype for key, t in state.items() if key.startswith(f"{name}.") and t.is_floating_point()}
        if len(own) == 1:
            part.to(own.pop())
    network.load_state_dict(state)
