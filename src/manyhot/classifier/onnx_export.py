"""A classifier as one ONNX file, from images to labels, compared with the classifier before it is written."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from manyhot.checks import Array, check_int
from manyhot.decide.rule import rule_values
from manyhot.errors import InputError, first_line, require
from manyhot.files import atomic_write
from manyhot.network import score_batch

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier


class AnswerGraph(nn.Module):
    """A classifier as one module: from images or features to scores, probabilities and decisions."""

    def __init__(self, classifier: Classifier) -> None:
        super().__init__()
        # A copy on the CPU, without gradients: those of parameters would become a part of the graph.
        self.network = copy.deepcopy(classifier.network).cpu().requires_grad_(False)
        self.link = classifier.link if classifier.link.gives_probs else None
        self.calibrator, self.rule = classifier.calibrator, classifier.rule
        self.preprocessing = classifier.preprocessing

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """Scores (N, K), probabilities (N, K), decisions (N, K) and abstention (N,) as bool; those that there are.

        Of images (N, H, W, 3) also the pixels that the network sees, (N, 3, height, width).
        """
        answers = {}
        if self.preprocessing is not None:
            inputs = answers["pixels"] = self.preprocessing.prepare_tensor(inputs.permute(0, 3, 1, 2))
        scores = answers["scores"] = self.network.scores(inputs).float()
        if self.calibrator is not None:
            answers["probs"] = self.calibrator(scores)
        elif self.link is not None:
            answers["probs"] = self.link.probs(scores.double()).float()
        if self.rule is not None:
            decision = self.rule(rule_values(answers["probs"], scores, self.link) if "probs" in answers else scores)
            answers |= {"decisions": decision.labels, "abstain": decision.abstain}
        return answers


# (N, H, W): smaller and larger than any network sees, upright and lying, one and several.
CHECK_IMAGE_SHAPES = ((1, 61, 47), (3, 260, 390), (1, 517, 283))
CHECK_ROWS = (1, 3, 64)
# Each output is compared given the one before it as the file computed it. Pixels may be off by two levels of grey, and
# few by any, since ties are rounded otherwise; scores by so much of the largest one; decisions must be the same.
PIXEL_TOLERANCE, PIXEL_SHARE_TOLERANCE, SCORE_TOLERANCE, PROB_TOLERANCE = 2, 0.05, 1e-3, 1e-5


def check_model(classifier: Classifier, model: Any) -> None:
    """Runs a model on random samples; raises an error where it differs from the classifier."""
    try:
        runtime = require("onnxruntime", "Checks of exports", extra="onnx")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(f"{error}, or leave the check out.", name=error.name) from None
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    samples = list(_random_samples(classifier))
    try:
        session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        results = [session.run(None, {session.get_inputs()[0].name: inputs}) for inputs, _ in samples]
    except Exception as error:  # its errors have no class of their own that they share
        hint = "Nothing was written. Export another `opset`, or update onnxruntime."
        raise InputError("network", "", "be one that ONNX Runtime takes", first_line(error), hint) from error
    names = [output.name for output in session.get_outputs()]
    for (_, inputs), values in zip(samples, results, strict=True):
        compare(classifier, inputs, dict(zip(names, values, strict=True)))


def compare(classifier: Classifier, inputs: Tensor, outputs: dict[str, Array]) -> None:
    """Compares each output with what the classifier computes from the output before it.

    Args:
        classifier: What the file was made of.
        inputs: What the network takes.
        outputs: The outputs of the file.
    """
    if "pixels" in outputs:
        difference = (torch.from_numpy(outputs["pixels"]).int() - inputs.int()).abs()
        _check_difference("images", difference.max(), PIXEL_TOLERANCE)
        _check_difference("images", (difference > 0).float().mean(), PIXEL_SHARE_TOLERANCE)
        inputs = torch.from_numpy(outputs["pixels"])
    expected = score_batch(classifier.network, inputs)
    values = torch.from_numpy(outputs["scores"])
    _check_difference("scores", (values - expected).abs().max(), SCORE_TOLERANCE * (1 + float(expected.abs().max())))
    probs = torch.from_numpy(outputs["probs"]) if classifier.gives_probs else None
    if probs is not None:
        difference = (probs - classifier.decide(values).probabilities()).abs()
        _check_difference("probs", difference.max(), PROB_TOLERANCE)
    if classifier.rule is not None:
        decision = classifier.rule(values if probs is None else rule_values(probs, values, classifier.link))
        for name, expected_decision in (("decisions", decision.labels), ("abstain", decision.abstain)):
            _check_difference(name, (torch.from_numpy(outputs[name]) != expected_decision).float().max(), 0.0)


def _random_samples(classifier: Classifier) -> Iterator[tuple[Array, Tensor]]:
    """Random samples as the file takes them, and as the network takes them."""
    draw = np.random.default_rng(0)
    if classifier.preprocessing is None:
        for count in CHECK_ROWS:
            features = draw.standard_normal((count, classifier.in_features)).astype(np.float32)
            yield features, torch.from_numpy(features)
        return
    from PIL import Image

    for shape in CHECK_IMAGE_SHAPES:
        images = draw.integers(0, 256, (*shape, 3), dtype=np.uint8)
        yield images, torch.stack([classifier.preprocessing.prepare(Image.fromarray(image)) for image in images])


def _check_difference(name: str, error: Tensor, allowed: float) -> None:
    if not bool(error <= allowed):
        rule = f"agree with the classifier to within {allowed:.2g}"
        hint = "Nothing was written. Update torch, onnxscript and onnxruntime, or look at it with {check=False}."
        raise InputError(name, "", rule, f"a difference of {float(error):.2g}", hint)


MAX_FILE_BYTES = 2**31 - 2**20  # what a file of this format can hold


def export_onnx(classifier: Classifier, path: Path, *, opset: int, check: bool, label_names: bool) -> None:
    """Writes the file; with `check`, after it has been compared with the classifier."""
    for package in ("onnx", "onnxscript"):
        require(package, "Exports", extra="onnx")
    check_int("opset", "", opset, low=18)
    if path.is_dir():
        raise InputError("path", "", "be a file", f"{str(path)!r}, a folder", "Name a file in it, as 'model.onnx'.")
    model = build_model(classifier, opset=opset, label_names=label_names)
    size = model.ByteSize()
    if size > MAX_FILE_BYTES:
        hint = "Choose a smaller backbone."
        raise InputError("network", "", "fit in one file of 2 GB", f"{size / 2**30:.1f} GB", hint)
    if check:
        check_model(classifier, model)
    if classifier.preprocessing is not None:
        del model.graph.output[0]  # the pixels, which are there for the check alone
    with atomic_write(path) as part:
        part.write_bytes(model.SerializeToString())


def build_model(classifier: Classifier, *, opset: int, label_names: bool) -> Any:
    """The whole graph, with the names and everything else that a reader of the file may want to know."""
    from onnx import checker

    model = trace(classifier, opset)
    remove_exporter_notes(model)
    for output in model.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "N"
    if label_names:
        add_label_names(model, classifier.labels.names)
    model.producer_name, model.graph.name = "manyhot", "classifier"
    content = classifier.describe()
    model.metadata_props.add(key="manyhot", value=content["manyhot"])
    for key in ("labels", "preprocessing", "link", "calibrator", "rule", "backbone"):
        model.metadata_props.add(key=key, value=json.dumps(content[key], allow_nan=False, ensure_ascii=False))
    checker.check_model(model)
    return model


def trace(classifier: Classifier, opset: int) -> Any:
    """The graph as torch computes it."""
    graph = AnswerGraph(classifier).eval()
    # Two samples: from one, the exporter would infer a fixed batch size of 1.
    name, example, axes = "features", torch.zeros(2, classifier.in_features), ["N"]
    if classifier.preprocessing is not None:
        name, example, axes = "images", torch.zeros(2, 50, 61, 3, dtype=torch.uint8), ["N", "H", "W"]
    with exporter_silenced():
        try:
            program = torch.onnx.export(
                graph,
                (example,),
                dynamo=True,
                verbose=False,
                opset_version=opset,
                input_names=[name],
                output_names=list(graph(example)),
                dynamic_shapes=(dict(enumerate(axes)),),
                external_data=False,
            )
        except (torch.onnx.OnnxExporterError, NotImplementedError, RuntimeError, ValueError) as error:
            raise _untraceable_error(classifier, error) from error
    assert program is not None
    return program.model_proto


@contextmanager
def exporter_silenced() -> Iterator[None]:
    """Hides the diagnostics of the exporter; errors in the result are found by the check."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logger.setLevel(level)


