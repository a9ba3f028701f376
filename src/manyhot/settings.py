"""Settings: how a network is fitted, what `train` makes of a dataset, their presets, and their YAML file."""

from __future__ import annotations

import inspect
import types
import typing
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from manyhot.calibrate import Calibrator
from manyhot.checks import Check, check_bool, check_choice, check_fields, check_int, check_number, check_str, optional
from manyhot.decide import Rule
from manyhot.errors import InputError, require, suggest
from manyhot.files import atomic_write
from manyhot.losses import Loss
from manyhot.presets import CALIBRATOR, LOSSES, RULE
from manyhot.registry import construct, upgrade_text
from manyhot.serialization import Fitted, stable_repr

OPTIMIZERS = ("adamw", "sgd")
SCHEDULES = ("cosine", "step", "one-cycle", "constant")
PRECISIONS = ("32", "bf16", "16")
ACCELERATORS = ("auto", "cpu", "cuda", "mps")


@dataclass(frozen=True)
class FitSettings:
    """Everything that decides how a network is fitted; two runs with the same settings and data give the same weights.

    Attributes:
        epochs: Passes over the data.
        batch_size: Rows of one step, over all processes and all accumulated parts together.
        accumulate: In how many parts a step is computed, where a whole batch does not fit.
        optimizer: "adamw" or "sgd" (with Nesterov momentum 0.9).
        lr: Learning rate of the backbone, at its highest.
        head_lr: Learning rate of the head and of a loss's own parameters; that of the backbone by default.
        weight_decay: Of weights; biases, scales and losses' own parameters are not decayed.
        schedule: "cosine", "step", "one-cycle" or "constant".
        warmup: Share of the steps in which the learning rate rises to its full height.
        milestones: For "step": after which shares of the run the rate falls.
        drop: For "step": the factor by which it falls.
        ema: Decay of the running average of the weights, which is then evaluated and saved; None for none.
        clip: Longest gradient that is applied as it is; None for no limit.
        patience: Stop after this many epochs without a better value of `monitor`; None to train all epochs.
        monitor: The figure that decides which epoch was best.
        checkpoint_minutes: A checkpoint is written after each epoch, and within epochs this often.
        seed: Of everything that is drawn.
        precision: "32", "bf16" or "16".
        accelerator: "auto", "cpu", "cuda" or "mps".
        devices: How many devices of one machine, or "auto".
        find_unused_parameters: Whether parameters may be without a gradient in some steps, of several processes.
        compile: Whether to compile the network.
        tensorboard: Whether to log to TensorBoard too.

    Example:
        >>> FitSettings(epochs=3, lr=0.01).schedule
        'cosine'
        >>> FitSettings(schedule="cosin")
        Traceback (most recent call last):
        manyhot.errors.InputError: `schedule` of `FitSettings` must be one of 'cosine', 'step', 'one-cycle', 'constant';
            got 'cosin'. Did you mean 'cosine'?
    """

    epochs: int = 20
    batch_size: int = 256
    accumulate: int = 1
    optimizer: str = "adamw"
    lr: float = 1e-3
    head_lr: float | None = None
    weight_decay: float = 0.01
    schedule: str = "cosine"
    warmup: float = 0.05
    milestones: tuple[float, ...] = (0.5, 0.75)
    drop: float = 0.1
    ema: float | None = None
    clip: float | None = None
    patience: int | None = None
    monitor: str = "mAP"
    checkpoint_minutes: float = 5.0
    seed: int = 0
    precision: str = "32"
    accelerator: str = "auto"
    devices: int | str = "auto"
    find_unused_parameters: bool = False
    compile: bool = False
    tensorboard: bool = False

    def __post_init__(self) -> None:
        check_fields(self, FIT_CHECKS)


def check_devices(argument: str, owner: str, value: Any) -> int | str:
    """Returns a number of devices or "auto"."""
    return "auto" if value == "auto" else check_int(argument, owner, value, low=1)


def check_milestones(argument: str, owner: str, value: Any) -> tuple[float, ...]:
    """Returns rising shares of a run."""
    try:
        shares = tuple(float(share) for share in value)
    except (TypeError, ValueError):
        shares = (-1.0,)
    if list(shares) != sorted(set(shares)) or not all(0 < share < 1 for share in shares):
        rule = "be rising shares of the run, each between 0 and 1"
        raise InputError(argument, owner, rule, repr(value), "Pass, for example, (0.5, 0.75).")
    return shares


_positive = partial(check_number, interval="(0, inf)")
_at_least_one = partial(check_int, low=1)

