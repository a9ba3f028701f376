"""Which pictures a person should look at first."""

import pytest
import torch

from manyhot.decide import Decision
from manyhot.studio.review_queue import by_label_error, by_uncertainty, check_order, find_suspects
from tests.errors.expected import raises_input_error

PROBS = torch.tensor([[0.5, 0.5], [0.99, 0.01], [0.9, 0.4], [0.02, 0.97]])
NAMES = ["dog", "cat"]
ALL = torch.ones(4, dtype=torch.bool)


def test_the_most_uncertain_come_first_and_before_them_who_asks_for_a_person():
    labels = PROBS >= 0.5
    nobody = torch.zeros(4, dtype=torch.bool)
    queue = by_uncertainty(PROBS, Decision(labels, nobody), ALL)
    assert queue.rows.tolist() == [0, 2, 3, 1]
    assert queue.scores.tolist() == pytest.approx([1.0, 0.5, 0.05, 0.02])
    asks = by_uncertainty(PROBS, Decision(labels, torch.tensor([False, True, False, False])), ALL)
    assert asks.rows.tolist() == [1, 0, 2, 3]
    assert asks.scores.tolist() == pytest.approx([0.02, 1.0, 0.5, 0.05])


def test_probable_errors_are_labels_whose_truth_is_improbable():
    targets = torch.tensor([[0, 0], [0, 0], [1, 0], [1, 1]])
    queue = by_label_error(PROBS, targets, ALL)
    assert queue.rows.tolist() == [1, 3]  # dog at 99 % and not labelled, dog at 2 % and labelled
    assert queue.scores.tolist() == pytest.approx([0.99, 0.98])


def test_what_is_seen_and_not_annotated_comes_before_what_is_annotated_and_not_seen():
    queue = by_label_error(PROBS, torch.tensor([[1, 1], [1, 1], [0, 0], [1, 1]]), ALL)
    assert queue.rows.tolist() == [2, 1, 3]
    assert queue.scores.tolist() == pytest.approx([0.9, 0.99, 0.98])
    first, second = find_suspects("errors", NAMES, torch.tensor([0.01, 0.6]), torch.tensor([1, 0]), [])
    assert (first.name, second.name) == ("cat", "dog")


def test_unknown_cells_and_finished_rows_are_left_out():
    targets = torch.tensor([[0, 0], [-1, 0], [1, 0], [1, 1]])
    assert by_label_error(PROBS, targets, ALL).rows.tolist() == [3]
    assert by_label_error(PROBS, targets, torch.tensor([True, True, True, False])).rows.tolist() == []


def test_pages_of_a_queue():
    queue = by_uncertainty(PROBS, Decision(PROBS >= 0.5, torch.zeros(4, dtype=torch.bool)), ALL)
    assert [row for row, _ in queue.page(1, 2)] == [2, 3]
    assert queue.page(9, 2) == []


def test_questions_name_the_label_its_probability_and_what_is_said_of_it():
    missing, wrong = find_suspects("errors", NAMES, torch.tensor([0.98, 0.03]), torch.tensor([0, 1]), [])
    assert missing.question_words == "dog, 98.0 %, is not among its labels. Is it there?"
    assert wrong.question_words == "cat, 3.0 %, is among its labels. Is it there?"
    (open_one,) = find_suspects("uncertain", NAMES, torch.tensor([0.55, 0.03]), None, [])
    assert open_one.question_words == "dog, 55 %. Is it there?"


def test_nobody_is_asked_again():
    assert find_suspects("errors", NAMES, torch.tensor([0.98, 0.97]), torch.tensor([0, 0]), [0])[0].name == "cat"
    assert find_suspects("uncertain", NAMES, torch.tensor([0.5, 0.01]), None, [0]) == []


def test_errors_need_true_labels():
    with raises_input_error("order", "studio", rule="be 'uncertain' where no true labels are known"):
        check_order("errors", None)
