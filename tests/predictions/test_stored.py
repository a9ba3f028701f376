"""The table on disk: what is written is what is read, by us and by others."""

import json
import subprocess
import sys

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.predictions import (
    Predictions,
    PredictionsWriter,
    StoredPredictions,
    open_predictions,
    read_predictions,
)
from manyhot.search import Collection
from tests.errors.expected import raises_input_error
from tests.predictions.tables import LABELS, assert_same, refused, table
from tests.predictions.test_memory import Doubled, Half

ODD_NAMES = [
    *("score:dog", "a", "a.b", "a.b.c", ".", "", " ", "id", "split", "Ünïcødé 漢字 🐶", 'quo"te', "back`tick"),
    *("new\nline", "tab\t", "nul\0", "%s", "[0]", "*", "CON", "a/b", "0", "x" * 300),
]


def round_trip(predictions, folder):
    predictions.save(folder / "table.parquet")
    return Predictions.open(folder / "table.parquet")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_round_trip(tmp_path, dtype):
    whole = table(dtype=dtype)
    stored = round_trip(whole, tmp_path)
    assert isinstance(stored, StoredPredictions)
    assert len(stored) == len(whole)
    assert stored.kinds == whole.kinds
    assert isinstance(stored.link, mh.SigmoidLink)
    assert_same(stored.load(), whole)


@pytest.mark.parametrize(
    "columns",
    [
        {"scores": torch.randn(4, 2)},
        {"probs": torch.rand(4, 1, dtype=torch.float64)},
        {"scores": torch.randn(4, 2, dtype=torch.float64), "probs": torch.rand(4, 2)},
        {"scores": torch.randn(0, 3), "targets": torch.empty(0, 3), "splits": "val"},
        {"scores": torch.randn(3, 2), "targets": -torch.ones(3, 2)},
        {"scores": torch.randn(3, 2), "targets": torch.zeros(3, 2), "paths": ["a", "", "ä"]},
        {"scores": torch.randn(3, 2), "targets": torch.ones(3, 2), "decisions": torch.zeros(3, 2)},
        {"scores": torch.tensor([[float("inf"), -float("inf"), 1e4, -0.0]])},
        {"probs": torch.rand(1, 2000)},
    ],
)
def test_round_trip_of_edges(tmp_path, columns):
    whole = Predictions(**columns)
    assert_same(round_trip(whole, tmp_path).load(), whole)


def test_names_of_all_kinds(tmp_path):
    whole = table(labels=ODD_NAMES)
    stored = round_trip(whole, tmp_path)
    assert stored.labels.names == ODD_NAMES
    assert_same(stored.load(), whole)
    for name in ODD_NAMES:
        assert_same(stored.read(labels=[name]), whole.read(labels=[name]))
    assert_same(stored.read(labels=ODD_NAMES[::-1]), whole.read(labels=ODD_NAMES[::-1]))


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 6))
    labels = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    shape = rows, len(labels)

    def cells(values, dtype):
        flat = draw(st.lists(values, min_size=rows * len(labels), max_size=rows * len(labels)))
        return torch.tensor(flat, dtype=dtype).reshape(shape)

    floats = draw(st.sampled_from([(32, torch.float32), (64, torch.float64)]))
    columns = {"probs": cells(st.floats(0, 1, width=floats[0]), floats[1]), "labels": labels}
    if draw(st.booleans()):
        columns["scores"] = cells(st.floats(width=floats[0], allow_nan=False), floats[1])
    if draw(st.booleans()):
        columns["targets"] = cells(st.sampled_from([-1, 0, 1]), torch.int8)
    if draw(st.booleans()):
        columns["decisions"] = cells(st.booleans(), torch.bool)
        columns["abstain"] = draw(st.none() | st.just(torch.arange(rows) % 2 == 0))
    columns["ids"] = draw(st.none() | st.lists(NAMES, min_size=rows, max_size=rows, unique=True))
    columns["paths"] = draw(st.none() | st.lists(NAMES, min_size=rows, max_size=rows))
    columns["splits"] = draw(st.none() | st.lists(NAMES, min_size=rows, max_size=rows))
    return Predictions(**columns)


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(tables(), st.integers(1, 7))
def test_any_table_survives(tmp_path_factory, whole, rows):
    path = tmp_path_factory.mktemp("any") / "table.parquet"
    whole.save(path)
    stored = open_predictions(path)
    assert_same(stored.load(), whole)
    for mine, theirs in zip(stored.batches(rows), whole.batches(rows), strict=True):
        assert_same(mine, theirs)
    wanted = whole.labels.names[::-1][:2]
    assert_same(stored.read(labels=wanted), whole.read(labels=wanted))
    assert stored.split_sizes() == whole.split_sizes()
    for split in whole.split_sizes():
        assert_same(stored.of_split(split).load(), whole.of_split(split))