def remove_exporter_notes(model: Any) -> None:
    """Takes out notes of the exporter, which name files of this machine."""
    graph = model.graph
    bodies = [part for body in (graph, *model.functions) for part in (body, *body.node, *body.value_info)]
    for part in (model, *graph.input, *graph.output, *graph.initializer, *bodies):
        part.ClearField("metadata_props")
        part.ClearField("doc_string")


def add_label_names(model: Any, names: list[str]) -> None:
    """Gives the names of the labels as an output, for programs that cannot read the metadata of a file."""
    from onnx import TensorProto, helper

    model.graph.node.append(helper.make_node("Constant", [], ["labels"], name="labels", value_strings=names))
    model.graph.output.append(helper.make_tensor_value_info("labels", TensorProto.STRING, [len(names)]))


def _untraceable_error(classifier: Classifier, error: Exception) -> InputError:
    """The error that names the part of the classifier that cannot be exported, as far as it is known."""
    got = first_line(error.__cause__ or error)[:200]
    name, hint = "network", "Check that the network takes batches of any size and reads no values."
    for own in ("rule", "calibrator", "link"):
        part = getattr(classifier, own)
        if part is not None and not type(part).__module__.startswith("manyhot."):
            name, got = own, f"{type(part).__name__} ({got})"
            hint = f"Write its computation without reading values, or export a classifier with `{name}=None`."
            break
    return InputError(name, "", "be one that ONNX can express", got, hint)
