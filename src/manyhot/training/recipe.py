"""The recipe: everything that decides what `train` makes of a data set, in one flat list of settings."""

from __future__ import annotations

import difflib
import inspect
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from torch import nn

from manyhot.calibrate import Calibrator
from manyhot.checks import (
    Check,
    check_choice,
    check_count,
    check_fields,
    check_flag,
    check_number,
    check_text,
    or_none,
)
from manyhot.constructors import construct, public_classes
from manyhot.decide import Rule
from manyhot.engine.plan import Plan
from manyhot.files import whole_file
from manyhot.losses import Loss
from manyhot.presets import CALIBRATOR, LOSSES, RULE
from manyhot.refusal import refusal
from manyhot.spelling import spell
from manyhot.state import Fitted

TUNES = ("head", "all")
HEADS = ("linear", "cosine")
AUGMENTATIONS = ("none", "light", "strong")
ON_BAD_IMAGE = ("skip", "fail")
# Where the best settings depend on what is trained; chosen by measurement, see the page on recipes.
PLANS = {
    "head": Plan(epochs=20, batch_size=64, lr=1e-3, weight_decay=1.0, schedule="cosine", warmup=0.05),
    "all": Plan(epochs=8, batch_size=256, lr=1e-3, head_lr=3e-3, weight_decay=0.05, schedule="one-cycle", ema=0.999),
}
# Stands for a plan that was not given.
PRESET = Plan()