@pytest.fixture
def small_groups(monkeypatch):
    """Row groups and decoded pieces of a few rows, so that a small table has many of them."""
    monkeypatch.setattr("manyhot.predictions.parquet.GROUP_ROWS", 5)
    monkeypatch.setattr("manyhot.predictions.parquet.DECODED_ROWS", 3)


@pytest.mark.parametrize("rows", [1, 2, 4, 5, 11, 23, 100])
def test_batches_whatever_the_row_groups(tmp_path, small_groups, rows):
    whole = table(rows=23)
    stored = round_trip(whole, tmp_path)
    assert pq.ParquetFile(tmp_path / "table.parquet").num_row_groups == 5
    for mine, theirs in zip(stored.batches(rows), whole.batches(rows), strict=True):
        assert_same(mine, theirs)
    assert_same(stored.load(), whole)
    for mine, theirs in zip(
        stored.of_split("test").batches(rows, kinds=["targets"]),
        whole.of_split("test").batches(rows, kinds=["targets"]),
        strict=True,
    ):
        assert_same(mine, theirs)


def test_row_groups_of_other_splits_are_not_read(tmp_path, small_groups):
    whole = table(rows=20, splits=["train"] * 10 + ["val"] * 10)
    stored = round_trip(whole, tmp_path)
    (part,) = stored._parts
    assert [part._may_hold(group, "train") for group in range(4)] == [True, True, False, False]
    assert_same(stored.of_split("train").load(), whole.of_split("train"))


def test_memory_of_a_written_batch_may_be_used_again(tmp_path):
    scores, rows = torch.zeros(2, 1), []
    with PredictionsWriter(tmp_path / "table.parquet", ["cat"]) as writer:
        for step in range(4):
            scores.fill_(step)
            rows += [float(step)] * 2
            writer.write(Predictions(scores=scores))
    assert Predictions.open(tmp_path / "table.parquet").load().scores.flatten().tolist() == rows


def test_splits_on_disk(tmp_path):
    whole = table()
    stored = round_trip(whole, tmp_path)
    assert stored.split_sizes() == {"test": 3, "val": 4}
    val = stored.of_split("val")
    assert isinstance(val, StoredPredictions)
    assert len(val) == 4
    assert val.split_sizes() == {"val": 4}
    assert_same(val.load(), whole.of_split("val"))
    assert_same(val.of_split("val").load(), val.load())
    with raises_input_error(
        "split", "StoredPredictions", rule="be one of the splits, 'val'", got="'test'", hint="Pass one of these."
    ):
        val.of_split("test")
    with raises_input_error(
        "split",
        "StoredPredictions",
        rule="be one of the splits, 'test', 'val'",
        got="'vall'",
        hint="Did you mean 'val'?",
    ):
        stored.read(split="vall")
    val.save(tmp_path / "val.parquet")
    assert_same(Predictions.open(tmp_path / "val.parquet").load(), whole.of_split("val"))


def test_saving_over_the_file_that_is_read(tmp_path):
    whole = table()
    stored = round_trip(whole, tmp_path)
    stored.of_split("val").save(tmp_path / "table.parquet")
    assert_same(Predictions.open(tmp_path / "table.parquet").load(), whole.of_split("val"))
    with refused(
        f"`path` of `open_predictions` must stay as it is while it is read; "
        f"got '{tmp_path}/table.parquet', which changed. Open it again."
    ):
        stored.load()


def test_what_made_the_columns_is_kept(tmp_path, monkeypatch):
    whole = table(link=mh.SigmoidLink(pos_weight=[1.0, 2.0, 3.0]), calibrator=Doubled().learn(), rule=Half())
    whole.save(tmp_path / "table.parquet")
    with raises_input_error(
        "path",
        "open_predictions",
        rule="name a calibrator that is known",
        got="'Doubled'",
        hint="Update manyhot, or register your own class with",
    ):
        Predictions.open(tmp_path / "table.parquet")
    monkeypatch.setattr("manyhot.registry._registered", {"Doubled": Doubled, "Half": Half})
    stored = Predictions.open(tmp_path / "table.parquet")
    assert stored.link.pos_weight.tolist() == [1.0, 2.0, 3.0]
    assert type(stored.calibrator) is Doubled
    assert type(stored.rule) is Half
    batch = next(stored.batches(2))
    assert (batch.link, batch.calibrator, batch.rule) == (stored.link, stored.calibrator, stored.rule)


@pytest.mark.parametrize(
    "link", [mh.SigmoidLink(pos_weight=[1.0, 5.0, 9.0]), mh.links.SoftmaxLink(), mh.TwoWayLoss().link]
)
def test_some_labels_keep_their_probabilities(tmp_path, link):
    whole = Predictions(scores=torch.randn(5, 3), labels=LABELS, link=link)
    some = round_trip(whole, tmp_path).read(labels=["dog", "cat"])
    if isinstance(link, mh.links.NoLink):
        with raises_input_error("link", "TwoWayLoss"):
            some.probabilities()
    else:
        assert torch.equal(some.probabilities(), whole.probabilities()[:, [2, 0]])


