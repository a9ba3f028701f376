"""The recipe: everything that decides what `train` makes of a data set, in one flat list of settings."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_type_hints

from manyhot.checks import check_choice, check_count, check_number
from manyhot.engine.plan import Plan
from manyhot.files import whole_file
from manyhot.refusal import refusal

TUNES = ("head", "all")
# On frozen features a little of the two-way loss improves the ranks, and cross-entropy keeps the probabilities.
LOSSES = {
    "head": "SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.03), link=SigmoidLink())",
    "all": "BinaryCrossEntropyLoss()",
}

# Where the best settings depend on what is trained; chosen by measurement, see the page on recipes.
PLANS = {
    "head": Plan(epochs=20, batch_size=64, lr=1e-3, weight_decay=1.0, schedule="cosine", warmup=0.05),
    "all": Plan(epochs=8, batch_size=256, lr=1e-3, head_lr=3e-3, weight_decay=0.05, schedule="one-cycle", ema=0.999),
}


@dataclass(frozen=True)
class Recipe:
    """What to train, with what, and what to do with the scores.

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
            where `hidden` is set.
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
        plan: How to train.
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
    calibrator: str = "Beta()"
    rule: str = "ExpectedF()"
    val: float = 0.15
    test: float = 0.15
    min_count: int = 1
    on_bad_image: str = "skip"
    workers: int | None = None
    cache: str | None = None
    plan: Plan = field(default_factory=lambda: PLANS["head"])

    def __post_init__(self) -> None:
        check_choice("tune", "Recipe", self.tune, TUNES)
        check_choice("head", "Recipe", self.head, ("linear", "cosine"))
        if not self.loss:
            object.__setattr__(self, "loss", LOSSES[self.tune])
        if self.hidden is None:
            usual = self.tune == "head" and self.head == "linear"
            object.__setattr__(self, "hidden", 1024 if usual else 0)
            if self.heads is None:
                object.__setattr__(self, "heads", 2 if usual else 1)
        if self.dropout is None:
            object.__setattr__(self, "dropout", 0.7 if self.hidden else 0.0)
        if self.heads is None:
            object.__setattr__(self, "heads", 1)
        check_choice("on_bad_image", "Recipe", self.on_bad_image, ("skip", "fail"))
        check_count("hidden", "Recipe", self.hidden, low=0)
        check_count("heads", "Recipe", self.heads, low=1)
        if self.heads != 1 and (not self.hidden or self.head == "cosine"):
            remedy = "Set `hidden` too, or leave `heads` out."
            raise refusal("heads", "Recipe", "be 1 for a head without hidden units", str(self.heads), remedy)
        check_count("min_count", "Recipe", self.min_count, low=0)
        for name in ("val", "test", "dropout"):
            check_number(name, "Recipe", getattr(self, name), low=0, high=1, high_open=True)
        if self.val + self.test >= 1:
            got = f"{self.val:g} + {self.test:g}"
            raise refusal("val and test", "Recipe", "leave rows to train on", got, "Make them smaller.")

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
        of_plan = {item.name for item in fields(Plan)}
        plan = replace(PLANS[tune], **{name: value for name, value in values.items() if name in of_plan})
        return cls(plan=plan, **{name: value for name, value in values.items() if name not in of_plan})

    def settings(self) -> dict[str, Any]:
        """All settings, flat, as values that YAML can hold."""
        flat = asdict(self)
        plan = flat.pop("plan")
        return flat | {name: list(value) if isinstance(value, tuple) else value for name, value in plan.items()}


def setting_types() -> dict[str, Any]:
    """The type of each setting by name: first those of the recipe, then those of the plan."""
    types_of = get_type_hints(Recipe)
    types_of.pop("plan")
    return types_of | get_type_hints(Plan)


def convert(name: str, value: Any, kind: Any) -> Any:
    """A setting in its type, from YAML or from text typed by a user."""
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
