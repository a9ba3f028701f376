"""A classifier as one ONNX file: pictures in, labels out."""

from __future__ import annotations

import copy
import json
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from manyhot.checks import check_count
from manyhot.classifier.bundle import describe_classifier
from manyhot.classifier.graph import AnswerGraph
from manyhot.classifier.onnx_images import images_model
from manyhot.files import whole_file
from manyhot.links import NoLink
from manyhot.refusal import refusal

if TYPE_CHECKING:
    from manyhot.classifier.classifier import Classifier

OWNER = "Classifier.export"
LARGEST = 2**31 - 2**20  # what a file of this format can hold


def export_onnx(classifier: Classifier, path: Path, *, opset: int, check: bool, label_names: bool) -> None:
    """Writes the file, after it has been tried if `check` says so."""
    import_onnx()
    check_count("opset", OWNER, opset, low=18)
    if path.is_dir():
        raise refusal("path", OWNER, "be a file", f"{str(path)!r}, a folder", "Name a file in it, as 'model.onnx'.")
    model = build_model(classifier, opset=opset, label_names=label_names)
    size = model.ByteSize()
    if size > LARGEST:
        remedy = "Choose a smaller backbone."
        raise refusal("network", OWNER, "fit in one file of 2 GB", f"{size / 2**30:.1f} GB", remedy)
    if check:
        from manyhot.classifier.onnx_check import check_model

        check_model(classifier, model)
    with whole_file(path) as part:
        part.write_bytes(model.SerializeToString())


def import_onnx() -> None:
    """Sees to it that the packages are there, or says how to get them."""
    try:
        import onnx
        import onnxscript  # noqa: F401
    except ImportError:
        raise ImportError("Export needs onnx and onnxscript. Install them with: pip install 'manyhot[onnx]'") from None
    assert onnx


def build_model(classifier: Classifier, *, opset: int, label_names: bool) -> Any:
    """The whole graph, with the names and everything else that a reader of the file may want to know."""
    from onnx import checker, compose

    model = trace(classifier, opset)
    clean(model)
    if classifier.preprocessing is not None:
        front = images_model(classifier.preprocessing, opset=opset, ir_version=model.ir_version)
        front = compose.add_prefix(front, "prepare_", rename_inputs=False, rename_outputs=False)
        model = compose.merge_models(front, model, io_map=[("pixels", "pixels")])
    for output in model.graph.output:
        output.type.tensor_type.shape.dim[0].dim_param = "N"
    if label_names:
        add_names(model, classifier.labels.names)
    model.producer_name, model.graph.name = "manyhot", "classifier"
    for key, value in metadata(classifier).items():
        model.metadata_props.add(key=key, value=value)
    checker.check_model(model)
    return model


def trace(classifier: Classifier, opset: int) -> Any:
    """The part of the graph that torch computes: from pixels or features on."""
    # A copy on the CPU, without gradients: those of parameters would become a part of the graph.
    network = copy.deepcopy(classifier.network).cpu().requires_grad_(False)
    link = None if isinstance(classifier.link, NoLink) else classifier.link
    graph = AnswerGraph(network, link, classifier.calibrator, classifier.rule).eval()
    name = "features" if network.backbone is None else "pixels"
    with quiet():
        try:
            program = torch.onnx.export(
                graph,
                (example(classifier),),
                dynamo=True,
                verbose=False,
                opset_version=opset,
                input_names=[name],
                output_names=graph.outputs,
                dynamic_shapes=({0: "N"},),
                external_data=False,
            )
        except (torch.onnx.OnnxExporterError, NotImplementedError, RuntimeError, ValueError) as error:
            raise _untraceable(classifier, error) from error
    assert program is not None
    return program.model_proto


def example(classifier: Classifier) -> Tensor:
    """Two samples of the shape that the network takes; of one, the exporter would believe that there is always one."""
    if classifier.preprocessing is None:
        return torch.zeros(2, classifier.in_features)
    return torch.zeros(2, 3, *classifier.preprocessing.size, dtype=torch.uint8)


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps what the exporter tells its makers from the user; what is wrong with the result, the check finds."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def clean(model: Any) -> None:
    """Takes out notes of the exporter, which name files of this machine."""
    model.ClearField("metadata_props")
    model.ClearField("doc_string")
    for graph in (model.graph, *model.functions):
        graph.ClearField("metadata_props")
        graph.ClearField("doc_string")
        parts = [*graph.node, *graph.value_info]
        if graph is model.graph:
            parts += [*graph.input, *graph.output, *graph.initializer]
        for part in parts:
            part.ClearField("doc_string")
            part.ClearField("metadata_props")


def add_names(model: Any, names: list[str]) -> None:
    """Gives the names of the labels as an output, for programs that cannot read the metadata of a file."""
    from onnx import TensorProto, helper

    texts: Any = [name.encode() for name in names]
    model.graph.initializer.append(helper.make_tensor("label_names", TensorProto.STRING, [len(names)], texts))
    model.graph.node.append(helper.make_node("Identity", ["label_names"], ["labels"], name="labels"))
    model.graph.output.append(helper.make_tensor_value_info("labels", TensorProto.STRING, [len(names)]))


def metadata(classifier: Classifier) -> dict[str, str]:
    """Texts by name: `labels` as a JSON list, and so on as in classifier.json."""
    content = describe_classifier(classifier)
    version = str(content.pop("manyhot"))
    kept = ("labels", "preprocessing", "link", "calibrator", "rule", "backbone")
    texts = {name: json.dumps(content[name], allow_nan=False, ensure_ascii=False) for name in kept}
    return {"manyhot": version, **texts}


def _untraceable(classifier: Classifier, error: Exception) -> Exception:
    """Which part of the classifier cannot be written as a graph, as far as that can be told."""
    own = [
        (name, part)
        for name, part in (("rule", classifier.rule), ("calibrator", classifier.calibrator), ("link", classifier.link))
        if part is not None and not type(part).__module__.startswith("manyhot.")
    ]
    said = str(error.__cause__ or error).strip().splitlines()
    reason = said[0][:200].rstrip(".") if said else type(error).__name__
    if own:
        name, part = own[0]
        remedy = f"Write its computation without reading values, or export a classifier with `{name}=None`."
        return refusal(name, OWNER, "be one that ONNX can express", f"{type(part).__name__} ({reason})", remedy)
    remedy = "Check that the network takes batches of any size and reads no values."
    return refusal("network", OWNER, "be one that ONNX can express", reason, remedy)
