"""The registry of classes that strings and files can name, and the construction of objects from strings.

This is the only module that turns a string such as `AverageK(3)` into a constructor call. Nothing is evaluated: names
are looked up in the registry, values are literals.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TypeVar

from manyhot.errors import InputError, owned, suggest

Class = TypeVar("Class", bound=type)

# The classes of this package, and the modules that define them, which are imported when a class is first needed.
CLASSES = {
    name: module
    for module, names in {
        "manyhot.losses": """AssumeNegativeLoss AsymmetricLoss AverageKLoss BinaryCrossEntropyLoss ClassWiseLoss EPRLoss
            FocalLoss LabelPairRegulariser MultiLabelSoftmaxLoss NoisedTopKLoss QuasibinaryLoss RMLLoss ROLELoss
            SoftmaxCrossEntropyLoss StrictlyProperAsymmetricLoss SumLoss TwoWayLoss WARPLoss""",
        "manyhot.links": """AsymmetricLink NoLink QuasibinaryLink SigmoidLink SoftmaxLink StrictlyProperAsymmetricLink
            SumLink""",
        "manyhot.heads": "CosineHead LinearHead MLPHead TwoHeads",
        "manyhot.calibrate": """BetaCalibration IsotonicCalibration PlattScaling QuasibinaryConstant SoftmaxTemperature
            TemperatureScaling""",
        "manyhot.decide": """Abstain AverageK ClassThresholds ConformalRiskControl CostThresholds ExpectedFBeta
            LabelThresholds NoneOfThese Threshold TopK UniformThreshold""",
    }.items()
    for name in names.split()
}
# Names in files of earlier versions.
RENAMED = {
    "Affine": "PlattScaling",
    "AskPerson": "Abstain",
    "AsymmetricFocalLoss": "FocalLoss",
    "Beta": "BetaCalibration",
    "CrossEntropyLoss": "SoftmaxCrossEntropyLoss",
    "ExpectedF": "ExpectedFBeta",
    "HiddenHead": "MLPHead",
    "Isotonic": "IsotonicCalibration",
    "RiskControl": "ConformalRiskControl",
    "SoftmaxLoss": "MultiLabelSoftmaxLoss",
    "Temperature": "TemperatureScaling",
}
# Values of `per` in files of earlier versions, as `sharing` has them now.
RENAMED_SHARING = {"all": "all", "label": "none", "shrunk": "partial"}
_registered: dict[str, type] = {}


def _normalised(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _current_name(name: str) -> str | None:
    """The current name of an earlier one, whatever its case and dashes; None if there is none."""
    return next((new for old, new in RENAMED.items() if _normalised(old) == _normalised(name)), None)


def register(kind: Class) -> Class:
    """Registers a class of your own, so that strings and files can name it. Use it as a decorator.

    The names of manyhot's classes are taken.

    Example:
        >>> from manyhot.registry import register
        >>> @register
        ... class Always(mh.Threshold):
        ...     pass
        >>> mh.registry.construct("always(0.2)", mh.Rule)
        Always(0.2)
    """
    if kind.__name__ in CLASSES:
        raise InputError("kind", "register", "have a name of its own", repr(kind.__name__), "Rename the class.")
    _registered[kind.__name__] = kind
    return kind


def find_class(name: str) -> type | None:
    """The class of a name: one of manyhot, a registered one, or None."""
    kind: type | None = getattr(import_module(CLASSES[name]), name) if name in CLASSES else _registered.get(name)
    return kind


def classes(base: type) -> dict[str, type]:
    """The registered classes below `base`, by name; those of manyhot first."""
    every = {name: find_class(name) for name in (*CLASSES, *_registered)}
    return {name: kind for name, kind in every.items() if kind is not None and issubclass(kind, base)}


def construct(
    text: str, base: type, *, argument: str = "text", owner: str = "construct", names: Sequence[str] = ()
) -> Any:
    """The object that a string describes.

    Args:
        text: A name, or a call with literals and further calls as arguments. `average-k` is `AverageK()`.
        base: The class that it must have; its arguments may be of any registered class.
        argument: The name of the argument, for the error.
        owner: The function or class with this argument, for the error.
        names: Further names that the caller accepts, to suggest in an error.

    Example:
        >>> mh.registry.construct("average-k(3)", mh.Rule)
        AverageK(3)
    """
    wanted = classes(base)
    builder = _Builder(text, argument, [*names, *wanted])
    # Dashes are allowed for readability; the string is parsed as Python, whose names hold none.
    plain = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip())
    try:
        tree = ast.parse(plain, mode="eval").body
    except SyntaxError:
        example = f"Write it as for example {builder.advice[0]}."
        raise InputError(argument, owner, "be a name with arguments in brackets", repr(text), example) from None
    with owned(owner):
        built = builder.build(tree)
    if not isinstance(built, base):
        hint = f"Name one, such as {next(iter(wanted))}."
        raise InputError(argument, owner, f"be a {base.__name__.lower()}", type(built).__name__, hint)
    return built


class _Builder:
    """Builds the nodes of one string."""

    def __init__(self, text: str, argument: str, advice: Sequence[str]) -> None:
        self.text, self.argument, self.advice = text, argument, advice
        self.others = f"Pick one of {', '.join(advice)}."
        self.kinds = {_normalised(name): kind for name, kind in classes(object).items()}

    def build(self, node: ast.expr) -> Any:
        """The object of a name or a call, its arguments checked by name."""
        node = ast.Call(node, [], []) if isinstance(node, ast.Name) else node
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            raise InputError(self.argument, "", "be a name with arguments in brackets", repr(self.text), self.others)
        kind = self.kind(node.func.id)
        values = [self.value(item) for item in node.args]
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        signature = inspect.signature(kind)
        for name in named:
            if name not in signature.parameters:
                known = ", ".join(signature.parameters) or "no arguments"
                hint = suggest(name, signature.parameters, f"It takes {known}.")
                raise InputError(self.argument, "", f"use arguments that {kind.__name__} has", repr(name), hint)
        try:
            signature.bind(*values, **named)
        except TypeError as error:
            rule = f"fit {kind.__name__}({', '.join(signature.parameters)})"
            raise InputError(self.argument, "", rule, str(error), "Add or drop arguments.") from None
        return kind(*values, **named)

    def kind(self, name: str) -> type:
        """The class of a name, whatever its case and dashes."""
        plain = _normalised(name)
        if plain in self.kinds:
            return self.kinds[plain]
        known = {_normalised(one): one for one in self.advice}
        hint = suggest(plain, known, self.others, cutoff=0.5, show=known.__getitem__)
        current = _current_name(name)
        hint = hint if current is None else f"Did you mean {current}?"
        raise InputError(self.argument, "", "name something known", repr(name), hint)

    def value(self, node: ast.expr) -> Any:
        """A literal, or the object of a further name or call."""
        if isinstance(node, ast.Call | ast.Name):
            return self.build(node)
        try:
            return ast.literal_eval(node)
        except ValueError:
            rule = "have numbers, strings and lists as arguments"
            raise InputError(self.argument, "", rule, ast.unparse(node), "Write the value out.") from None


def upgrade_text(text: str) -> str:
    """A string of an earlier version with the current names of classes, arguments and values.

    Example:
        >>> from manyhot.registry import upgrade_text
        >>> upgrade_text("AskPerson(expected-f, at_most=0.1)"), upgrade_text("Isotonic(per='label')")
        ('Abstain(ExpectedFBeta, at_most=0.1)', "IsotonicCalibration(sharing='none')")
    """
    name = r"(?<!['\"\w])[A-Za-z][\w-]*(?=\s*(?:[(),]|$))"
    text = re.sub(name, lambda word: _current_name(word[0]) or word[0], text)
    return re.sub(r"\bper=(['\"])(\w+)\1", lambda word: f"sharing={RENAMED_SHARING[word[2]]!r}", text)