@dataclass(frozen=True)
class Recipe:
    """What to train, with what, and what to do with the scores.

    Settings that are not given get the best known values for `tune`. A recipe remembers which ones were given, so that
    `replace` and a constructor with the same settings give the same recipe.

    Attributes:
        tune: "head" trains the last layers on frozen features, which are computed once and kept on disk, so that a CPU
            is enough; "all" fine-tunes the backbone as well.
        backbone: A name for `create_backbone`; not used for a matrix of features.
        pretrained: Whether the backbone starts from its published weights.
        weights: A safetensors file to start the backbone from instead.
        size: Side of the pictures that the backbone sees, in pixels; its own by default.
        head: "linear" or "cosine".
        hidden: Units of a hidden layer between features and scores, 0 for none; by default 1,024 on frozen features,
            none where the backbone learns as well or the head is a cosine one.
        dropout: Share of the hidden units that are left out at random while training; 0.7 by default.
        heads: Heads with hidden units that are trained side by side, and whose scores are averaged; by default 2, or 1
            where `hidden` is set; losses that draw or come with heads of their own train one.
        loss: Any loss of manyhot with its arguments, or a short name such as "BCE" or "SPA + LPR"; by default binary
            cross-entropy, on frozen features with a little of the two-way loss.
        augmentation: "none", "light" or "strong"; only for fine-tuning.
        flip: Whether pictures may be mirrored; not so for digits and texts.
        calibrator: Any calibrator with its arguments, fitted on the split "val"; "none" for the loss's own link.
        rule: Any rule with its arguments, fitted on the split "val"; "none" for probabilities without decisions.
        val: Share of the rows to tune and calibrate on, where the data come without such a split.
        test: Share of the rows to judge by, where the data come without such a split.
        min_count: Labels with fewer rows than this in the training split are left out.
        on_bad_image: "skip" leaves out images that cannot be read and names them, "fail" stops.
        workers: Processes that read images; chosen by the machine by default.
        cache: Folder for frozen features; the user's cache folder by default, "none" to keep none.
        plan: How to train; by default the one for `tune`.
        given: The settings that were given, by name, those of the plan among them.

    Example:
        >>> recipe = Recipe(tune="all", loss="SPA")
        >>> recipe.plan.epochs, recipe.plan.weight_decay
        (8, 0.05)
        >>> recipe.replace(tune="head", lr=0.01).plan.epochs
        20
    """

    tune: str = "head"
    backbone: str = "efficientnet_lite0"
    pretrained: bool = True
    weights: str | None = None
    size: int | None = None
    head: str = "linear"
    hidden: int | None = None
    dropout: float | None = None
    heads: int | None = None
    loss: str = ""
    augmentation: str = "light"
    flip: bool = True
    calibrator: str = CALIBRATOR
    rule: str = RULE
    val: float = 0.15
    test: float = 0.15
    min_count: int = 1
    on_bad_image: str = "skip"
    workers: int | None = None
    cache: str | None = None
    plan: Plan = PRESET
    given: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.given:
            rule = "be left out, as a recipe notes it itself"
            remedy = "Copy a recipe with `recipe.replace(...)`, which `dataclasses.replace` cannot do right."
            raise refusal("given", "Recipe", rule, ", ".join(self.given), remedy)
        check_fields(self, CHECKS)
        self._note_given()
        self._fill_in()
        if self.heads != 1 and (not self.hidden or self.head == "cosine"):
            remedy = "Set `hidden` too, or leave `heads` out."
            raise refusal("heads", "Recipe", "be 1 for a head without hidden units", str(self.heads), remedy)
        if self.hidden and self.head == "cosine":
            remedy = "Leave `hidden` out, or take a linear head."
            raise refusal("hidden", "Recipe", "be 0 for a cosine head", str(self.hidden), remedy)
        if self.val + self.test >= 1:
            got = f"{self.val:g} + {self.test:g}"
            raise refusal("val and test", "Recipe", "leave rows to train on", got, "Make them smaller.")

    def _note_given(self) -> None:
        defaults = {item.name: item.default for item in fields(self) if item.name not in ("plan", "given")}
        given = {name: getattr(self, name) for name, value in defaults.items() if getattr(self, name) != value}
        if self.plan is not PRESET:
            given |= asdict(self.plan)
        object.__setattr__(self, "given", {"tune": self.tune, **given})

    def _fill_in(self) -> None:
        """Settings that were not given, by those that were."""
        usual = self.tune == "head" and self.head == "linear"
        values: dict[str, Any] = {
            "plan": PLANS[self.tune] if self.plan is PRESET else self.plan,
            "loss": self.loss or LOSSES[self.tune],
            "hidden": (1024 if usual else 0) if self.hidden is None else self.hidden,
        }
        values["dropout"] = (0.7 if values["hidden"] else 0.0) if self.dropout is None else self.dropout
        values["heads"] = (2 if usual and self.hidden is None else 1) if self.heads is None else self.heads
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Recipe:
        """A recipe of flat settings, those of the recipe and of the plan; what is not given is the best known default.

        Example:
            >>> recipe = Recipe.build({"loss": "SPA", "tune": "all", "epochs": 3})
            >>> recipe.plan.epochs, recipe.plan.schedule
            (3, 'one-cycle')
        """
        kinds = setting_types()
        for name in settings:
            if name not in kinds:
                near = difflib.get_close_matches(str(name), kinds, n=1)
                remedy = f"Did you mean {near[0]!r}?" if near else f"There are {', '.join(kinds)}."
                raise refusal("settings", "Recipe", "be known", repr(name), remedy)
        values = {name: convert(name, value, kinds[name]) for name, value in settings.items()}
        tune = check_choice("tune", "Recipe", values.get("tune", "head"), TUNES)
        of_plan = {item.name: values.pop(item.name) for item in fields(Plan) if item.name in values}
        recipe = cls(**values, plan=replace(PLANS[tune], **of_plan) if of_plan else PRESET)
        # Of a plan that was filled in here, only these were given.
        given = {name: value for name, value in recipe.given.items() if name in values} | of_plan
        object.__setattr__(recipe, "given", {"tune": tune, **given})
        return recipe

    def replace(self, **settings: Any) -> Recipe:
        """The recipe with other settings, those of the plan among them; what was not given follows from what is."""
        return Recipe.build({**self.given, **settings})

    def settings(self) -> dict[str, Any]:
        """All settings, flat, as values that YAML can hold."""
        plan = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self.plan).items()}
        return {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("plan", "given")
        } | plan


def check_plan(argument: str, owner: str, value: Any) -> Plan:
    """Returns a plan."""
    if isinstance(value, Plan):
        return value
    remedy = "Pass `Plan(...)`, or its settings to `Recipe.build`."
    raise refusal(argument, owner, "be a Plan", type(value).__name__, remedy)


def as_text(argument: str, owner: str, value: Any) -> str:
    """A loss, calibrator or rule as the text that builds it; "none" for None, and a text as it is."""
    if isinstance(value, str):
        return value
    if value is None and argument != "loss":
        return "none"
    base = PARTS[argument]
    if not isinstance(value, base):
        remedy = f"Pass one of manyhot, or a text such as {EXAMPLES[argument]!r}."
        raise refusal(argument, owner, f"be a {argument}", type(value).__name__, remedy)
    text = spell_call(value)
    try:
        same = construct(text, public_classes(nn.Module), argument=argument, owner=owner)
    except ValueError:
        same = None
    if same is None or spell_call(same) != text or getattr(same, "fitted", None) != getattr(value, "fitted", None):
        rule = f"be a {argument} of manyhot that has learnt nothing, so that `config.yaml` can hold it"
        raise refusal(argument, owner, rule, text, f"Pass a text such as {EXAMPLES[argument]!r}.")
    return text


