"""Settings of a training and of how its data are read: each with its default, limits and description; presets; YAML.

Python, `config.yaml` and the command line share these fields. Nothing here imports torch, so that `--help` is fast.
"""

from __future__ import annotations

import inspect
import os
import types
import typing
import warnings
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import InitVar, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from manyhot.errors import InputError, require, suggest
from manyhot.files import atomic_write
from manyhot.registry import construct, upgrade_text

# On frozen features a little of the two-way loss improves the ranks, and cross-entropy keeps the probabilities.
LOSSES = {
    "head": "SumLoss(BinaryCrossEntropyLoss(), TwoWayLoss(), weights=(1, 0.03), link=SigmoidLink())",
    "all": "BinaryCrossEntropyLoss()",
}
# One of each family, as `manyhot compare --losses all` trains them; the first is what the others are compared with.
ALL_LOSSES = {
    "BCE": "BinaryCrossEntropyLoss()",
    "focal": "FocalLoss()",
    "ASL": "AsymmetricLoss()",
    "SPA": "StrictlyProperAsymmetricLoss()",
    "SPA + LPR": "LabelPairRegulariser(StrictlyProperAsymmetricLoss(), weight=0.1)",
    "quasibinary": "QuasibinaryLoss()",
    "two-way": "TwoWayLoss()",
    "BCE + two-way": LOSSES["head"],
    "WARP": "WARPLoss()",
    "RML": "RMLLoss()",
    "class-wise": "ClassWiseLoss({num_labels})",
    "softmax": "MultiLabelSoftmaxLoss()",
    "AN": "AssumeNegativeLoss()",
    "EPR": "EPRLoss({mean_labels})",
    "cross-entropy": "SoftmaxCrossEntropyLoss()",
    "noised top-2": "NoisedTopKLoss(2)",
    "average-2": "AverageKLoss(2)",
}
# The best known values where they depend on what is trained; see the documentation of training.
PRESETS: dict[str, dict[str, Any]] = {
    "head": {"batch_size": 64, "weight_decay": 1.0},
    "all": {"epochs": 8, "head_lr": 3e-3, "weight_decay": 0.05, "schedule": "one-cycle", "ema": 0.999},
}
EXAMPLES = {"loss": "AsymmetricLoss(gamma_neg=3)", "calibrator": "IsotonicCalibration()", "rule": "AverageK(3)"}


def setting(default: Any, description: str, **limits: Any) -> Any:
    """A field of settings.

    Args:
        default: Its default.
        description: What it means, for the documentation, `--help` and YAML.
        limits: `low` of a whole number, `interval` of a number such as "[0, 1)", or a `check` of your own.
    """
    return field(default=default, metadata={"description": description, **limits})


def check_milestones(argument: str, owner: str, value: Any) -> tuple[float, ...]:
    """Returns rising shares of a run, which may come as text."""
    parts = [part for part in value.split(",") if part.strip()] if isinstance(value, str) else value
    try:
        shares = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        shares = (-1.0,)
    if list(shares) != sorted(set(shares)) or not all(0 < share < 1 for share in shares):
        rule = "be rising shares of the run, each between 0 and 1"
        raise InputError(argument, owner, rule, repr(value), "Pass, for example, (0.5, 0.75).")
    return shares


def as_text(argument: str, owner: str, value: Any) -> str:
    """A loss, calibrator or rule as the text that builds it; "none" for None, and a text as it is."""
    import manyhot

    if isinstance(value, str):
        return value
    if value is None and argument != "loss":
        return "none"
    base: type = getattr(manyhot, argument.capitalize())  # Loss, Calibrator or Rule
    if not isinstance(value, base):
        hint = f"Pass one of manyhot, or a text such as {EXAMPLES[argument]!r}."
        raise InputError(argument, owner, f"be a {argument}", type(value).__name__, hint)
    text, same = spell_call(value), None
    with suppress(ValueError):
        same = construct(text, base)
    if same is None or spell_call(same) != text or getattr(same, "fitted", None) != getattr(value, "fitted", None):
        rule = f"be a {argument} of manyhot that has learnt nothing, so that `config.yaml` can hold it"
        raise InputError(argument, owner, rule, text, f"Pass a text such as {EXAMPLES[argument]!r}.")
    return text