FIT_CHECKS: dict[str, Check] = {
    "epochs": _at_least_one,
    "batch_size": _at_least_one,
    "accumulate": _at_least_one,
    "optimizer": partial(check_choice, choices=OPTIMIZERS),
    "lr": _positive,
    "head_lr": optional(_positive),
    "weight_decay": partial(check_number, interval="[0, inf)"),
    "schedule": partial(check_choice, choices=SCHEDULES),
    "warmup": partial(check_number, interval="[0, 1)"),
    "milestones": check_milestones,
    "drop": partial(check_number, interval="(0, 1]"),
    "ema": optional(partial(check_number, interval="(0, 1)")),
    "clip": optional(_positive),
    "patience": optional(_at_least_one),
    "monitor": check_str,
    "checkpoint_minutes": _positive,
    "seed": partial(check_int, low=0),
    "precision": partial(check_choice, choices=PRECISIONS),
    "accelerator": partial(check_choice, choices=ACCELERATORS),
    "devices": check_devices,
    "find_unused_parameters": check_bool,
    "compile": check_bool,
    "tensorboard": check_bool,
}

TUNES = ("head", "all")
HEADS = ("linear", "cosine")
AUGMENTATIONS = ("none", "light", "strong")
ON_BAD_IMAGE = ("skip", "fail")
# Where the best settings depend on what is trained; chosen by measurement, see the documentation of training.
PRESETS = {
    "head": FitSettings(epochs=20, batch_size=64, lr=1e-3, weight_decay=1.0, schedule="cosine", warmup=0.05),
    "all": FitSettings(
        epochs=8, batch_size=256, lr=1e-3, head_lr=3e-3, weight_decay=0.05, schedule="one-cycle", ema=0.999
    ),
}
# The default of `fit`, distinguished by identity from settings that were passed.
UNSET = FitSettings()


