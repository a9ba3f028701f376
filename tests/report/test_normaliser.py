"""The trace of quasibinary's normaliser."""

import math

import pytest
import torch

import manyhot as mh
from manyhot.errors import InputError
from manyhot.report import draw_normaliser


def words(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def trace(seed):
    """Of a loss that sees batches of scores and keeps its moving average."""
    draw = torch.Generator().manual_seed(seed)
    loss = mh.QuasibinaryLoss()
    batch, average = [], []
    for _ in range(20):
        scores = torch.randn(8, 5, generator=draw)
        loss(scores, torch.ones(8, 5))
        batch.append(float(scores.logsumexp((0, 1)) - math.log(40)))
        average.append(float(loss.link.log_normaliser))
    return {"steps": list(range(20)), "batch": batch, "average": average, "all_rows": [None] * 19 + [0.5]}


def test_lines_and_marks_of_every_seed():
    traces = {f"seed {seed}": trace(seed) for seed in range(3)}
    axis = draw_normaliser(traces).axes[0]
    assert len(axis.lines) == 9
    for place, kept in enumerate(traces.values()):
        batch, average, all_rows = axis.lines[3 * place : 3 * place + 3]
        assert batch.get_ydata().tolist() == kept["batch"]
        assert average.get_ydata().tolist() == kept["average"]
        assert all_rows.get_xydata().tolist() == [[19, 0.5]]
        assert batch.get_linewidth() < average.get_linewidth()
        assert all_rows.get_linestyle() == "None"
        assert batch.get_color() == average.get_color() == all_rows.get_color()
    legend = [text.get_text() for text in axis.get_legend().get_texts()]
    assert legend == ["seed 0", "seed 1", "seed 2", "of each batch", "moving average", "of all rows"]


def test_only_what_there_is():
    axis = draw_normaliser({"a": {"steps": [1, 2], "average": torch.tensor([1.0, 2.0]), "all_rows": 3.0}}).axes[0]
    assert [line.get_xydata().tolist() for line in axis.lines] == [[[1, 1], [2, 2]], [[2, 3]]]
    assert [text.get_text() for text in axis.get_legend().get_texts()] == ["a", "moving average", "of all rows"]


def test_what_is_refused():
    assert words(lambda: draw_normaliser({"a": {"steps": [1, 2]}})) == (
        "`traces['a']` of `draw_normaliser` must have one of 'batch', 'average' and 'all_rows'; got none of them. "
        'Pass {"steps": [...], "average": [...]} and, where known, "batch" and "all_rows" of the same length.'
    )
    assert words(lambda: draw_normaliser({"a": {"steps": [1, 2], "average": [1.0]}})) == (
        "`traces['a']['average']` of `draw_normaliser` must be as long as the others, 2; got 1. "
        "Pass one number for each."
    )
    assert words(lambda: draw_normaliser({"a": {"steps": [1, math.inf], "average": [1.0, 2.0]}})) == (
        "`traces['a']['steps']` of `draw_normaliser` must be a row of finite numbers; got inf. "
        "Pass a list, an array or a tensor of one axis."
    )
    assert words(lambda: draw_normaliser({"a": [1, 2]})) == (
        "`traces['a']` of `draw_normaliser` must be a mapping of lists; got list. "
        'Pass {"steps": [...], "average": [...]} and, where known, "batch" and "all_rows" of the same length.'
    )