def spell_call(part: Any) -> str:
    """The call that makes an object, with every digit of its arguments."""
    from manyhot.serialization import Fitted, stable_repr

    if not isinstance(part, Fitted):
        return stable_repr(part)
    arguments = inspect.signature(type(part)).parameters
    return f"{type(part).__name__}({', '.join(f'{name}={spell_call(getattr(part, name))}' for name in arguments)})"


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """Everything that decides how a network is fitted; two runs with the same settings and data give the same weights.

    Example:
        >>> FitSettings(epochs=3, lr=0.01).schedule
        'cosine'
        >>> FitSettings(schedule="cosin")
        Traceback (most recent call last):
        manyhot.errors.InputError: `schedule` of `FitSettings` must be one of 'cosine', 'step', 'one-cycle', 'constant';
            got 'cosin'. Did you mean 'cosine'?
    """

    epochs: int = setting(20, "Passes over the training data.", low=1)
    batch_size: int = setting(256, "Rows per optimisation step, over all processes and accumulated parts.", low=1)
    accumulate: int = setting(1, "In how many parts a step is computed, where a whole batch does not fit.", low=1)
    optimizer: Literal["adamw", "sgd"] = setting("adamw", "The optimiser.")
    momentum: float = setting(0.9, "Momentum of SGD.", interval="[0, 1)")
    nesterov: bool = setting(True, "Whether the momentum of SGD is Nesterov's.")
    lr: float = setting(1e-3, "The highest learning rate; that of the backbone where it learns.", interval="(0, inf)")
    head_lr: float | None = setting(
        None, "Learning rate of the head and of a loss's own parameters; `lr` by default.", interval="(0, inf)"
    )
    bias_lr: float | None = setting(
        None, "Learning rate of the biases of the head; that of the head by default.", interval="(0, inf)"
    )
    weight_decay: float = setting(0.01, "Weight decay.", interval="[0, inf)")
    decay_all: bool = setting(False, "Whether biases and scales decay too; a loss's own parameters never do.")
    schedule: Literal["cosine", "step", "one-cycle", "constant"] = setting("cosine", "Schedule of the learning rate.")
    warmup: float = setting(0.05, "Share of the steps in which the learning rate rises.", interval="[0, 1)")
    milestones: tuple[float, ...] = setting(
        (0.5, 0.75), "For `step`: after which shares of the run the rate falls.", check=check_milestones
    )
    drop: float = setting(0.1, "For `step`: the factor by which it falls.", interval="(0, 1]")
    ema: float | None = setting(
        None, "Decay of the moving average of the weights, which is then evaluated and saved.", interval="(0, 1)"
    )
    clip: float | None = setting(None, "Longest gradient that is applied as it is.", interval="(0, inf)")
    patience: int | None = setting(None, "Stop after this many epochs without a better `monitor`.", low=1)
    monitor: str = setting("mAP", "The metric that decides which epoch was best.")
    checkpoint_minutes: float = setting(5.0, "Minutes between checkpoints within an epoch.", interval="(0, inf)")
    seed: int = setting(0, "Random seed.", low=0)
    precision: Literal["32", "bf16", "16"] = setting("32", "Floating-point precision of the network.")
    accelerator: Literal["auto", "cpu", "cuda", "mps"] = setting("auto", "Where to train.")
    devices: int | Literal["auto"] = setting("auto", "How many devices of one machine.", low=1)
    find_unused_parameters: bool = setting(False, "For several processes: whether parameters may lack a gradient.")
    compile: bool = setting(False, "Whether to compile the network.")
    tensorboard: bool = setting(False, "Whether to log to TensorBoard too.")

    def __post_init__(self) -> None:
        check_settings(self)

    def replace(self, **settings: Any) -> Self:
        """A copy with other settings."""
        return replace(self, **settings)


