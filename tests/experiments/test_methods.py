"""Methods: the head that each gets, and where its bias starts."""

import pytest
import torch

import manyhot as mh
from experiments.training import Method, build_head, new_spelling, old_spelling
from manyhot.errors import InputError
from manyhot.heads import CosineHead, LinearHead, MLPHead, TwoHeads, diverse_bias
from manyhot.registry import RENAMED

WIDTH, RATES = 6, torch.tensor([0.5, 0.1, 0.02])
BCE = "BinaryCrossEntropyLoss()"


def built(method, loss=None, *, seed=0):
    return build_head(method, WIDTH, 3, loss or mh.BinaryCrossEntropyLoss(), RATES, seed=seed)


def test_the_bias_starts_where_the_link_makes_the_label_rates_of_it():
    head = built(Method("BCE", BCE))
    torch.testing.assert_close(head(torch.zeros(1, WIDTH)).sigmoid(), RATES[None])
    own = mh.StrictlyProperAsymmetricLoss()
    head = built(Method("SPA", "StrictlyProperAsymmetricLoss()"), own)
    torch.testing.assert_close(own.link.probs(head(torch.zeros(1, WIDTH))), RATES[None], rtol=1e-4, atol=1e-5)


def test_label_pairs_start_where_the_loss_within_does_though_they_leave_no_link():
    loss = mh.LabelPairRegulariser(mh.AsymmetricLoss(), 0.1, link=mh.SigmoidLink())
    assert isinstance(loss.link, mh.links.NoLink)
    head = built(Method("ASL + LPR", repr(loss)), loss)
    torch.testing.assert_close(loss.loss.link.probs(head(torch.zeros(1, WIDTH))), RATES[None], rtol=1e-4, atol=1e-5)


def test_the_bias_starts_at_zero_where_that_is_asked_for_or_there_is_no_link():
    for head in (built(Method("BCE", BCE, start="zero")), built(Method("WARP", "WARPLoss()"), mh.losses.WARPLoss())):
        assert head(torch.zeros(1, WIDTH)).tolist() == [[0, 0, 0]]


def test_modes_start_the_bias_as_they_are_defined():
    zero = torch.zeros(1, WIDTH)
    result = [built(Method("BCE", BCE, start=f"mode {mode}"))(zero).flatten() for mode in range(8)]
    for mode in range(1, 8):
        torch.testing.assert_close(result[mode], diverse_bias(mode, 3))
    assert len({tuple(bias.tolist()) for bias in result}) == 8


def test_the_seed_decides_a_bias_that_is_drawn():
    drawn, zero = Method("BCE", BCE, start="mode 0"), torch.zeros(1, WIDTH)
    assert torch.equal(built(drawn)(zero), built(drawn)(zero))
    assert not torch.equal(built(drawn)(zero), built(drawn, seed=1)(zero))


@pytest.mark.parametrize("start", ["rate", "Zero", ""])
def test_a_wrong_start_is_refused(start):
    with pytest.raises(InputError) as caught:
        built(Method("BCE", BCE, start=start))
    rule = "`start` of `Method` must be 'rates', 'sigmoid rates', 'zero' or 'mode 0' to 'mode 7'"
    assert str(caught.value) == f"{rule}; got {start!r}. Pick one."


def test_the_same_seed_gives_the_same_weights_whatever_the_loss():
    ours, theirs = built(Method("BCE", BCE)), built(Method("SPA", "SPA"), mh.StrictlyProperAsymmetricLoss())
    assert torch.equal(ours.weight, theirs.weight)
    assert not torch.equal(ours.weight, built(Method("BCE", BCE), seed=1).weight)


def test_building_a_head_leaves_the_random_numbers_alone():
    before = torch.random.get_rng_state()
    built(Method("BCE", BCE, start="mode 1"))
    assert torch.equal(torch.random.get_rng_state(), before)


def test_methods_get_the_head_they_name():
    assert isinstance(built(Method("linear", BCE)), LinearHead)
    assert isinstance(built(Method("hidden", BCE, hidden=8)), MLPHead)
    assert isinstance(built(Method("two", "AverageKLoss(2)"), mh.AverageKLoss(2)), TwoHeads)
    cosine = built(Method("cosine", BCE, head="cosine", bias="shared", scale=4.0))
    assert isinstance(cosine, CosineHead)
    features = torch.randn(50, WIDTH, generator=torch.Generator().manual_seed(0))
    spread = cosine(features) - cosine(torch.zeros(1, WIDTH))
    assert 1 < spread.abs().max() <= 4.0
    assert built(Method("none", BCE, bias="none"))(torch.zeros(1, WIDTH)).tolist() == [[0, 0, 0]]


def test_the_name_of_a_method_decides_nothing():
    assert Method("one", BCE).settings() == Method("two", BCE).settings()
    assert Method("one", BCE).settings() != Method("one", BCE, start="zero").settings()


def test_sigmoid_heads_without_a_link_may_start_at_the_label_rates():
    rates = torch.tensor([0.5, 0.2, 0.1])
    expected = torch.logit(rates)
    head = build_head(Method("AN", "AN", start="sigmoid rates"), 4, 3, mh.losses.AssumeNegativeLoss(), rates, seed=0)
    torch.testing.assert_close(head.bias.data, expected)
    heads = build_head(Method("AVG-K", "", start="sigmoid rates"), 4, 3, mh.AverageKLoss(2), rates, seed=0)
    torch.testing.assert_close(heads.multi.bias.data, expected)
    assert not heads.single.bias.any()


@pytest.mark.parametrize(
    ("text", "old"),
    [
        ("SoftmaxCrossEntropyLoss(no_label='uniform')", "CrossEntropyLoss(no_label='uniform')"),
        ("MultiLabelSoftmaxLoss()", "SoftmaxLoss()"),
        (
            "SumLoss(FocalLoss(2, 2), BinaryCrossEntropyLoss(), link=SigmoidLink())",
            "SumLoss(AsymmetricFocalLoss(2, 2), BinaryCrossEntropyLoss(), link=SigmoidLink())",
        ),
        ("Abstain(ExpectedFBeta(), share=0.1)", "AskPerson(ExpectedF(), share=0.1)"),
        ("TwoWayLoss('FocalLoss')", "TwoWayLoss('FocalLoss')"),
    ],
)
def test_stored_results_spell_classes_by_their_first_names(text, old):
    assert old_spelling(text) == old
    assert old_spelling(old) == old
    assert new_spelling(old) == text
    assert new_spelling(text) == text
    assert Method("", text).settings()["loss"] == old


def test_every_class_with_an_old_name_is_spelled_by_it():
    for old, new in RENAMED.items():
        assert (old_spelling(f"{new}()"), new_spelling(f"{old}()")) == (f"{old}()", f"{new}()")
