"""Files that are not what they should be."""

import json

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhot.predictions import Predictions, open_predictions
from tests.errors.expected import raises_input_error
from tests.predictions.tables import assert_same, refused, table


def saved(tmp_path):
    path = tmp_path / "table.parquet"
    table(rows=2000).save(path)
    return path


def test_nothing_there(tmp_path):
    rule = "`path` of `open_predictions` must be a Parquet file, a folder of them or a pattern; got"
    hint = "Check the path, or write the table there first."
    with refused(f"{rule} '{tmp_path}/x.parquet', where there is nothing. {hint}"):
        open_predictions(tmp_path / "x.parquet")
    with refused(f"{rule} '{tmp_path}', a folder without any. {hint}"):
        open_predictions(tmp_path)


def test_not_parquet(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("id,dog\na,0.5\n")
    with refused(
        f"`path` of `open_predictions` must be a Parquet file; got '{path}', which is not one. "
        "Import other files with `read_predictions`."
    ):
        open_predictions(path)
    path.write_text("")
    with refused(f"`path` of `open_predictions` must be a Parquet file; got '{path}', which is empty. Write it again."):
        open_predictions(path)


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.999])
def test_cut_short(tmp_path, kept):
    path = saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with raises_input_error(rule="be a whole Parquet file", hint="It was cut short; write or copy it again"):
        open_predictions(path)


@pytest.mark.parametrize("place", [0.1, 0.3, 0.5])
def test_a_single_damaged_byte(tmp_path, place):
    path = saved(tmp_path)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    stored = open_predictions(path)
    with raises_input_error("path", "open_predictions", rule="be a whole Parquet file"):
        stored.load()


def rewrite(path, change):
    """Another program reads the file and writes it again, changed."""
    pq.write_table(change(pq.read_table(path)), path)


def test_rewritten_by_another_program(tmp_path):
    path = saved(tmp_path)
    rewrite(path, lambda content: content)
    assert_same(Predictions.open(path).load(), table(rows=2000))


def with_header(content, **changes):
    header = json.loads(content.schema.metadata[b"manyhot"]) | changes
    return content.replace_schema_metadata({b"manyhot": json.dumps(header).encode()})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            lambda content: with_header(content, format=2),
            "hold format 1 of manyhot's tables; got {path} with format 2. Update manyhot.",
        ),
        (
            lambda content: content.replace_schema_metadata(None),
            "hold the metadata of manyhot; got {path} without it. "
            "Import it with `read_predictions`, and say whether it holds scores or probs.",
        ),
        (
            lambda content: content.replace_schema_metadata({b"manyhot": b"{"}),
            "hold the metadata of manyhot; got {path} with others. Write the file again with `save`.",
        ),
        (
            lambda content: with_header(content, kinds=3),
            "hold the metadata of manyhot; got {path} with others. Write the file again with `save`.",
        ),
        (
            lambda content: content.drop_columns(["prob:dog"]),
            "hold the columns of its metadata; got {path} without 'prob:dog'. Write the file again.",
        ),
        (
            lambda content: content.drop_columns(["id"]),
            "hold the columns of its metadata; got {path} without 'id'. Write the file again.",
        ),
    ],
    ids=["newer", "foreign", "broken", "odd", "column", "ids"],
)
def test_other_content(tmp_path, change, sentence):
    path = saved(tmp_path)
    rewrite(path, change)
    with refused(f"`path` of `open_predictions` must {sentence.format(path=repr(str(path)))}"):
        open_predictions(path)


@pytest.mark.parametrize(
    ("column", "value", "sentence"),
    [
        ("score:cat", None, "`scores` of `StoredPredictions` must be numbers; got NaN at row 1, column 0."),
        ("prob:cat", 1.5, "`probs` of `StoredPredictions` must lie between 0 and 1; got 1.5."),
        ("target:cat", 3, "`targets` of `StoredPredictions` must be 1, 0 or -1; got 3."),
    ],
)
def test_values_that_another_program_spoilt(tmp_path, column, value, sentence):
    path = saved(tmp_path)

    def spoil(content):
        values = content[column].to_pylist()
        values[1] = value
        place = content.column_names.index(column)
        return content.set_column(place, column, pa.array(values, content.schema.field(column).type))

    rewrite(path, spoil)
    with raises_input_error(match="^" + sentence.replace("(", r"\(")):
        open_predictions(path).load()


def test_missing_splits_of_another_program_are_an_empty_name(tmp_path):
    path = tmp_path / "table.parquet"
    table(splits=["val", "", "val", "", "", "val", "val"]).save(path)

    def forget(content):
        names = [name or None for name in content["split"].to_pylist()]
        return content.set_column(content.column_names.index("split"), "split", pa.array(names))

    rewrite(path, forget)
    stored = open_predictions(path)
    assert stored.split_sizes() == {"val": 4, "": 3}
    assert stored.of_split("").load().ids == ["sample 1", "sample 3", "sample 4"]


def test_pandas_can_write_it_too(tmp_path):
    """A table that lost its metadata on the way through pandas says how to bring it in again."""
    path = saved(tmp_path)
    pd.read_parquet(path).to_parquet(path)
    with raises_input_error(match="Import it with `read_predictions`"):
        open_predictions(path)


def test_splits_are_not_counted_in_half_of_the_parts(tmp_path):
    table(rows=9).save(tmp_path / "part.parquet")
    path = saved(tmp_path)
    stored = open_predictions(tmp_path)
    table(rows=20).save(path)
    for _ in range(2):
        with raises_input_error(rule="stay as it is while it is read", got="table.parquet', which changed"):
            stored.split_sizes()