def spell_call(part: Any) -> str:
    """The call that makes an object, with every digit of its arguments."""
    if not isinstance(part, Fitted):
        return spell(part)
    arguments = inspect.signature(type(part)).parameters
    return f"{type(part).__name__}({', '.join(f'{name}={spell_call(getattr(part, name))}' for name in arguments)})"


PARTS: dict[str, type] = {"loss": Loss, "calibrator": Calibrator, "rule": Rule}
EXAMPLES = {"loss": "AsymmetricLoss(gamma_neg=3)", "calibrator": "Isotonic()", "rule": "AverageK(3)"}
_share = partial(check_number, low=0, high=1, high_open=True)
CHECKS: dict[str, Check] = {
    "tune": partial(check_choice, choices=TUNES),
    "backbone": check_text,
    "pretrained": check_flag,
    "weights": or_none(check_text),
    "size": or_none(partial(check_count, low=1)),
    "head": partial(check_choice, choices=HEADS),
    "hidden": or_none(partial(check_count, low=0)),
    "dropout": or_none(_share),
    "heads": or_none(partial(check_count, low=1)),
    "loss": as_text,
    "augmentation": partial(check_choice, choices=AUGMENTATIONS),
    "flip": check_flag,
    "calibrator": as_text,
    "rule": as_text,
    "val": _share,
    "test": _share,
    "min_count": partial(check_count, low=0),
    "on_bad_image": partial(check_choice, choices=ON_BAD_IMAGE),
    "workers": or_none(partial(check_count, low=0)),
    "cache": or_none(check_text),
    "plan": check_plan,
}


def setting_types() -> dict[str, Any]:
    """The type of each setting by name: first those of the recipe, then those of the plan."""
    types_of = get_type_hints(Recipe)
    types_of.pop("plan")
    types_of.pop("given")
    return types_of | get_type_hints(Plan)


def convert(name: str, value: Any, kind: Any) -> Any:
    """A setting in its type, from YAML or from text typed by a user."""
    if name in PARTS:
        return as_text(name, "Recipe", value)
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    allowed = typing.get_args(kind) if union else (kind,)
    if isinstance(value, str) and type(None) in allowed and value.lower() in ("none", "null"):
        return None
    if typing.get_origin(kind) is tuple:
        values = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        return tuple(convert(name, part, typing.get_args(kind)[0]) for part in values)
    for one in allowed:
        converted = _as(one, value)
        if converted is not None or (value is None and one is type(None)):
            return converted
    wanted = " or ".join(getattr(one, "__name__", str(one)) for one in allowed)
    words = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text", "NoneType": "none"}
    for python, word in words.items():
        wanted = wanted.replace(python, word)
    raise refusal(name, "Recipe", f"be {wanted}", repr(value), "Change it, or leave it out for the default.")


def _as(kind: type, value: Any) -> Any:
    """`value` as one type, None where it is none of that."""
    text = isinstance(value, str)
    try:
        if kind is bool:
            known = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
            return known.get(value.lower()) if text else (value if isinstance(value, bool) else None)
        if kind is int and not isinstance(value, bool):
            return int(value) if text or value == int(value) else None
        if kind is float and not isinstance(value, bool):
            return float(value)
    except (TypeError, ValueError):
        return None
    if kind is str and isinstance(value, int) and not isinstance(value, bool):
        return str(value)  # `precision: 32` in a file
    return value if kind is str and text else None


def import_yaml() -> Any:
    """PyYAML, or the sentence that says how to get it."""
    try:
        import yaml
    except ImportError:
        raise ImportError("Settings need pyyaml. Install it with: pip install 'manyhot[vision]'") from None
    return yaml


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings of a YAML file."""
    yaml = import_yaml()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        got = f"{str(path)!r} ({' '.join(str(error).split())})"
        raise refusal("config", "train", "be a YAML file", got, "Repair it.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        remedy = "Write one `name: value` a line."
        raise refusal("config", "train", "hold settings by name", type(content).__name__, remedy)
    return content


def write_settings(settings: Mapping[str, Any], path: str | Path) -> None:
    """Settings as a YAML file that `read_settings` reads."""
    yaml = import_yaml()
    with whole_file(path) as part:
        part.write_text(yaml.safe_dump(dict(settings), sort_keys=False, allow_unicode=True), encoding="utf-8")


def parse_overrides(texts: list[str]) -> dict[str, str]:
    """`["lr=0.01"]` as settings by name."""
    pairs = [text.partition("=") for text in texts]
    for name, sign, _ in pairs:
        if not sign:
            raise refusal("--set", "manyhot", "look like name=value", repr(name), "Write for example --set lr=0.01.")
    return {name.strip(): value.strip() for name, _, value in pairs}
