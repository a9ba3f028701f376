"""Data frames, Parquet, archives, and files of any origin."""

from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from manyhot.predictions import (
    Predictions,
    StoredPredictions,
    read_predictions,
)
from tests.errors.expected import raises_input_error
from tests.predictions.tables import PLAIN, PROBS, assert_same, refused, table


def test_frames():
    frame = pd.DataFrame({"cat": [0.25, 0.5], "dog": np.float32([0.1, 0.2]), "note": ["x", "y"]}, index=["p", "q"])
    read = read_predictions(frame, kind="probs")
    assert read.ids == ["p", "q"]
    assert read.labels.names == ["cat", "dog"]
    assert read.probs.dtype == torch.float64
    assert read.probs[:, 0].tolist() == [0.25, 0.5]
    numbered = read_predictions(pd.DataFrame(np.float32([[1.5, -2.0]])), kind="scores")
    assert (numbered.labels.names, numbered.ids) == (["0", "1"], ["0"])
    assert numbered.scores.dtype == torch.float32
    rich = pd.DataFrame(
        {
            "id": pd.Categorical(["a", "b"]),
            "cat": pd.array([0.5, 0.25], dtype="Float64"),
            "dog": [1, 0],
            "labels": [["dog"], []],
        }
    )
    read = read_predictions(rich, kind="probs")
    assert (read.ids, read.targets.tolist()) == (["a", "b"], [[0, 1], [0, 0]])
    assert read.probs.tolist() == [[0.5, 1.0], [0.25, 0.0]]
    arrow = read_predictions(pa.table({"id": [3, 4], "cat": pa.array([0.5, 1.0], pa.float16())}), kind="probs")
    assert (arrow.ids, arrow.probs.tolist()) == (["3", "4"], [[0.5], [1.0]])


def test_an_index_is_never_a_label():
    probs = {"cat": [0.5, 0.25, 0.75]}
    several = pd.MultiIndex.from_tuples([("a", 1), ("b", 2), ("c", 3)])
    assert read_predictions(pd.DataFrame(probs, index=several), kind="probs").ids == ["0", "1", "2"]
    named = read_predictions(pd.DataFrame(probs, index=pd.Index([7, 8, 9], name="number")), kind="probs")
    assert (named.ids, named.labels.names) == (["7", "8", "9"], ["cat"])
    chosen = pd.DataFrame(probs | {"id": ["a", "b", "c"]}).iloc[[2, 0]]
    assert read_predictions(chosen, kind="probs").ids == ["c", "a"]
    assert read_predictions(chosen, kind="probs").labels.names == ["cat"]


def test_frames_with_an_arrow_form():
    """What polars offers: a method that gives the table of Arrow, with the string type of polars."""

    class Frame:
        columns = ("id", "cat")

        def to_arrow(self):
            return pa.table({"id": pa.array(["a", "b"], pa.string_view()), "cat": [0.5, 0.25]})

    assert read_predictions(Frame(), kind="probs").ids == ["a", "b"]


def test_what_is_no_frame():
    with raises_input_error(
        "source",
        "read_predictions",
        rule="be a path, a data frame of pandas or polars or a table of Arrow",
        got="list",
        hint="Pass arrays to `Predictions` itself.",
    ):
        read_predictions([[0.5]], kind="probs")
    with raises_input_error("source", "read_predictions", rule="have columns of different names", got="'a' twice"):
        read_predictions(pd.DataFrame([[0.5, 0.5]], columns=["a", "a"]), kind="probs")


def test_foreign_parquet(tmp_path):
    for part, ids in enumerate((["a", "b"], ["c"])):
        frame = pd.DataFrame({"id": ids, "cat": [0.5] * len(ids), "labels": ["cat"] * len(ids)})
        frame.to_parquet(tmp_path / f"part-{part}.parquet")
    for path in (tmp_path, tmp_path / "part-*.parquet"):
        read = read_predictions(path, kind="probs")
        assert (read.ids, read.targets.flatten().tolist()) == (["a", "b", "c"], [1, 1, 1])
        assert read.probs.dtype == torch.float64
    pd.DataFrame({"id": ["d"], "labels": [""]}).to_parquet(tmp_path / "part-2.parquet")
    with refused(
        "`source` of `read_predictions` must hold the same columns in all files; "
        f"got '{tmp_path}/part-2.parquet' without 'cat'. Read files of the same columns."
    ):
        read_predictions(tmp_path, kind="probs")


def test_our_table_through_pandas(tmp_path):
    whole = table()
    whole.save(tmp_path / "ours.parquet")
    pd.read_parquet(tmp_path / "ours.parquet").to_parquet(tmp_path / "theirs.parquet")
    read = read_predictions(tmp_path / "theirs.parquet", kind="probs")
    expected = Predictions(
        probs=whole.probs,
        targets=whole.targets,
        labels=whole.labels,
        ids=whole.ids,
        paths=whole.paths,
        splits=whole.splits,
    )
    assert_same(read, expected)