@dataclass(frozen=True, kw_only=True)
class TrainSettings(FitSettings):
    """What to train, how, and which calibrator and rule to fit.

    Settings that are left out get the best known values for `tune`. Those that were passed are remembered, so that
    `replace` and a constructor with the same settings give equal settings. `loss`, `calibrator` and `rule` take objects
    too, and keep the text that builds them.

    Example:
        >>> settings = TrainSettings(tune="all", loss="SPA")
        >>> settings.epochs, settings.weight_decay
        (8, 0.05)
        >>> settings.replace(tune="head", lr=0.01).epochs
        20
    """

    tune: Literal["head", "all"] = setting(
        "head", "Train the head on frozen features, for which a CPU is enough, or all of the network."
    )
    backbone: str = setting("efficientnet_lite0", "Any model of timm, or efficientnet_lite0, which needs no download.")
    pretrained: bool = setting(True, "Whether the backbone starts from its published weights.")
    weights: str | None = setting(None, "A safetensors file to start the backbone from instead.")
    size: int | None = setting(None, "Side of the input images in pixels; that of the backbone by default.", low=1)
    head: Literal["linear", "cosine"] = setting("linear", "The kind of head.")
    bias: Literal["label", "shared", "none"] | None = setting(
        None,
        "The bias of the head: one per label, one for all or none; by default one per label where the loss has none.",
    )
    scale: float = setting(16.0, "Scale of a cosine head.", interval="(0, inf)")
    hidden: int | None = setting(
        None,
        "Units of a hidden layer, 0 for none; by default 1,024 on frozen features, else none.",
        low=0,
    )
    dropout: float | None = setting(None, "Share of hidden units that are dropped; 0.7 by default.", interval="[0, 1)")
    heads: int | None = setting(
        None, "Heads with hidden units whose scores are averaged; 2 by default, 1 where `hidden` is set.", low=1
    )
    loss: str = setting("", "Any loss as in Python, or a short name: BCE, focal, ASL, SPA, two-way, ...", check=as_text)
    augmentation: Literal["none", "light", "strong"] = setting("light", "Augmentation of images, for fine-tuning.")
    flip: bool = setting(True, "Whether images may be mirrored; no for digits and text.")
    calibrator: str = setting("BetaCalibration()", "Any calibrator as in Python, or none.", check=as_text)
    rule: str = setting("ExpectedFBeta()", "Any decision rule as in Python, or none.", check=as_text)
    val: float = setting(0.15, "Share of the validation split, where the data have none.", interval="[0, 1)")
    test: float = setting(0.15, "Share of the test split, where the data have none.", interval="[0, 1)")
    min_count: int = setting(1, "Labels with fewer training rows than this are left out.", low=0)
    on_bad_image: Literal["skip", "fail"] = setting("skip", "Skip images that cannot be read and list them, or stop.")
    workers: int | None = setting(None, "Processes that read images; chosen by the machine by default.", low=0)
    cache: str | None = setting(None, "Folder for frozen features; the user's cache by default, none to keep none.")

    _given: ClassVar[dict[str, Any]]
    # Set in every instance: `dataclasses.replace` passes it on, and cannot know which settings were passed.
    copied: InitVar[bool] = False

    def __new__(cls, **given: Any) -> Self:
        """Remembers which settings were passed."""
        self = super().__new__(cls)
        object.__setattr__(self, "_given", given)
        return self

    def __post_init__(self, copied: bool) -> None:
        if copied:
            hint = "Copy settings with `settings.replace(...)`."
            raise InputError("settings", "TrainSettings", "be built, or copied by `replace`", "a copy", hint)
        values: dict[str, Any] = {"copied": True, **PRESETS.get(str(self.tune), {})} | self._given
        usual = self.tune == "head" and self.head == "linear"
        values["loss"] = self.loss or LOSSES.get(str(self.tune), "")
        values["hidden"] = (1024 if usual else 0) if self.hidden is None else self.hidden
        values["dropout"] = (0.7 if values["hidden"] else 0.0) if self.dropout is None else self.dropout
        values["heads"] = (2 if usual and self.hidden is None else 1) if self.heads is None else self.heads
        for name, value in values.items():
            object.__setattr__(self, name, value)
        check_settings(self)
        if self.heads != 1 and (not self.hidden or self.head == "cosine"):
            hint = "Set `hidden` too, or leave `heads` out."
            raise InputError("heads", "TrainSettings", "be 1 for a head without hidden units", str(self.heads), hint)
        if self.hidden and self.head == "cosine":
            hint = "Leave `hidden` out, or take a linear head."
            raise InputError("hidden", "TrainSettings", "be 0 for a cosine head", str(self.hidden), hint)
        if self.val + self.test >= 1:
            got = f"{self.val:g} + {self.test:g}"
            raise InputError("val and test", "TrainSettings", "leave rows to train on", got, "Make them smaller.")

    @classmethod
    def build(cls, settings: Mapping[str, Any]) -> Self:
        """The settings of a mapping whose values may be text, as in YAML or on the command line.

        Example:
            >>> settings = TrainSettings.build({"loss": "SPA", "tune": "all", "epochs": "3", "ema": "none"})
            >>> settings.epochs, settings.schedule, settings.ema
            (3, 'one-cycle', None)
        """
        kinds = setting_types(cls)
        for name in settings:
            if name not in kinds:
                hint = suggest(str(name), kinds, f"There are {', '.join(kinds)}.", show=repr)
                raise InputError("settings", "TrainSettings", "be known", repr(name), hint)
        return cls(**{name: from_text(value, kinds[name]) for name, value in settings.items()})

    def replace(self, **settings: Any) -> Self:
        """A copy with other settings; settings that were never passed get the values that suit the new ones."""
        return self.build({**self._given, **settings})

    def to_dict(self) -> dict[str, Any]:
        """All settings as values that YAML can hold."""
        return plain_values(self)


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """How data are read: paths, the options of `read_data`, and files of corrected labels."""

    paths: tuple[str, ...] = ()
    layout: str | None = setting(
        None, "If not detected correctly: table, folders, imagefolder, coco, voc, open_images, webdataset or npz."
    )
    path_column: str | None = setting(None, "The column of image paths.")
    labels_column: str | None = setting(None, "The column of label names.")
    split_column: str | None = setting(None, "The column of splits.")
    separator: str | None = setting(None, "What separates two label names, such as '|' or ';'.")
    root: str | None = setting(None, "The folder that image paths are relative to (default: beside DATA).")
    unlisted: Literal["absent", "unknown"] | None = setting(
        None, "What it means that a label is not listed for an image (default: absent; unknown for blank cells)."
    )
    corrections: tuple[str, ...] = ()

    @classmethod
    def build(cls, *paths: str, corrections: Iterable[str] = (), root: str | None = None, **options: Any) -> Self:
        """A source whose paths are made absolute, because a run may be resumed from another folder."""
        absolute = [
            str(Path(path).absolute()) if Path(path).exists() or set(path) & set("*?[{") else path for path in paths
        ]
        # Links of folders are resolved: `runs/last` points to another run as soon as this one has finished.
        real = [os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)) for path in corrections]
        folder = str(Path(root).absolute()) if root else None
        return cls(paths=tuple(absolute), root=folder, corrections=tuple(dict.fromkeys(real)), **options)

    def to_dict(self) -> dict[str, Any]:
        """What was given, as values that YAML can hold."""
        return {name: value for name, value in plain_values(self).items() if value not in (None, [])}


