"""Losses print as the call that makes them: with every argument, to the last digit, the same in every process."""

import copy
import dataclasses
import inspect
import pickle

import pytest
import torch

import manyhot as mh
from manyhot.curves import FocalCurve
from manyhot.registry import classes, construct
from manyhot.training.build import EachHeadLoss

CLOSE = (0.1234567, 0.1234568)
TARGETS = torch.zeros(40, 5, dtype=torch.int8)
OTHER_TARGETS = TARGETS.clone()
OTHER_TARGETS[17, 3] = 1

# Two values of every argument that a loss takes, by its name; numbers that differ in the seventh digit.
VALUES = {
    "alpha": CLOSE,
    "axis": ("sample", "class"),
    "b_neg": CLOSE,
    "b_pos": CLOSE,
    "beta": CLOSE,
    "class_weight": CLOSE,
    "curve": tuple(FocalCurve(gamma, 1.0) for gamma in CLOSE),
    "draws": (2, 3),
    "epsilon": CLOSE,
    "expected_labels": CLOSE,
    "floor": (-0.1234567, -0.1234568),
    "gamma_neg": CLOSE,
    "gamma_pos": CLOSE,
    "generator": (torch.Generator().manual_seed(1), torch.Generator().manual_seed(2)),
    "heads": (2, 3),
    "k": (2, 3),
    "k_neg": CLOSE,
    "k_pos": CLOSE,
    "link": tuple(mh.links.AsymmetricLink(gamma, pos_weight=[0.5, 0.25]) for gamma in CLOSE),
    "loss": tuple(mh.BinaryCrossEntropyLoss(pos_weight=[1.0, weight]) for weight in CLOSE),
    "losses": tuple(mh.BinaryCrossEntropyLoss(pos_weight=weight) for weight in CLOSE),
    "margin": CLOSE,
    "negative_weight": CLOSE,
    "no_label": ("uniform", "maxconf"),
    "no_label_weight": CLOSE,
    "num_labels": (4, 5),
    "penalty_weight": CLOSE,
    "pos_weight": (torch.full((200,), 3.0), torch.arange(1.0, 201.0)),
    "reduction": ("mean", "sum"),
    "targets": (TARGETS, OTHER_TARGETS),
    "temperature_neg": CLOSE,
    "temperature_pos": CLOSE,
    "weight": CLOSE,
    "weights": tuple((weight,) for weight in CLOSE),
    "zeta_neg": CLOSE,
    "zeta_pos": CLOSE,
}
KINDS = {**classes(mh.Loss), "AdditiveLoss": mh.losses.AdditiveLoss, "EachHeadLoss": EachHeadLoss}
CHANGES = [(name, p) for name, kind in KINDS.items() if name != "Loss" for p in inspect.signature(kind).parameters]


def built(kind, **changed):
    """A loss with what it must be given, and what is changed."""
    parameters = inspect.signature(kind).parameters
    needed = [n for n, p in parameters.items() if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    given = {name: VALUES[name][0] for name in needed} | changed
    return kind(given.pop("losses", VALUES["losses"][0]), **given) if "losses" in parameters else kind(**given)


@pytest.mark.parametrize(("name", "argument"), CHANGES)
def test_every_argument_shows(name, argument):
    one, other = (repr(built(KINDS[name], **{argument: value})) for value in VALUES[argument])
    assert one != other
    assert one == repr(built(KINDS[name], **{argument: VALUES[argument][0]}))
    assert " at 0x" not in one


def test_equal_calls_are_spelt_alike():
    texts = {repr(loss) for loss in (mh.AsymmetricLoss(), mh.AsymmetricLoss(4, margin=0.05), mh.AsymmetricLoss(4.0, 0))}
    assert texts == {"AsymmetricLoss(gamma_neg=4, gamma_pos=0, margin=0.05, pos_weight=None, reduction='mean')"}


def test_the_text_makes_the_loss_again():
    loss = mh.SumLoss(
        mh.LabelPairRegulariser(mh.BinaryCrossEntropyLoss(pos_weight=[1, 2.5]), 0.1),
        mh.TwoWayLoss(margin=1 / 3),
        weights=(1, 0.01),
        link=mh.SigmoidLink(),
    )
    assert repr(construct(repr(loss), mh.Loss)) == repr(loss)


def test_a_curve_of_ones_own_may_be_a_frozen_dataclass():
    @dataclasses.dataclass(frozen=True)
    class Steep(mh.losses.Curve):
        steepness: float

        def branches(self, scores):
            return FocalCurve(0, 0).branches(self.steepness * scores)

    assert mh.links.CurveLink(Steep(0.5)).log_odds(torch.tensor([2.0])).item() == pytest.approx(1)
    for curve in (Steep(0.5), pickle.loads(pickle.dumps(FocalCurve(0.5, 1)))):
        assert "=0.5" in repr(curve)


def test_copies_are_spelt_alike_and_what_was_given_may_change():
    weight = torch.tensor([1.0, 2.0])
    loss = mh.losses.ROLELoss(TARGETS, 1.5, generator=torch.Generator().manual_seed(3))
    weighted = mh.BinaryCrossEntropyLoss(pos_weight=weight)
    weight += 1
    assert repr(weighted) == "BinaryCrossEntropyLoss(pos_weight=[1, 2], reduction='mean')"
    for one in (loss, weighted):
        assert repr(copy.deepcopy(one)) == repr(pickle.loads(pickle.dumps(one))) == repr(one)
