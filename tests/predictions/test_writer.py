"""Writing batch by batch: the file is there as a whole, or as it was."""

import os
import signal
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
import torch

import manyhot as mh
from manyhot.predictions import Predictions, PredictionsWriter
from tests.errors.expected import raises_input_error
from tests.predictions.tables import LABELS, assert_same, refused, table
from tests.waiting import eventually


def test_batches_of_any_size_make_one_table(tmp_path):
    whole = table(rows=50)
    with PredictionsWriter(tmp_path / "table.parquet", LABELS) as writer:
        for start, stop in ((0, 1), (1, 1), (1, 30), (30, 50)):
            writer.write(whole.slice(start, stop))
    stored = Predictions.open(tmp_path / "table.parquet")
    assert writer.rows == 50
    assert isinstance(stored.link, mh.SigmoidLink)
    assert_same(stored.load(), whole)


def test_folders_are_made(tmp_path):
    table().save(tmp_path / "runs" / "first" / "table.parquet")
    assert os.listdir(tmp_path / "runs" / "first") == ["table.parquet"]


def test_row_numbers_count_on(tmp_path):
    with PredictionsWriter(tmp_path / "table.parquet", ["cat"]) as writer:
        for size in (2, 3):
            batch = Predictions(scores=torch.zeros(size, 1))
            assert batch.ids[0] == "0"
            writer.write(batch)
    assert Predictions.open(tmp_path / "table.parquet").load().ids == ["0", "1", "2", "3", "4"]


def test_the_writer_may_name_what_made_the_columns(tmp_path):
    weighted = mh.SigmoidLink(pos_weight=3.0)
    with PredictionsWriter(tmp_path / "table.parquet", LABELS, link=weighted) as writer:
        writer.write(table(link=None))
    assert Predictions.open(tmp_path / "table.parquet").link.pos_weight.item() == 3.0


def write_and_break(path):
    with PredictionsWriter(path, LABELS) as writer:
        writer.write(table(rows=20))
        raise RuntimeError("the model broke")


def test_an_error_leaves_everything_as_it_was(tmp_path):
    path = tmp_path / "table.parquet"
    for before in (None, table()):
        if before is not None:
            before.save(path)
        with pytest.raises(RuntimeError, match="the model broke"):
            write_and_break(path)
        assert os.listdir(tmp_path) == ([] if before is None else ["table.parquet"])
    assert_same(Predictions.open(path).load(), table())


def test_a_writer_may_be_used_again(tmp_path):
    writer = PredictionsWriter(tmp_path / "table.parquet", LABELS)
    for rows in (3, 5):
        with writer:
            writer.write(table(rows=rows))
        assert_same(Predictions.open(tmp_path / "table.parquet").load(), table(rows=rows))


WRITE_FOR_EVER = """
import sys, torch
from manyhot.predictions import Predictions, PredictionsWriter
with PredictionsWriter(sys.argv[1], ["cat"]) as writer:
    while True:
        writer.write(Predictions(scores=torch.randn(65536, 1)))
        print(writer.rows, flush=True)
"""


@pytest.mark.process
def test_a_killed_process_leaves_the_old_file(tmp_path):
    path = tmp_path / "table.parquet"
    table().save(path)
    process = subprocess.Popen([sys.executable, "-c", WRITE_FOR_EVER, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert int(process.stdout.readline()) == 65536
        assert int(process.stdout.readline()) == 2 * 65536
        parts = ".table.parquet.*.part"
        assert eventually(lambda: any(file.stat().st_size > 1e5 for file in tmp_path.glob(parts)))
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert_same(Predictions.open(path).load(), table())
    assert_same(Predictions.open(tmp_path).load(), table())


def test_states_are_kept_beside_the_table(tmp_path):
    whole, path = table(rows=5), tmp_path / "table.parquet"
    states = {name: f"state of {name}" for name in whole.ids}
    with PredictionsWriter(path, LABELS, states=states) as writer:
        for batch in whole.batches(2):
            writer.write(batch)
        writer.metadata[b"more"] = b"anything"
    read = pq.read_table(path)
    assert read["state"].to_pylist() == [f"state of {name}" for name in whole.ids]
    assert read.schema.metadata[b"more"] == b"anything"
    assert_same(Predictions.open(path).load(), whole)


def test_nothing_written(tmp_path):
    with (
        raises_input_error(
            "batch",
            "PredictionsWriter",
            rule="be written at least once",
            got="none",
            hint="Write a table without rows if there are none.",
        ),
        PredictionsWriter(tmp_path / "table.parquet", LABELS),
    ):
        pass
    assert os.listdir(tmp_path) == []


def test_outside_of_a_block(tmp_path):
    with raises_input_error(
        "batch",
        "PredictionsWriter",
        rule="be written in a `with` block",
        got="it outside of one",
        hint="Write `with` before it.",
    ):
        PredictionsWriter(tmp_path / "table.parquet", LABELS).write(table())


def test_a_folder_is_no_file(tmp_path):
    with refused(
        f"`path` of `PredictionsWriter` must be a file; got '{tmp_path}', a folder. "
        "Name a file in it, such as 'predictions.parquet'."
    ):
        table().save(tmp_path)


@pytest.mark.parametrize(
    ("labels", "got"),
    [(["cat", "dgo", "dog"], "'dgo' among them"), (LABELS[::-1], "3 in another order or number")],
)
def test_other_labels(tmp_path, labels, got):
    with (
        refused(
            f"`batch` of `PredictionsWriter` must have the 3 labels of the writer; got {got}. "
            "Read the batch with these labels, in this order."
        ),
        PredictionsWriter(tmp_path / "table.parquet", LABELS) as writer,
    ):
        writer.write(table(labels=labels))


def test_other_columns(tmp_path):
    with (
        raises_input_error(
            "batch",
            "PredictionsWriter",
            rule="hold scores of float32, ids like the first one",
            got="scores of float64, ids, splits",
            hint="Give every batch the same columns.",
        ),
        PredictionsWriter(tmp_path / "table.parquet", ["cat"]) as writer,
    ):
        writer.write(Predictions(scores=torch.zeros(2, 1)))
        writer.write(Predictions(scores=torch.zeros(2, 1).double(), splits="val"))


def test_texts_that_no_file_can_hold(tmp_path):
    bad = "photo\udcff.jpg"
    with refused(f"`paths` of `save` must be valid Unicode; got {bad!r}. Rename it, or replace the bad bytes."):
        Predictions(scores=torch.zeros(1, 1), paths=[bad]).save(tmp_path / "table.parquet")
    with refused(
        f"`labels` of `PredictionsWriter` must be valid Unicode; got {bad!r}. Replace the bad characters of the name."
    ):
        PredictionsWriter(tmp_path / "table.parquet", [bad])
    assert os.listdir(tmp_path) == []


def test_a_link_that_cannot_be_saved(tmp_path):
    link = mh.ratio_link(lambda scores, targets: (scores - targets) ** 2)
    with raises_input_error("module", "save", rule="keep its constructor's arguments"):
        table(link=link).save(tmp_path / "table.parquet")

    class Odd(mh.SigmoidLink):
        def __init__(self, of=len):
            super().__init__()
            self.of = of

    with raises_input_error(
        "link",
        "save",
        rule="hold nothing but numbers, texts and tensors",
        got="Odd",
        hint="Leave it out with `replace(link=None)`.",
    ):
        table(link=Odd()).save(tmp_path / "table.parquet")
    assert os.listdir(tmp_path) == []
