"""The classes that texts and files may name, and texts such as `AverageK(3)` as the objects they describe.

The only place where a string becomes a constructor call. Nothing is evaluated: names are looked up in the registry,
values are literals.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any, TypeVar

from manyhot.errors import InputError, suggest

Class = TypeVar("Class", bound=type)

# What ships: each class, and the module that defines it, which is imported when the class is first asked for.
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


def register(kind: Class) -> Class:
    """Lets texts and files name a class of your own; the names of manyhot's classes are taken. Use it as a decorator.

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
    """The class of a name: one of manyhot, one that was registered, or None."""
    if name in CLASSES:
        found: type = getattr(import_module(CLASSES[name]), name)
        return found
    return _registered.get(name)


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
        base: Of which class it must be; its arguments may be of any registered class.
        argument: What the string was given for, for the error.
        owner: Who asked for it, for the error.
        names: Further names to propose in an error, which the caller understands.

    Example:
        >>> mh.registry.construct("average-k(3)", mh.Rule)
        AverageK(3)
    """
    every, wanted = classes(object), classes(base)
    advice = [*names, *wanted]
    example = f"Write it as for example {advice[0]}."
    # Dashes are for people; they are no part of a name in Python, in which the text is read.
    plain = re.sub(r"(?<=[A-Za-z])-(?=[A-Za-z])", "_", text.strip())
    try:
        tree = ast.parse(plain, mode="eval").body
    except SyntaxError:
        raise InputError(argument, owner, "be a name with arguments in brackets", repr(text), example) from None
    built = _Builder(text, every, argument, owner, advice).build(tree)
    if not isinstance(built, base):
        rule, hint = f"be a {base.__name__.lower()}", f"Name one, such as {next(iter(wanted))}."
        raise InputError(argument, owner, rule, type(built).__name__, hint)
    return built


class _Builder:
    """Builds the nodes of one string."""

    def __init__(self, text: str, kinds: Mapping[str, type], argument: str, owner: str, advice: Sequence[str]) -> None:
        self.text, self.kinds, self.argument, self.owner, self.advice = text, kinds, argument, owner, advice

    def build(self, node: ast.expr) -> Any:
        """The object of a name or a call."""
        if isinstance(node, ast.Name):
            return self.call(self.kind(node.id), [], {})
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            hint = f"Pick one of {', '.join(self.advice)}."
            raise self.error("be a name with arguments in brackets", repr(self.text), hint)
        named = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        return self.call(self.kind(node.func.id), [self.value(item) for item in node.args], named)

    def kind(self, name: str) -> type:
        """The class of a name, whatever its case and dashes."""
        plain = {_normalised(known): kind for known, kind in self.kinds.items()}
        if _normalised(name) in plain:
            return plain[_normalised(name)]
        known = {_normalised(one): one for one in self.advice}
        renamed = {_normalised(old): new for old, new in RENAMED.items()}.get(_normalised(name))
        near = get_close_matches(_normalised(name), known, n=1, cutoff=0.5)
        hint = f"Pick one of {', '.join(self.advice)}."
        if renamed is not None or near:
            hint = f"Did you mean {renamed or known[near[0]]}?"
        raise self.error("name something known", repr(name), hint)

    def call(self, kind: type, values: list[Any], named: dict[str, Any]) -> Any:
        """An instance of a class, its arguments checked by name."""
        signature = inspect.signature(kind)
        for name in named:
            if name not in signature.parameters:
                known = ", ".join(signature.parameters) or "no arguments"
                hint = suggest(name, signature.parameters, f"It takes {known}.")
                raise self.error(f"use arguments that {kind.__name__} has", repr(name), hint)
        try:
            signature.bind(*values, **named)
        except TypeError as error:
            rule = f"fit {kind.__name__}({', '.join(signature.parameters)})"
            raise self.error(rule, str(error), "Add or drop arguments.") from None
        return kind(*values, **named)

    def value(self, node: ast.expr) -> Any:
        """A literal, or the object of a further name or call."""
        if isinstance(node, ast.Call | ast.Name):
            return self.build(node)
        try:
            return ast.literal_eval(node)
        except ValueError:
            got = ast.unparse(node)
            raise self.error("have numbers, strings and lists as arguments", got, "Write the value out.") from None

    def error(self, rule: str, got: str, hint: str) -> InputError:
        """The sentence for a string that cannot be built."""
        return InputError(self.argument, self.owner, rule, got, hint)


def upgrade_text(text: str) -> str:
    """A text of an earlier version with the names that classes, arguments and values have now.

    Example:
        >>> from manyhot.registry import upgrade_text
        >>> upgrade_text("AskPerson(expected-f, at_most=0.1)"), upgrade_text("Isotonic(per='label')")
        ('Abstain(ExpectedFBeta, at_most=0.1)', "IsotonicCalibration(sharing='none')")
    """
    renamed = {_normalised(old): new for old, new in RENAMED.items()}
    text = re.sub(
        r"(?<!['\"\w])[A-Za-z][\w-]*(?=\s*(?:[(),]|$))", lambda word: renamed.get(_normalised(word[0]), word[0]), text
    )
    return re.sub(r"\bper=(['\"])(\w+)\1", lambda word: f"sharing={RENAMED_SHARING[word[2]]!r}", text)


def _normalised(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
