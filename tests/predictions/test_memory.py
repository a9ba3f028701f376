"""The table in memory."""

import numpy as np
import pandas
import pytest
import scipy.sparse
import torch
from sklearn.ensemble import RandomForestClassifier

import manyhot as mh
from manyhot.calibrate.calibrator import Calibrator
from manyhot.data import from_arrays
from manyhot.decide.rule import Decision, Rule
from manyhot.predictions import Predictions, index_targets
from tests.errors.expected import raises_input_error
from tests.predictions.tables import LABELS, assert_same, refused, table

SCORES = torch.tensor([[2.0, -1.0, 0.0], [0.5, 0.5, 0.5]])


class Half(Rule):
    """Everything above one half."""

    def __init__(self):
        super().__init__(fitted=True)

    def decide(self, values):
        return values > 0.5


class Doubled(Calibrator):
    """Doubles the log-odds: enough of a calibrator to be told from a link."""

    def fit_cells(self, input_log_odds, targets, weights):
        return self.learn()

    def map(self, input_log_odds):
        return 2 * input_log_odds


def test_defaults():
    predictions = Predictions(scores=SCORES)
    assert predictions.labels.names == ["0", "1", "2"]
    assert predictions.ids == ["0", "1"]
    assert predictions.kinds == ("scores",)
    assert (predictions.paths, predictions.splits, predictions.targets, predictions.abstain) == (None,) * 4
    assert predictions.split_sizes() == {}
    assert len(predictions) == 2


