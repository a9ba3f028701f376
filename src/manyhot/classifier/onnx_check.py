"""Whether an ONNX file answers as the classifier does, tried before it is written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from manyhot.backbones.backbone import evaluating
from manyhot.decide.rule import Unclipped, rule_values
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier

OWNER = "Classifier.export"
Array = np.ndarray[Any, Any]
# (N, H, W): smaller and larger than any network sees, upright and lying, one and several.
SIZES = ((1, 61, 47), (3, 260, 390), (1, 517, 283))
ROWS = (1, 3, 64)
# Each output is compared given the one before it as the file computed it. Pixels may be off by two levels of grey, and
# few by any, since ties are rounded otherwise; scores by so much of the largest one; decisions must be the same.
LEVELS, SHARE, SCORES, PROBS = 2, 0.05, 1e-3, 1e-5


def check_model(classifier: Classifier, model: Any) -> None:
    """Runs a model on random samples and refuses it where it disagrees with the classifier."""
    runtime = import_runtime()
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    data = _with_pixels(classifier, model)
    for inputs, wanted in _trials(classifier):
        try:
            session = runtime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
            outputs = session.run(None, {session.get_inputs()[0].name: inputs})
        except Exception as error:  # its errors have no class of their own that they share
            said = str(error).strip().splitlines()[0].rstrip(".")
            remedy = "Nothing was written. Export another `opset`, or update onnxruntime."
            raise refusal("network", OWNER, "be one that ONNX Runtime takes", said, remedy) from error
        names = [output.name for output in session.get_outputs()]
        compare(classifier, wanted, dict(zip(names, outputs, strict=True)))


def _with_pixels(classifier: Classifier, model: Any) -> bytes:
    """The model, with the pixels that the network sees as one more output."""
    if classifier.preprocessing is None:
        data: bytes = model.SerializeToString()
        return data
    from onnx import TensorProto, helper

    shape = ["N", 3, *classifier.preprocessing.size]
    model.graph.output.append(helper.make_tensor_value_info("pixels", TensorProto.UINT8, shape))
    data = model.SerializeToString()
    del model.graph.output[-1]
    return data


def import_runtime() -> Any:
    """onnxruntime, or the sentence that says how to get it."""
    try:
        import onnxruntime
    except ImportError:
        raise ImportError(
            "Checking an export needs onnxruntime. Install it with: pip install 'manyhot[onnx]', or pass check=False."
        ) from None
    return onnxruntime


def compare(classifier: Classifier, inputs: Tensor, given: dict[str, Array]) -> None:
    """Holds each output against what the classifier makes of the one before it.

    Args:
        classifier: What the file was made of.
        inputs: What the network takes.
        given: The outputs of the file.
    """
    network = classifier.network
    if "pixels" in given:
        off = (torch.from_numpy(given["pixels"]).int() - inputs.int()).abs()
        _refuse("images", off.max(), LEVELS)
        _refuse("images", (off > 0).float().mean(), SHARE)
        inputs = torch.from_numpy(given["pixels"])
    with evaluating(network), torch.no_grad():
        wanted = network.scores(inputs.to(next(network.parameters()).device)).float().cpu()
    values = torch.from_numpy(given["scores"])
    _refuse("scores", (values - wanted).abs().max(), SCORES * (1 + float(wanted.abs().max())))
    table = classifier.decide(values)
    looked_at: Tensor | Unclipped = values
    if table.probs is not None:
        probs = torch.from_numpy(given["probs"])
        _refuse("probs", (probs - table.probs).abs().max(), PROBS)
        looked_at = rule_values(probs, values, classifier.link)
    if classifier.rule is not None:
        decision = classifier.rule(looked_at)
        for name, own in (("decisions", decision.labels), ("abstain", decision.abstain)):
            _refuse(name, (torch.from_numpy(given[name]) != own).float().max(), 0.0)


def _trials(classifier: Classifier) -> list[tuple[Array, Tensor]]:
    """Random samples as the file takes them, and as the network takes them."""
    draw = np.random.default_rng(0)
    if classifier.preprocessing is None:
        rows = [draw.standard_normal((count, classifier.in_features)).astype(np.float32) for count in ROWS]
        return [(features, torch.from_numpy(features)) for features in rows]
    from PIL import Image

    trials = []
    for shape in SIZES:
        images = draw.integers(0, 256, (*shape, 3), dtype=np.uint8)
        prepared = [classifier.preprocessing.prepare(Image.fromarray(image)) for image in images]
        trials.append((images, torch.stack(prepared)))
    return trials


def _refuse(name: str, error: Tensor, allowed: float) -> None:
    if not bool(error <= allowed):
        rule = f"agree with the classifier to within {allowed:.2g}"
        remedy = "Nothing was written. Update torch, onnxscript and onnxruntime, or look at it with check=False."
        raise refusal(name, OWNER, rule, f"a difference of {float(error):.2g}", remedy)
