"""A probability looks the same wherever people read it."""

import math

import pytest
import torch

import manyhot as mh
from manyhot.classifier.classifier import Answer
from manyhot.cli.search import print_result
from manyhot.report import Report, draw_examples
from manyhot.report.examples import Pick, card_note
from manyhot.search.collection import Hit, SearchResult
from manyhot.studio.items import shown_labels
from tests.report_page.material import population

WORDS = {0.9995: "99.950 %", 0.98: "98.0 %", 0.5: "50 %", 0.0004: "0.040 %", 1 - 1e-9: "> 99.9999 %"}


@pytest.mark.parametrize(("prob", "words"), WORDS.items())
def test_every_command_the_report_and_the_studio_write_it_alike(capsys, prob, words):
    answer = Answer(path="a.jpg", labels=["cat"], probs={"cat": prob}, abstain=False, none=False)
    assert repr(answer) == f"Answer('a.jpg': cat {words})"
    print_result(SearchResult("cat", [Hit("a", "a.jpg", prob, math.log(prob))], None, prob, None))
    assert f" {words} " in capsys.readouterr().out
    (label,) = shown_labels(["cat"], torch.tensor([prob], dtype=torch.float64), torch.tensor([True]))
    assert label.prob_words == words
    (axis,) = draw_examples([{"image": None, "title": "a.jpg", "labels": [("cat", prob, True, 1)]}]).axes
    assert words in [text.get_text() for text in axis.texts]
    probs, targets = population(60, 2)
    probs, targets[0, 0] = probs.double(), 0
    probs[0, 0] = prob
    (subject,) = Report(mh.Predictions(probs=probs, targets=targets)).models
    assert card_note(subject, Pick(row=0, label=0)) == f"0: {words}, but not labelled"