def test_npz(tmp_path):
    path = tmp_path / "table.npz"
    columns = {"targets": np.array([[1, 0], [-1, 0]]), "names": np.array(["cat", "dog"]), "ids": np.array([7, 9])}
    np.savez(path, scores=np.float32([[1, 2], [3, 4]]), splits=np.array(["val", "test"]), extra=np.zeros(3), **columns)
    read = read_predictions(path, kind="scores")
    assert read.scores.tolist() == [[1, 2], [3, 4]]
    assert read.targets.tolist() == [[1, 0], [-1, 0]]
    assert (read.labels.names, read.ids, read.splits) == (["cat", "dog"], ["7", "9"], ["val", "test"])
    assert read.notes == [
        "Read array 'scores' as scores.",
        "Read array 'targets' as targets.",
        "Read array 'names' as labels.",
        "Read array 'ids' as ids.",
        "Read array 'splits' as splits.",
        "Left out 'extra'.",
    ]
    with raises_input_error(
        "source",
        "read_predictions",
        rule="hold an array `probs`",
        got="the arrays 'scores', 'splits', 'extra', 'targets', 'names', 'ids'",
        hint="Save them with `np.savez(path, probs=probs)`.",
    ):
        read_predictions(path, kind="probs")


def test_labels_of_an_archive_are_chosen_by_name(tmp_path):
    np.savez(tmp_path / "table.npz", probs=np.array(PROBS), names=np.array(["cat", "dog", "bird"]))
    read = read_predictions(tmp_path / "table.npz", kind="probs", labels=["bird", "cat"], targets=[["cat"], []])
    assert (read.probs.tolist(), read.targets.tolist()) == ([[0.5, 0.9], [1.0, 0.1]], [[0, 1], [0, 0]])


def test_npy_and_an_array_of_another_name(tmp_path):
    np.save(tmp_path / "table.npy", np.float64([[0.5, 1.0]]))
    read = read_predictions(tmp_path / "table.npy", kind="probs", labels=["a", "b"])
    assert (read.probs.tolist(), read.labels.names) == ([[0.5, 1.0]], ["a", "b"])
    np.savez(tmp_path / "table.npz", outputs=np.float64([[0.5, 1.0]]))
    assert read_predictions(tmp_path / "table.npz", kind="scores").scores.tolist() == [[0.5, 1.0]]


def test_nothing_in_an_archive_is_executed(tmp_path):
    np.savez(tmp_path / "table.npz", scores=np.zeros((1, 1)), names=np.array(["cat", None], dtype=object))
    with raises_input_error("source", "read_predictions", rule="be arrays of numbers and texts without Python objects"):
        read_predictions(tmp_path / "table.npz", kind="scores")
    (tmp_path / "odd.npz").write_bytes(b"not an archive")
    with raises_input_error("source", "read_predictions", rule="be arrays"):
        read_predictions(tmp_path / "odd.npz", kind="scores")


def test_tables_without_rows(write):
    read = read_predictions(write("id,split,cat,dog,labels\n"), kind="probs")
    assert (len(read), read.labels.names, read.kinds) == (0, ["cat", "dog"], ("probs", "targets"))
    empty = read_predictions(write("id,cat\n"), kind="probs", targets=write("id,labels\n", "labels.csv"))
    assert empty.targets.shape == (0, 1)
    assert read_predictions(pd.DataFrame({"cat": [0.5]})[:0], kind="probs").probs.shape == (0, 1)


def test_import_by_the_name_of_the_file(write, tmp_path):
    np.savez(tmp_path / "table.npz", probs=np.array(PROBS))
    pd.read_csv(write(PLAIN)).to_parquet(tmp_path / "theirs.parquet")
    for name in ("table.csv", "table.npz", "theirs.parquet"):
        read = read_predictions(tmp_path / name, kind="probs")
        torch.testing.assert_close(read.probs.float(), torch.tensor(PROBS))
        assert read.notes[0].startswith("Read ")
    with refused(
        "`source` of `read_predictions` must be a Parquet file or end with .csv, .tsv, .csv.gz, .tsv.gz, .npz, .npy; "
        f"got '{write(PLAIN, 'table.xls')}'. Rename the file, or convert it first."
    ):
        read_predictions(tmp_path / "table.xls", kind="probs")
    with raises_input_error("source", "read_predictions", rule="be a file"):
        read_predictions(tmp_path / "nothing.csv", kind="probs")
    with raises_input_error("source", "read_predictions", rule="be a Parquet file, a folder of them"):
        read_predictions(tmp_path / "nothing", kind="probs")


