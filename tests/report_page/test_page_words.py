"""What is said in plain language is true."""

import pytest
import torch

import manyhot as mh
from manyhot.report import Report
from manyhot.report import findings as words
from manyhot.report.findings import format_rate, format_share, share_of
from manyhot.report.style import plot_labels
from tests.report_page.material import population


def subject(**columns):
    (found,) = Report(mh.Predictions(**columns)).models
    return found


def test_a_share_of_independent_cells_has_the_interval_of_wilson():
    hits = (torch.arange(200) % 4 != 0).reshape(50, 4)
    share = share_of(hits, torch.ones(50, 4, dtype=torch.bool))
    assert (share.hits, share.cells) == (150, 200)
    assert (share.low, share.high) == pytest.approx((0.6858, 0.8049), abs=1e-3)


def test_an_interval_holds_the_true_share_also_where_cells_of_a_row_go_together():
    draw = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(400):
        rows = torch.rand(60, 1, generator=draw) < 0.7
        share = share_of(rows.expand(60, 5), torch.ones(60, 5, dtype=torch.bool))
        held += share.low <= 0.7 <= share.high
    assert 0.92 < held / 400 < 0.98


def test_no_cells_have_no_share():
    assert share_of(torch.ones(3, 2, dtype=torch.bool), torch.zeros(3, 2, dtype=torch.bool)) is None


def test_what_is_not_everything_is_not_rounded_to_it():
    assert format_share(0.9996) == "99.96 %"
    assert format_share(1.0) == "100 %"
    assert format_share(0.0) == "0 %"
    assert format_rate(0.5, "label missed", "row") == "one label missed in every 2 rows"
    assert format_rate(0.0, "label missed", "row") == "no label missed"


def test_promises_that_are_kept_pass_without_a_word_and_others_are_named():
    draw = torch.Generator().manual_seed(0)
    probs = torch.full((300, 2), 0.95)
    kept = (torch.rand(300, 2, generator=draw) < 0.95).int()
    broken = (torch.rand(300, 2, generator=draw) < 0.7).int()
    (line,) = words.describe_probs(subject(probs=probs, targets=kept))
    assert line.startswith("Of the 600 answers above 90 %, 9")
    assert line.endswith("; 95 % was predicted.")
    (line,) = words.describe_probs(subject(probs=probs, targets=broken))
    assert line.endswith("; 95 % was predicted, which was too high.")
    (line,) = words.describe_probs(subject(probs=torch.full((300, 2), 0.6), targets=kept))
    assert line.startswith("Of the 600 answers between 50 and 90 %")
    assert line.endswith("; 60 % was predicted, which was too low.")


def test_unknown_cells_are_neither_right_nor_wrong():
    probs = torch.full((20, 2), 0.95)
    targets = torch.tensor([[1, -1]]).repeat(20, 1)
    found = subject(probs=probs, targets=targets)
    assert next(words.describe_probs(found)).startswith("Of the 20 answers above 90 %, 100 % were right")
    said = list(words.describe_sets(found))
    assert said[0].startswith(
        "A row is given 2.00 labels on average. Of labels whose truth is known it is given 1.00 and has 1.00; "
        "that is no label too many"
    )
    assert said[-1] == "Of 20 rows, 20 (100 %) get exactly the right labels."


def test_errors_are_counted_a_row():
    targets = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]])
    given = torch.tensor([[1, 1], [1, 0], [0, 0], [0, 1]]).bool()
    said = list(words.describe_sets(subject(probs=torch.rand(4, 2), targets=targets, decisions=given)))
    assert "one label too many in every 4 rows, and one label missed in every 4 rows" in said[0]
    assert said[1].startswith("Of the 4 predicted labels, 75 % are right")
    assert said[-1] == "Of 4 rows, 2 (50 %) get exactly the right labels."


def test_rows_become_pictures_where_there_are_paths():
    probs, targets = population(30, 3)
    found = subject(probs=probs, targets=targets, paths=[f"{row}.jpg" for row in range(30)])
    assert "An image is given" in next(words.describe_sets(found))


def test_names_in_figures_stay_apart_and_in_one_line():
    assert plot_labels(["a\nb", "$x$", "y" * 50, "y" * 50 + "z"]) == [
        "a\\nb",
        "$x$",
        "y" * 29 + "…",
        "y" * 29 + "… (2)",
    ]


def test_an_interval_of_shares_near_one_holds_the_truth_where_rows_go_together():
    draw = torch.Generator().manual_seed(0)
    held = 0
    for _ in range(600):
        rows = torch.rand(20, 1, generator=draw) < 0.95
        share = share_of(rows.expand(20, 10), torch.ones(20, 10, dtype=torch.bool))
        held += share.low <= 0.95 <= share.high
    # 18 hits or more of 20 rows, which happens 92.5 times in 100; taken for 200 cells, it would be 57 times.
    assert 0.89 < held / 600 < 0.98


def test_nothing_and_everything_have_ends_without_digits():
    everything = share_of(torch.ones(30, 4).bool(), torch.ones(30, 4).bool())
    assert everything.ends == "95 %: 89 to 100 %"
    assert share_of(torch.zeros(30, 4).bool(), torch.ones(30, 4).bool()).ends == "95 %: 0 to 11 %"
    assert format_share(1 - 1e-16) == "100 %"
    assert format_share(1 - 2e-10) == "100 %"


def test_rows_left_to_a_person_are_not_said_to_be_given_something():
    targets = torch.tensor([[0, 0], [0, 0], [0, 0], [1, 0], [1, 0]])
    table = {"probs": torch.full((5, 2), 0.2), "targets": targets, "decisions": torch.zeros(5, 2).bool()}
    (line,) = words.describe_empty_rows(subject(**table, abstain=torch.tensor([True, False, False, True, False])))
    assert line == "Of 2 rows without labels, 2 (100 %) are given none; so are 1 of the 1 with labels."


def test_the_error_of_all_cells_is_not_sold_as_that_of_a_promise():
    probs = torch.full((200, 2), 0.5)
    targets = torch.tensor([[1, 0]]).repeat(200, 1)
    (line,) = words.describe_calibration(subject(probs=probs, targets=targets))
    assert "off by 0.0 percentage points; those of a single label by 50.0 on average" in line