@dataclass(frozen=True)
class TrainSettings:
    """What to train, how, and which calibrator and rule to fit.

    Settings that are left out get the best known values for `tune`. Those that were passed are remembered, so that
    `replace` and a constructor with the same settings give equal settings.

    Attributes:
        tune: "head" trains the last layers on frozen features, which are computed once and kept on disk, so that a CPU
            is enough; "all" fine-tunes the backbone as well.
        backbone: A name for `create_backbone`; not used for a matrix of features.
        pretrained: Whether the backbone starts from its published weights.
        weights: A safetensors file to start the backbone from instead.
        size: Side of the input images of the backbone, in pixels; its own by default.
        head: "linear" or "cosine".
        hidden: Units of a hidden layer between features and scores, 0 for none; by default 1,024 on frozen features,
            none where the backbone learns as well or the head is a cosine one.
        dropout: Share of the hidden units that are left out at random while training; 0.7 by default.
        heads: Heads with hidden units that are trained side by side, and whose scores are averaged; by default 2, or 1
            where `hidden` is set; losses that draw or come with heads of their own train one.
        loss: Any loss of manyhot with its arguments, or a short name such as "BCE" or "SPA + LPR"; by default binary
            cross-entropy, on frozen features with a little of the two-way loss.
        augmentation: "none", "light" or "strong"; only for fine-tuning.
        flip: Whether images may be mirrored; set it to False for digits and text.
        calibrator: Any calibrator with its arguments, fitted on the split "val"; "none" for the loss's own link.
        rule: Any rule with its arguments, fitted on the split "val"; "none" for probabilities without decisions.
        val: Share of the rows of the validation split, where the data have none.
        test: Share of the rows of the test split, where the data have none.
        min_count: Labels with fewer rows than this in the training split are left out.
        on_bad_image: "skip" leaves out images that cannot be read and names them, "fail" stops.
        workers: Processes that read images; chosen by the machine by default.
        cache: Folder for frozen features; the user's cache folder by default, "none" to keep none.
        fit: How to train; by default the one for `tune`.
        fields_set: The settings that were passed, by name, those of `fit` among them.

    Example:
        >>> settings = TrainSettings(tune="all", loss="SPA")
        >>> settings.fit.epochs, settings.fit.weight_decay
        (8, 0.05)
        >>> settings.replace(tune="head", lr=0.01).fit.epochs
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
    fit: FitSettings = UNSET
    fields_set: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.fields_set:
            rule = "be left out, as it is filled in automatically"
            hint = "Copy settings with `settings.replace(...)`, which `dataclasses.replace` cannot do right."
            raise InputError("fields_set", "TrainSettings", rule, ", ".join(self.fields_set), hint)
        check_fields(self, TRAIN_CHECKS)
        self._note_fields_set()
        self._fill_in()
        if self.heads != 1 and (not self.hidden or self.head == "cosine"):
            hint = "Set `hidden` too, or leave `heads` out."
            raise InputError("heads", "TrainSettings", "be 1 for a head without hidden units", str(self.heads), hint)
        if self.hidden and self.head == "cosine":
            hint = "Leave `hidden` out, or take a linear head."
            raise InputError("hidden", "TrainSettings", "be 0 for a cosine head", str(self.hidden), hint)
        if self.val + self.test >= 1:
            got = f"{self.val:g} + {self.test:g}"
            raise InputError("val and test", "TrainSettings", "leave rows to train on", got, "Make them smaller.")

    def _note_fields_set(self) -> None:
        defaults = {item.name: item.default for item in fields(self) if item.name not in ("fit", "fields_set")}
        fields_set = {name: getattr(self, name) for name, value in defaults.items() if getattr(self, name) != value}
        if self.fit is not UNSET:
            fields_set |= asdict(self.fit)
        object.__setattr__(self, "fields_set", {"tune": self.tune, **fields_set})

    def _fill_in(self) -> None:
        """Settings that were not given, by those that were."""
        usual = self.tune == "head" and self.head == "linear"
        values: dict[str, Any] = {
            "fit": PRESETS[self.tune] if self.fit is UNSET else self.fit,
            "loss": self.loss or LOSSES[self.tune],
            "hidden": (1024 if usual else 0) if self.hidden is None else self.hidden,
        }
        values["dropout"] = (0.7 if values["hidden"] else 0.0) if self.dropout is None else self.dropout
        values["heads"] = (2 if usual and self.hidden is None else 1) if self.heads is None else self.heads
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> TrainSettings:
        """The settings of a flat mapping, those of `fit` among them; the others get the best known values.

        Example:
            >>> settings = TrainSettings.build({"loss": "SPA", "tune": "all", "epochs": 3})
            >>> settings.fit.epochs, settings.fit.schedule
            (3, 'one-cycle')
        """
        kinds = setting_types()
        for name in settings:
            if name not in kinds:
                hint = suggest(str(name), kinds, f"There are {', '.join(kinds)}.", show=repr)
                raise InputError("settings", "TrainSettings", "be known", repr(name), hint)
        values = {name: convert(name, value, kinds[name]) for name, value in settings.items()}
        tune = check_choice("tune", "TrainSettings", values.get("tune", "head"), TUNES)
        fit_values = {item.name: values.pop(item.name) for item in fields(FitSettings) if item.name in values}
        built = cls(**values, fit=replace(PRESETS[tune], **fit_values) if fit_values else UNSET)
        # Of the fit settings that were filled in here, only these were passed.
        fields_set = {name: value for name, value in built.fields_set.items() if name in values} | fit_values
        object.__setattr__(built, "fields_set", {"tune": tune, **fields_set})
        return built

    def replace(self, **settings: Any) -> TrainSettings:
        """A copy with other settings, those of `fit` among them; settings that were never passed are resolved again."""
        return TrainSettings.build({**self.fields_set, **settings})

    def settings(self) -> dict[str, Any]:
        """All settings, flat, as values that YAML can hold."""
        fit = {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self.fit).items()}
        return {
            item.name: getattr(self, item.name) for item in fields(self) if item.name not in ("fit", "fields_set")
        } | fit


def check_fit_settings(argument: str, owner: str, value: Any) -> FitSettings:
    """Returns the fit settings."""
    if isinstance(value, FitSettings):
        return value
    hint = "Pass `FitSettings(...)`, or its settings to `TrainSettings.build`."
    raise InputError(argument, owner, "be a FitSettings", type(value).__name__, hint)


def as_text(argument: str, owner: str, value: Any) -> str:
    """A loss, calibrator or rule as the text that builds it; "none" for None, and a text as it is."""
    if isinstance(value, str):
        return value
    if value is None and argument != "loss":
        return "none"
    base = PARTS[argument]
    if not isinstance(value, base):
        hint = f"Pass one of manyhot, or a text such as {EXAMPLES[argument]!r}."
        raise InputError(argument, owner, f"be a {argument}", type(value).__name__, hint)
    text = spell_call(value)
    try:
        same = construct(text, base)
    except ValueError:
        same = None
    if same is None or spell_call(same) != text or getattr(same, "fitted", None) != getattr(value, "fitted", None):
        rule = f"be a {argument} of manyhot that has learnt nothing, so that `config.yaml` can hold it"
        raise InputError(argument, owner, rule, text, f"Pass a text such as {EXAMPLES[argument]!r}.")
    return text


def spell_call(part: Any) -> str:
    """The call that makes an object, with every digit of its arguments."""
    if not isinstance(part, Fitted):
        return stable_repr(part)
    arguments = inspect.signature(type(part)).parameters
    return f"{type(part).__name__}({', '.join(f'{name}={spell_call(getattr(part, name))}' for name in arguments)})"


# The format of config.yaml. 2: losses, calibrators and rules have other names. 3: no `nodes`, no `strategy`.
FORMAT = 3
PARTS: dict[str, type] = {"loss": Loss, "calibrator": Calibrator, "rule": Rule}
EXAMPLES = {"loss": "AsymmetricLoss(gamma_neg=3)", "calibrator": "IsotonicCalibration()", "rule": "AverageK(3)"}
_share = partial(check_number, interval="[0, 1)")
TRAIN_CHECKS: dict[str, Check] = {
    "tune": partial(check_choice, choices=TUNES),
    "backbone": check_str,
    "pretrained": check_bool,
    "weights": optional(check_str),
    "size": optional(partial(check_int, low=1)),
    "head": partial(check_choice, choices=HEADS),
    "hidden": optional(partial(check_int, low=0)),
    "dropout": optional(_share),
    "heads": optional(partial(check_int, low=1)),
    "loss": as_text,
    "augmentation": partial(check_choice, choices=AUGMENTATIONS),
    "flip": check_bool,
    "calibrator": as_text,
    "rule": as_text,
    "val": _share,
    "test": _share,
    "min_count": partial(check_int, low=0),
    "on_bad_image": partial(check_choice, choices=ON_BAD_IMAGE),
    "workers": optional(partial(check_int, low=0)),
    "cache": optional(check_str),
    "fit": check_fit_settings,
}


def setting_types() -> dict[str, Any]:
    """The type of each setting by name: first those of `TrainSettings`, then those of `FitSettings`."""
    types_of = get_type_hints(TrainSettings)
    types_of.pop("fit")
    types_of.pop("fields_set")
    return types_of | get_type_hints(FitSettings)


def convert(name: str, value: Any, kind: Any) -> Any:
    """A setting in its type, from YAML or from text typed by a user."""
    if name in PARTS:
        return as_text(name, "TrainSettings", value)
    union = typing.get_origin(kind) in (typing.Union, types.UnionType)
    allowed = typing.get_args(kind) if union else (kind,)
    if isinstance(value, str) and type(None) in allowed and value.lower() in ("none", "null"):
        return None
    if typing.get_origin(kind) is tuple:
        values = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
        return tuple(convert(name, part, typing.get_args(kind)[0]) for part in values)
    for one in allowed:
        converted = _as_type(one, value)
        if converted is not None or (value is None and one is type(None)):
            return converted
    expected = " or ".join(getattr(one, "__name__", str(one)) for one in allowed)
    type_names = {
        "int": "a whole number",
        "float": "a number",
        "bool": "true or false",
        "str": "a text",
        "NoneType": "none",
    }
    for python, type_name in type_names.items():
        expected = expected.replace(python, type_name)
    raise InputError(
        name, "TrainSettings", f"be {expected}", repr(value), "Change it, or leave it out for the default."
    )


def _as_type(kind: type, value: Any) -> Any:
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
    """PyYAML; raises an error that says how to install it."""
    return require("yaml", "Settings", extra="vision", package="pyyaml")


def read_settings(path: str | Path) -> dict[str, Any]:
    """The settings of a YAML file."""
    yaml = import_yaml()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        got = f"{str(path)!r} ({' '.join(str(error).split())})"
        raise InputError("config", "train", "be a YAML file", got, "Repair it.") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        hint = "Write one `name: value` per line."
        raise InputError("config", "train", "hold settings by name", type(content).__name__, hint)
    version = content.pop("format", 1)
    if version not in range(1, FORMAT + 1):
        got = f"{str(path)!r} with format {version}"
        raise InputError("config", "train", f"hold format 1 to {FORMAT} of manyhot", got, "Update manyhot.")
    return upgrade_settings(content, version)


def upgrade_settings(settings: dict[str, Any], version: int) -> dict[str, Any]:
    """Settings of an older format with the names and values of this one."""
    settings = dict(settings)
    if version < 2:
        settings |= {name: upgrade_text(settings[name]) for name in PARTS if isinstance(settings.get(name), str)}
    if version < 3:
        if settings.pop("nodes", 1) != 1:
            warnings.warn("`nodes` is no longer a setting. Start `torchrun` on each machine.", stacklevel=3)
        unused = settings.pop("strategy", "auto") == "ddp_find_unused_parameters_true"
        settings["find_unused_parameters"] = unused
    return settings


def write_settings(settings: Mapping[str, Any], path: str | Path) -> None:
    """Settings as a YAML file that `read_settings` reads."""
    yaml = import_yaml()
    with atomic_write(path) as part:
        content = {"format": FORMAT, **settings}
        part.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def parse_overrides(texts: list[str]) -> dict[str, str]:
    """`["lr=0.01"]` as settings by name."""
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not equals:
            raise InputError("--set", "manyhot", "look like name=value", repr(name), "Write for example --set lr=0.01.")
    return {name.strip(): value.strip() for name, _, value in pairs}