def test_arrays_and_lists_are_taken():
    predictions = Predictions(
        scores=SCORES.numpy(),
        probs=SCORES.sigmoid().numpy(),
        targets=[[1, 0, -1], [0, 0, 0]],
        decisions=np.array([[1, 0, 0], [1, 1, 1]]),
        abstain=[False, True],
        ids=np.array([17, 4]),
        labels=mh.Labels(LABELS),
        splits="test",
    )
    assert predictions.targets.dtype == torch.int8
    assert predictions.targets.tolist() == [[1, 0, -1], [0, 0, 0]]
    assert predictions.decisions.dtype == torch.bool
    assert predictions.abstain.tolist() == [False, True]
    assert predictions.ids == ["17", "4"]
    assert predictions.splits == ["test", "test"]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (torch.float16, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_precision(given, kept):
    predictions = Predictions(scores=SCORES.to(given), probs=SCORES.sigmoid().to(given))
    assert predictions.scores.dtype == predictions.probs.dtype == kept


TRUE = [[1, 0, 1], [0, 0, 0]]


@pytest.mark.parametrize(
    "given",
    [
        torch.tensor(TRUE),
        torch.tensor(TRUE).bool(),
        np.array(TRUE, dtype=float),
        torch.tensor(TRUE).to_sparse(),
        scipy.sparse.csr_matrix(np.array(TRUE)),
        scipy.sparse.coo_array(np.array(TRUE, dtype=bool)),
        [["cat", "dog"], []],
        [{"dog", "cat"}, set()],
        index_targets([[2, 0], []], 3),
    ],
    ids=["tensor", "bool", "array", "sparse tensor", "csr", "coo", "names", "sets", "columns"],
)
def test_targets_in_all_their_forms(given):
    predictions = Predictions(scores=SCORES, targets=given, labels=LABELS)
    assert predictions.targets.dtype == torch.int8
    assert predictions.targets.tolist() == TRUE


def test_lists_without_any_name():
    assert Predictions(scores=SCORES, targets=[[], []]).targets.tolist() == [[0, 0, 0]] * 2
    assert Predictions(scores=SCORES[:0], targets=[]).targets.shape == (0, 3)


def test_sparse_targets_may_hold_unknown_cells_and_no_other_values():
    matrix = scipy.sparse.coo_matrix(([1, -1], ([0, 1], [0, 2])), shape=(2, 3))
    assert Predictions(scores=SCORES, targets=matrix).targets.tolist() == [[1, 0, 0], [0, 0, -1]]
    two = scipy.sparse.coo_matrix(([2], ([0], [0])), shape=(2, 3))
    with raises_input_error(
        "targets", "Predictions", rule="be 1, 0 or -1 where they are stored", hint="Store a 1 for each label."
    ):
        Predictions(scores=SCORES, targets=two)


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize(("indices", "shape"), [([[1, 1]], (2,)), ([[1, 1], [2, 2], [0, 0]], (2, 3, 1))])
def test_sparse_targets_of_another_rank_are_refused_by_their_shape(indices, shape):
    with raises_input_error("targets", "Predictions", rule="be (N, K)", got=str(shape)):
        Predictions(scores=SCORES, targets=torch.sparse_coo_tensor(indices, [1, 1], shape))


@pytest.mark.filterwarnings("ignore:Sparse invariant checks")
@pytest.mark.parametrize("values", [[1, 1], [1, 0], [1, -1], [0, 0]])
def test_a_cell_that_is_stored_twice_is_refused_wherever_targets_are_taken(values):
    matrix = scipy.sparse.coo_matrix((values, ([1, 1], [2, 2])), shape=(2, 3))
    tensor = torch.sparse_coo_tensor([[1, 1], [2, 2]], values, (2, 3))
    for twice, call in ((matrix, "matrix.sum_duplicates()"), (tensor, "targets.coalesce()")):
        sentence = (
            "`targets` of `{}` must store each cell once; got row 1, column 2 more than once. "
            f"Join them with `{call}`, and store 1, 0 or -1 there."
        )
        with refused(sentence.format("Predictions")):
            Predictions(scores=SCORES, targets=twice)
        with refused(sentence.format("SparseTargets" if twice is matrix else "from_arrays")):
            from_arrays(torch.eye(2), twice)
    once = torch.sparse_coo_tensor([[1, 1], [2, 0]], [1, -1], (2, 3))
    assert Predictions(scores=SCORES, targets=once).targets.tolist() == [[0, 0, 0], [-1, 0, 1]]


@pytest.mark.parametrize("rows", [[["a", "c"], []], [np.array(["a", "c"], dtype=object), np.array([], dtype=object)]])
def test_a_series_of_lists_of_names_is_taken_as_targets(rows):
    series = pandas.Series(rows, index=["x", "y"])
    assert Predictions(scores=SCORES, targets=series, labels=["a", "b", "c"]).targets.tolist() == [[1, 0, 1], [0] * 3]
    data = from_arrays(torch.eye(2), series)
    assert data.labels.decode(data.targets.dense()) == [["a", "c"], []]


@pytest.mark.parametrize("row", ["cat|dog", None, 3])
def test_rows_of_a_series_that_are_no_lists_are_refused_by_name(row):
    series = pandas.Series([["cat"], row])
    with refused(
        f"`targets` of `Predictions` must be a list of label names for each row; got {row!r} in row 1. "
        "Pass ['cat', 'dog'] for a row of these two, and [] for one without labels."
    ):
        Predictions(scores=SCORES, targets=series, labels=["cat", "dog", "c"])


def test_texts_of_several_labels_are_not_taken_for_one():
    for given in (["cat|dog", "dog"], pandas.Series(["cat|dog", "dog"])):
        with raises_input_error(
            "y",
            "from_arrays",
            rule="hold one label or a list of labels for each sample",
            got="'cat|dog'",
            hint="Split the texts first: `[text.split('|') for text in y]`.",
        ):
            from_arrays(torch.eye(2), given)
    assert from_arrays(torch.eye(2), pandas.Series(["cat", "dog"])).labels.names == ["cat", "dog"]


def test_lists_of_a_series_that_name_no_label_are_refused():
    with raises_input_error(got="'z'"):
        Predictions(scores=SCORES, targets=pandas.Series([["z"], []]), labels=["a", "b", "c"])


def test_the_list_of_two_column_arrays_of_scikit_learn_is_taken_as_probabilities():
    features, truth = np.arange(8.0)[:, None], np.array([[1, 0, 1]] * 3 + [[0, 1, 1]] * 2 + [[1, 1, 0]] * 3)
    forest = RandomForestClassifier(3, random_state=0).fit(features, truth)
    given = forest.predict_proba(features)
    expected = np.stack([one[:, 1] for one in given], axis=1)
    assert np.array_equal(Predictions(probs=given).probs.numpy(), expected)
    constant = RandomForestClassifier(3, random_state=0).fit(features, np.c_[truth, np.zeros(8)])
    with raises_input_error(
        "probs",
        "Predictions",
        rule="be (N, K), or one array (N, 2) per label of two columns that add up",
        got="a list with (8, 1) in it",
        hint="Pass one column per label; where a label never occurs, scikit-learn",
    ):
        Predictions(probs=constant.predict_proba(features))
    with raises_input_error(rule="add up to 1", got="a list with (2, 2) in it"):
        Predictions(probs=[np.array([[0.1, 0.2], [0.3, 0.4]])])


def test_read_only_arrays_are_taken():
    frozen = SCORES.numpy().copy()
    frozen.setflags(write=False)
    predictions = Predictions(scores=frozen, targets=frozen > 0, decisions=frozen > 0, abstain=frozen[:, 0] > 9)
    assert torch.equal(predictions.decisions, SCORES > 0)
    assert len(predictions.take(frozen[:, 0] > 1)) == 1


def test_edges():
    none = Predictions(scores=torch.empty(0, 3), targets=torch.empty(0, 3), splits="val")
    assert len(none) == 0
    assert [len(batch) for batch in none.batches()] == [0]
    assert none.read(labels=["1"]).scores.shape == (0, 1)
    assert none.split_sizes() == {}
    extreme = Predictions(scores=[[1e4, -1e4]], link=mh.SigmoidLink())
    assert extreme.probabilities().tolist() == [[1.0, 0.0]]
    unknown = Predictions(scores=SCORES, targets=-torch.ones(2, 3))
    assert unknown.targets.unique().tolist() == [-1]
    assert Predictions(probs=np.ones((3, 1))).probabilities().dtype == torch.float64


def test_probabilities_are_those_given_then_the_calibrators_then_the_links():
    link = mh.links.StrictlyProperAsymmetricLink()
    calibrator = Doubled().fit(SCORES, torch.zeros(2, 3))
    everything = Predictions(scores=SCORES, probs=SCORES.sigmoid(), link=link, calibrator=calibrator)
    assert torch.equal(everything.probabilities(), SCORES.sigmoid())
    without = Predictions(scores=SCORES, link=link, calibrator=calibrator)
    assert torch.equal(without.probabilities(), (2 * SCORES).sigmoid())
    assert torch.equal(everything.read(kinds=["scores"]).probabilities(), (2 * SCORES).sigmoid())
    assert torch.equal(Predictions(scores=SCORES, link=link).probabilities(), link.probs(SCORES))


def test_probabilities_are_refused_without_a_link():
    hint = "Fit a calibrator on held-out scores and targets, and pass `replace(probs=calibrator(scores))`."
    with refused(f"`probs` of `Predictions` must be there or follow from a link; got scores without a link. {hint}"):
        Predictions(scores=SCORES).probabilities()
    with raises_input_error(owner="TwoWayLoss", rule="be that of a loss which adds over labels"):
        Predictions(scores=SCORES, link=mh.TwoWayLoss().link).probabilities()
    with raises_input_error(got="neither probabilities nor scores"):
        table().read(kinds=["targets"]).probabilities()


def test_replace():
    before = table()
    calibrator, rule = Doubled().fit(before.scores, before.targets), Half()
    probs = calibrator(before.scores)
    after = before.replace(probs=probs, calibrator=calibrator, decisions=rule(probs), rule=rule)
    assert torch.equal(after.probs, probs)
    assert torch.equal(after.decisions, probs > 0.5)
    assert after.abstain.tolist() == [False] * len(before)
    assert (after.calibrator, after.rule, after.link) == (calibrator, rule, before.link)
    assert after.ids == before.ids
    assert after.replace(targets=None).kinds == ("scores", "probs", "decisions")
    assert before.kinds == ("scores", "probs", "targets", "decisions")


def test_what_made_a_column_goes_with_it():
    made = table(calibrator=Doubled(), rule=Half())
    assert made.replace(probs=made.probs).calibrator is None
    assert made.replace(decisions=made.decisions).rule is None
    assert made.replace(decisions=made.decisions).abstain is None
    assert made.replace(ids=None).ids == [str(row) for row in range(len(made))]


def test_replace_refuses_other_names():
    with raises_input_error(
        "columns",
        "Predictions.replace",
        rule="be among labels, link, calibrator, rule, scores, probs, targets,",
        got="'prob'",
    ):
        table().replace(prob=SCORES)


def test_decisions_of_a_rule():
    decision = Decision(SCORES > 0, torch.tensor([True, False]))
    predictions = Predictions(scores=SCORES, decisions=decision)
    assert torch.equal(predictions.decisions, SCORES > 0)
    assert predictions.abstain.tolist() == [True, False]


@pytest.mark.parametrize("rows", [1, 3, 7, 100])
def test_batches_are_the_table_in_pieces(rows):
    whole = table()
    batches = list(whole.batches(rows))
    assert [len(batch) for batch in batches] == [min(rows, 7 - start) for start in range(0, 7, rows)]
    for start, batch in zip(range(0, 7, rows), batches, strict=True):
        assert_same(batch, whole.take(range(start, min(start + rows, 7))))
        assert batch.link is whole.link


def test_batches_of_some_kinds_share_memory():
    whole = table()
    for batch in whole.batches(3, kinds=("targets", "scores")):
        assert batch.kinds == ("scores", "targets")
        assert (batch.probs, batch.abstain) == (None, None)
        assert batch.scores.untyped_storage().data_ptr() == whole.scores.untyped_storage().data_ptr()


def test_row_numbers_stay_with_their_rows():
    batches = Predictions(scores=torch.zeros(5, 1)).batches(2)
    assert [batch.ids for batch in batches] == [["0", "1"], ["2", "3"], ["4"]]
    assert Predictions(scores=torch.zeros(5, 1)).take([4, 2]).ids == ["4", "2"]


def test_take_rows_by_number_or_mask():
    whole = table()
    some = whole.take(torch.tensor([5, 0, 5]))
    assert torch.equal(some.scores, whole.scores[[5, 0, 5]])
    assert some.ids == ["sample 5", "sample 0", "sample 5"]
    assert_same(whole.take(whole.scores[:, 0] > 0), whole.take((whole.scores[:, 0] > 0).nonzero().flatten()))
    assert len(whole.take([])) == 0


def test_read_some_labels_in_their_order():
    whole = table()
    some = whole.read(labels=["dog", "cat"])
    assert some.labels.names == ["dog", "cat"]
    for kind in whole.kinds:
        assert torch.equal(getattr(some, kind), getattr(whole, kind)[:, [2, 0]])
    assert some.ids == whole.ids
    assert torch.equal(some.abstain, whole.abstain)
    assert_same(whole.read(), whole)
    assert_same(whole.read(labels=mh.Labels(["dog"])), whole.read(labels=["dog"]))


def test_splits():
    whole = table()
    assert whole.split_sizes() == {"test": 3, "val": 4}
    test = whole.of_split("test")
    assert test.splits == ["test"] * 3
    assert test.ids == ["sample 0", "sample 3", "sample 6"]
    assert_same(whole.read(split="test", labels=["dog"]), test.read(labels=["dog"]))
    with raises_input_error(
        "split", "Predictions", rule="be one of the splits, 'test', 'val'", got="'tset'", hint="Did you mean 'test'?"
    ):
        whole.of_split("tset")
    with raises_input_error(
        "split", "Predictions", rule="be one of the splits, 'test', 'val'", got="'x'", hint="Pass one of these."
    ):
        whole.read(split="x")
    with raises_input_error("split", "Predictions", rule="be a split of the table, which has none", got="'val'"):
        Predictions(scores=SCORES).of_split("val")


@pytest.mark.parametrize(
    "link", [mh.SigmoidLink(), mh.SigmoidLink(pos_weight=[1.0, 5.0, 9.0]), mh.SigmoidLink(pos_weight=4.0)]
)
def test_some_labels_keep_their_probabilities(link):
    whole = Predictions(scores=SCORES, labels=LABELS, link=link)
    some = whole.read(labels=["dog", "cat"])
    assert some.kinds == ("scores",)
    assert torch.equal(some.probabilities(), whole.probabilities()[:, [2, 0]])


@pytest.mark.parametrize("made_by", [{"link": mh.links.SoftmaxLink()}, {"calibrator": Doubled().learn()}])
def test_probabilities_that_need_all_labels_are_computed_before_some_are_left_out(made_by):
    whole = Predictions(scores=SCORES, labels=LABELS, **made_by)
    some = whole.read(labels=["dog", "cat"])
    assert torch.equal(some.probabilities(), whole.probabilities()[:, [2, 0]])
    with raises_input_error(got="scores without a link"):
        whole.read(labels=["dog"], kinds=["scores"]).probabilities()


def test_a_link_never_stands_in_for_the_calibrator_that_replaced_it():
    calibrator = Doubled().learn()
    whole = Predictions(scores=SCORES, probs=calibrator(SCORES), link=mh.SigmoidLink(), calibrator=calibrator)
    assert torch.equal(whole.read(labels=["1"]).probabilities(), whole.probs[:, [1]])
    with raises_input_error(got="scores without a link"):
        whole.read(labels=["1"], kinds=["scores"]).probabilities()


def test_repr():
    assert repr(table(rows=1200)) == (
        "Predictions(1,200 rows x 3 labels; scores, probs, targets, decisions; link SigmoidLink; "
        "split 'test' 400; split 'val' 800)"
    )


def test_html_shows_the_first_rows_and_escapes_names():
    page = table(rows=9, labels=["<b>cat</b>", "traffic light", "dog"], unknown=0)._repr_html_()
    assert page.count("<tr>") == 6
    assert "and 4 more rows" in page
    assert "&lt;b&gt;cat&lt;/b&gt;" in page
    assert "<b>" not in page
    assert "<td>none</td>" in page
    assert Predictions(scores=torch.empty(0, 2))._repr_html_().count("<tr>") == 1