def test_repr_and_html(tmp_path):
    stored = round_trip(table(rows=9), tmp_path)
    assert repr(stored).startswith("StoredPredictions(9 rows x 3 labels; scores, probs, targets, decisions; link")
    assert "and 4 more rows" in stored._repr_html_()


def test_pyarrow_alone_reads_it(tmp_path):
    whole = table()
    round_trip(whole, tmp_path)
    read = pq.read_table(tmp_path / "table.parquet")
    assert read.column_names[:4] == ["id", "path", "split", "abstain"]
    assert read.column_names[4:] == [f"{k}:{n}" for k in ("score", "prob", "target", "decision") for n in LABELS]
    assert read.schema.field("score:dog").type == pa.float32()
    assert read.schema.field("target:dog").type == pa.int8()
    assert read.schema.field("decision:dog").type == pa.bool_()
    assert read["target:dog"].to_pylist() == [None if t < 0 else t for t in whole.targets[:, 2].tolist()]
    said = json.loads(read.schema.metadata[b"manyhot"])
    assert (said["format"], said["labels"], said["kinds"]) == (1, LABELS, list(whole.kinds))
    assert said["link"]["kind"] == "SigmoidLink"
    group = pq.ParquetFile(tmp_path / "table.parquet").metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert columns["prob:dog"].statistics.max == float(whole.probs[:, 2].max())
    assert "RLE_DICTIONARY" in columns["split"].encodings


@pytest.mark.process
def test_pandas_alone_reads_it(tmp_path):
    """In a fresh interpreter that never imports this package."""
    whole = table()
    round_trip(whole, tmp_path)
    code = (
        "import pandas, sys; frame = pandas.read_parquet(sys.argv[1], columns=['id', 'prob:dog', 'target:dog']); "
        "assert 'manyhot' not in sys.modules; print(frame.to_json(orient='values', double_precision=15))"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "table.parquet")]
    rows = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert [row[0] for row in rows] == whole.ids
    np.testing.assert_allclose([row[1] for row in rows], whole.probs[:, 2], rtol=1e-6)
    assert [-1 if row[2] is None else row[2] for row in rows] == whole.targets[:, 2].tolist()


def test_only_the_wanted_columns_are_read(tmp_path, monkeypatch):
    stored = round_trip(table(), tmp_path)
    asked = []
    original = pq.ParquetFile.iter_batches
    monkeypatch.setattr(
        pq.ParquetFile, "iter_batches", lambda self, *a, **k: asked.append(k["columns"]) or original(self, *a, **k)
    )
    stored.read(labels=["dog"], kinds=["probs"])
    list(stored.batches(kinds=["scores"]))
    assert asked[0] == ["id", "path", "split", "prob:dog"]
    assert asked[1] == ["id", "path", "split", *(f"score:{name}" for name in LABELS)]


def write_parts(folder, *predictions):
    folder.mkdir()
    for number, part in enumerate(predictions):
        part.save(folder / f"part-{number}.parquet")
    return folder


def test_parts(tmp_path):
    whole = table(rows=17)
    pieces = [whole.slice(0, 4), whole.slice(4, 4), whole.slice(4, 17)]
    folder = write_parts(tmp_path / "parts", *pieces)
    (folder / ".part-9.parquet.xyz.part").write_bytes(b"left behind")
    (folder / "notes.txt").write_text("not a part")
    for path in (folder, str(folder), folder / "*.parquet", f"{tmp_path}/**/part-?.parquet"):
        stored = open_predictions(path)
        assert_same(stored.load(), whole)
        assert stored.split_sizes() == whole.split_sizes()
        assert [len(batch) for batch in stored.batches(6)] == [6, 6, 5]
    assert_same(open_predictions(folder / "part-2.parquet").load(), pieces[2])
    stored.save(tmp_path / "whole.parquet")
    assert_same(Predictions.open(tmp_path / "whole.parquet").load(), whole)


def test_parts_of_different_precision(tmp_path):
    single, double = table(dtype=torch.float32), table(dtype=torch.float64, seed=1)
    stored = open_predictions(write_parts(tmp_path / "parts", single, double))
    assert torch.equal(stored.load().scores, torch.cat([single.scores.double(), double.scores]))


REMEDY = "Open the parts that belong together, by a pattern or a folder of their own."