def plain_values(settings: FitSettings | DataSource) -> dict[str, Any]:
    """All fields as values that YAML can hold."""
    values = {item.name: getattr(settings, item.name) for item in fields(settings)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def setting_types(cls: type) -> dict[str, Any]:
    """The type of each setting by name, first those of the class itself."""
    hints, own = typing.get_type_hints(cls), cls.__annotations__
    return {item.name: hints[item.name] for item in sorted(fields(cls), key=lambda item: item.name not in own)}


def members_of(kind: Any) -> tuple[Any, ...]:
    """The types that a value may have, and the choices instead of `Literal`.

    Example:
        >>> members_of(int | Literal["auto"] | None)
        (<class 'int'>, 'auto', <class 'NoneType'>)
    """
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        return tuple(member for part in typing.get_args(kind) for member in members_of(part))
    return typing.get_args(kind) if typing.get_origin(kind) is Literal else (kind,)


def default_text(name: str) -> str:
    """The default of a setting of `TrainSettings` in words, of both presets where they differ; "" for None.

    Example:
        >>> default_text("epochs"), default_text("loss")
        ('20; with tune=all 8', 'BCE + two-way; with tune=all BCE')
    """
    short = {text: loss for loss, text in ALL_LOSSES.items()}
    default = getattr(TrainSettings, name)
    values = LOSSES if name == "loss" else {tune: preset.get(name, default) for tune, preset in PRESETS.items()}
    head, other = (short.get(values[tune], str(values[tune])) for tune in ("head", "all"))
    text = head if head == other else f"{head}; with tune=all {other}"
    return "" if text == "None" else text


def check_settings(settings: FitSettings) -> None:
    """Gives each setting the value that its check returns, a plain int for an integer of NumPy."""
    from manyhot.checks import check_bool, check_choice, check_int, check_number, check_str

    kinds = setting_types(type(settings))
    for item in fields(settings):
        value, members, limits = getattr(settings, item.name), members_of(kinds[item.name]), item.metadata
        if value is None and type(None) in members:
            continue
        argument = item.name, type(settings).__name__, value
        choices = [member for member in members if isinstance(member, str)]
        if "check" in limits:
            value = limits["check"](*argument)
        elif "low" in limits and value not in choices:
            value = check_int(*argument, low=limits["low"])
        elif "interval" in limits:
            value = check_number(*argument, limits["interval"])
        elif choices:
            value = check_choice(*argument, choices)
        else:
            value = check_bool(*argument) if bool in members else check_str(*argument)
        object.__setattr__(settings, item.name, value)


_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def from_text(value: Any, kind: Any) -> Any:
    """A value from YAML or the command line in the type of a setting; as it is where it is none of that type."""
    members = members_of(kind)
    if isinstance(value, str):
        word = value.lower()
        if type(None) in members and str not in members and word in {"none", "null"}.difference(members):
            return None
        if bool in members:
            return _WORDS.get(word, value)
        for number in (int, float):
            with suppress(ValueError):
                if number in members:
                    return number(value)
    elif isinstance(value, float) and int in members and value.is_integer():
        return int(value)
    elif isinstance(value, int) and not isinstance(value, bool) and not {int, float} & set(members):
        return str(value)  # `precision: 32` in a file
    return value


# The format of config.yaml. 2: losses, calibrators and rules have other names. 3: no `nodes`, no `strategy`.
FORMAT = 3


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
        settings |= {name: upgrade_text(settings[name]) for name in EXAMPLES if isinstance(settings.get(name), str)}
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