def test_import_of_our_own_table(write, tmp_path):
    whole = table()
    whole.save(tmp_path / "ours.parquet")
    for kind in (None, "scores", "probs"):
        read = read_predictions(tmp_path / "ours.parquet", kind=kind)
        assert isinstance(read, StoredPredictions)
        assert read.notes == [f"Opened {read!r}."]
        assert_same(read.load(), whole)
    whole.replace(probs=None).save(tmp_path / "scores.parquet")
    with raises_input_error(
        "kind",
        "read_predictions",
        rule="be among those of the table, scores, targets, decisions",
        got="'probs'",
        hint="Leave it out: the table knows what it holds.",
    ):
        read_predictions(tmp_path / "scores.parquet", kind="probs")
    read = read_predictions(tmp_path / "ours.parquet", kind=None, split="val")
    assert isinstance(read, StoredPredictions)
    assert_same(read.load(), whole.of_split("val"))
    labels = write("id,labels\nsample 1,dog\n", "labels.csv")
    read = read_predictions(tmp_path / "ours.parquet", kind=None, labels=["dog"], targets=labels)
    assert read.targets.flatten().tolist() == [-1, 1, -1, -1, -1, -1, -1]
    assert "Targets of labels.csv are joined by column 'id': 1 of 7 rows have some." in read.notes
    assert read.splits == whole.splits


def test_import_of_a_split(write):
    path = write("id,split,cat\na,val,0.5\nb,test,0.25\n", "split.csv")
    read = read_predictions(path, kind="probs", split="test")
    assert read.ids == ["b"]
    assert read.notes[0] == "Read 1 columns as probs of labels: 'cat'."
    labels = write("id,labels,split\na,cat,val\nb,,test\n", "labels.csv")
    read = read_predictions(write("id,cat\na,0.5\nb,0.25\n"), kind="probs", targets=labels, split="val")
    assert (read.ids, read.targets.tolist()) == (["a"], [[1]])
    with raises_input_error(
        "split", "Predictions", rule="be one of the splits, 'val', 'test'", got="'x'", hint="Pass one of these."
    ):
        read_predictions(path, kind="probs", split="x")


@pytest.mark.parametrize("targets", [True, False])
def test_streaming_to_parquet_is_reading_in_memory(write, tmp_path, monkeypatch, targets):
    monkeypatch.setattr("manyhot.tables.reader.BLOCK_BYTES", 4096)
    draw = np.random.default_rng(0)
    rows = [f"{row},{row}.jpg,{row % 3}x," + ",".join(f"{p:.4f}" for p in draw.random(4)) for row in range(700)]
    path = write("id,path,split,a,b,c,d\n" + "\n".join(rows) + "\n")
    labels = write("id,labels\n" + "".join(f"{row},a|d\n" for row in range(0, 700, 2)), "labels.csv")
    options = {"kind": "probs", "targets": labels if targets else None, "link": None}
    in_memory = read_predictions(path, **options)
    stored = read_predictions(path, to=tmp_path / "out.parquet", **options)
    assert isinstance(stored, StoredPredictions)
    assert in_memory.notes == stored.notes
    assert_same(stored.load(), in_memory)
    assert in_memory.ids == [str(row) for row in range(700)]


def test_a_broken_table_leaves_no_file_behind(write, tmp_path):
    path = write("id,cat\n" + "a,0.5\n" * 2000 + "b,many\n")
    with raises_input_error(got="many"):
        read_predictions(path, kind="probs", to=tmp_path / "out.parquet")
    with raises_input_error(rule="as many rows"):
        read_predictions(write(PLAIN), kind="probs", targets=np.zeros((3, 3)), to=tmp_path / "out.parquet")
    assert not list(tmp_path.glob("*out*"))


def test_targets_in_columns_of_several_types():
    cells = {"cat": [0.5, 0.5, 0.5], "dog": [0.5, 0.5, 0.5], "bird": [0.5, 0.5, 0.5]}
    targets = {
        "target:cat": pa.array([Decimal("1.00"), Decimal("0.00"), None]),
        "target:dog": pa.array(["yes", "no", ""]).dictionary_encode(),
        "target:bird": pa.array([True, False, None]),
    }
    read = read_predictions(pa.table(cells | targets), kind="probs")
    assert read.targets.tolist() == [[1, 1, 1], [0, 0, 0], [-1, -1, -1]]


def test_decimals_are_numbers():
    cells = pa.array([Decimal("0.50"), Decimal("0.25")])
    read = read_predictions(pa.table({"path": ["a.jpg", "b.jpg"], "cat": cells}), kind="probs")
    assert read.probs.tolist() == [[0.5], [0.25]]


def test_a_column_of_images_is_no_path():
    images = [{"bytes": b"x", "path": "a.jpg"}, {"bytes": b"y", "path": "b.jpg"}]
    read = read_predictions(pa.table({"image": images, "id": ["a", "b"], "cat": [0.5, 0.25]}), kind="probs")
    assert (read.ids, read.paths) == (["a", "b"], None)