@pytest.mark.parametrize(
    ("other", "rule", "got"),
    [
        (lambda: table(labels=["a", "b", "c"]), "labels", "others"),
        (lambda: table().replace(probs=None), "kinds", "others (scores, targets, decisions)"),
        (lambda: table(link=mh.links.SoftmaxLink()), "link", "others"),
        (lambda: table(splits=None), "columns for rows", "ids, paths"),
    ],
)
def test_parts_that_do_not_belong_together(tmp_path, other, rule, got):
    folder = write_parts(tmp_path / "parts", table(), table(), other())
    with refused(
        f"`path` of `open_predictions` must hold parts with the same {rule} as 'part-0.parquet'; "
        f"got 'part-2.parquet' with {got}. {REMEDY}"
    ):
        open_predictions(folder)


@pytest.mark.process
def test_without_pyarrow(tmp_path):
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "import torch, manyhot as mh\n"
        "table = mh.Predictions(scores=torch.zeros(2, 1), ids=['a', 'b'], splits='val')\n"
        "assert len(table.of_split('val').take([1]).ids) == 1\n"
        "for use in (lambda: table.save('x.parquet'), lambda: mh.Predictions.open('x.parquet')):\n"
        "    try:\n"
        "        use()\n"
        "    except ImportError as error:\n"
        "        print(error)\n"
    )
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path)
    assert (
        ran.stdout.splitlines() == ["Tables on disk need pyarrow. Install it with: pip install 'manyhot[tables]'"] * 2
    ), ran.stderr


def in_split_folders(whole, folder):
    """Parts by split, which only the names of their folders tell."""
    for name in ("val", "test", "a b"):
        part = whole.of_split(name).replace(splits=None)
        part.save(folder / f"split={name.replace(' ', '%20')}" / "part.parquet")


def test_a_folder_of_parts_by_split_opens_with_its_splits(tmp_path):
    whole = Predictions(
        scores=torch.randn(30, 3, generator=torch.Generator().manual_seed(0)),
        targets=torch.eye(3, dtype=torch.int8).repeat(10, 1),
        labels=["a", "b", "c"],
        splits=["a b", "test", "val"] * 10,
    )
    in_split_folders(whole, tmp_path / "parts")
    stored = open_predictions(tmp_path / "parts")
    assert stored.split_sizes() == {"a b": 10, "test": 10, "val": 10}
    for name in ("val", "test", "a b"):
        assert_same(stored.of_split(name).load(), whole.of_split(name))
        assert_same(stored.read(split=name, labels=["c"]), whole.read(split=name, labels=["c"]))
    assert stored.load().splits == ["a b"] * 10 + ["test"] * 10 + ["val"] * 10
    assert [len(batch) for batch in stored.batches(rows=12)] == [12, 12, 6]
    one = open_predictions(tmp_path / "parts" / "split=test" / "part.parquet")
    assert one.split_sizes() == {"test": 10}
    table = read_predictions(tmp_path / "parts", kind=None, split="val")
    assert table.load().ids == whole.of_split("val").ids


def test_what_is_searched_is_what_is_opened(tmp_path):
    draw = torch.Generator().manual_seed(0)
    whole = Predictions(probs=torch.rand(9, 2, generator=draw), labels=["a", "b"], ids=list("abcdefghi"))
    for start, name in ((0, "day=1/x"), (3, "day=2/x"), (6, "y"), (0, "_old/x"), (0, ".tmp/x")):
        whole.slice(start, start + 3).save(tmp_path / "parts" / f"{name}.parquet")
    stored = open_predictions(tmp_path / "parts")
    found = Collection.open(tmp_path / "parts").search("a | b", k=9)
    assert sorted(stored.load().ids) == sorted(hit.id for hit in found.hits) == whole.ids
    assert stored.split_sizes() == {}
    run = tmp_path / "run"
    whole.save(run / "predictions.parquet")
    whole.save(run / "more" / "other.parquet")
    (run / "classifier.json").write_text("{}")
    assert len(open_predictions(run)) == len(Collection.open(run)) == 9


def test_the_column_of_a_file_counts_more_than_its_folder(tmp_path):
    Predictions(probs=torch.rand(2, 2), splits="val").save(tmp_path / "split=test" / "part.parquet")
    assert open_predictions(tmp_path).split_sizes() == {"val": 2}


def test_folders_of_another_program_tell_columns(tmp_path):
    frame = pandas.DataFrame(
        {"id": list("abcd"), "cat": [0.1, 0.2, 0.3, 0.4], "split": ["Train", "Train", "val", "val"]}
    )
    frame.assign(fold=["1", "2", "1", "2"]).to_parquet(tmp_path / "parts", partition_cols=["split", "fold"])
    table = read_predictions(tmp_path / "parts", kind="probs")
    assert dict(zip(table.ids, table.splits, strict=True)) == {"a": "train", "b": "train", "c": "val", "d": "val"}
    assert table.labels.names == ["cat"]
    assert "Left out columns: 'fold'." in table.notes
