"""Scores and probabilities as text."""

import gzip

import pandas as pd
import pytest
import torch

import manyhot as mh
from manyhot.predictions import read_predictions
from tests.errors.expected import raises_input_error
from tests.predictions.tables import PLAIN, PROBS, refused


def test_csv(write):
    read = read_predictions(write(PLAIN), kind="probs")
    assert read.labels.names == ["cat", "dog", "bird"]
    assert read.kinds == ("probs",)
    assert read.ids == ["a", "b"]
    torch.testing.assert_close(read.probs, torch.tensor(PROBS))
    assert read.notes == [
        "Read 3 columns as probs of labels: 'cat', 'dog', 'bird'.",
        "Ids are in column 'id'.",
    ]


def test_scores_with_their_link(write):
    path = write("id,cat\n1,-3.5\n2,12\n")
    read = read_predictions(path, kind="scores", link=mh.SigmoidLink(), dtype=torch.float64)
    assert read.scores.tolist() == [[-3.5], [12.0]]
    assert read.scores.dtype == torch.float64
    assert torch.equal(read.probabilities(), read.scores.sigmoid())


@pytest.mark.parametrize("kind", [None, "logits", "probabilities"])
def test_the_kind_is_never_guessed(write, kind):
    hint = "Say 'scores' for any real numbers and 'probs' for probabilities: nothing is guessed."
    with refused(
        "`kind` of `read_predictions` must be 'scores' or 'probs'; "
        f"got {'nothing' if kind is None else repr(kind)}. {hint}"
    ):
        read_predictions(write(PLAIN), kind=kind)
    with raises_input_error("kind", "read_predictions", rule="be 'scores' or 'probs'", got="nothing"):
        read_predictions(write(PLAIN))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (PLAIN.replace(",", "\t"), "table.tsv"),
        (PLAIN.replace(",", "\t"), "table.csv"),
        (PLAIN.replace(",", ";"), "table.csv"),
        (PLAIN.replace(",", "|"), "table.csv"),
        (PLAIN.replace(",", ";").replace(".", ","), "table.csv"),
        ("\ufeff" + PLAIN, "table.csv"),
        (PLAIN.replace("\n", "\r\n"), "table.csv"),
        (PLAIN.replace("cat", '"cat"').replace("a,", '"a",'), "table.csv"),
        (PLAIN.rstrip("\n"), "TABLE.CSV"),
    ],
    ids=["tsv", "tabs", "semicolons", "bars", "decimal commas", "mark", "windows", "quotes", "no end"],
)
def test_dialects(write, text, name):
    read = read_predictions(write(text, name), kind="probs")
    assert read.labels.names == ["cat", "dog", "bird"]
    assert read.ids == ["a", "b"]
    torch.testing.assert_close(read.probs, torch.tensor(PROBS))


def test_cells_as_people_write_them(write):
    text = "id,cat,target:cat\n1_000, 0.5,None\n1_001,1e-3 ,1\n1_002,.25,NA\n"
    read = read_predictions(write(text), kind="probs")
    assert read.ids == ["1_000", "1_001", "1_002"]
    torch.testing.assert_close(read.probs.flatten(), torch.tensor([0.5, 0.001, 0.25]))
    assert read.targets.flatten().tolist() == [-1, 1, -1]


def test_commas_and_points_in_texts_are_no_numbers(write):
    read = read_predictions(write("path;cat\na,b.jpg;1\nc.jpg;0\n"), kind="probs")
    assert (read.paths, read.probs.flatten().tolist()) == (["a,b.jpg", "c.jpg"], [1.0, 0.0])
    versions = read_predictions(write("version;cat\n1,5.2;0,5\n"), kind="probs")
    assert versions.labels.names == ["cat"]


def test_what_was_detected_is_said(write):
    text = PLAIN.replace(",", ";").replace(".", ",")
    assert read_predictions(write(text), kind="probs").notes[:2] == [
        "Columns of table.csv are separated by ';'.",
        "Numbers of table.csv are written with a comma.",
    ]


def test_gzip(tmp_path):
    with gzip.open(tmp_path / "table.csv.gz", "wt") as file:
        file.write(PLAIN)
    assert read_predictions(tmp_path / "table.csv.gz", kind="probs").ids == ["a", "b"]
    (tmp_path / "bad.csv.gz").write_text(PLAIN)
    with raises_input_error("source", "read_predictions", rule="be text in UTF-8"):
        read_predictions(tmp_path / "bad.csv.gz", kind="probs")
    packed = gzip.compress(PLAIN.encode(), mtime=0)
    (tmp_path / "damaged.csv.gz").write_bytes(packed[:10] + b"\xff" * 20)
    with raises_input_error(rule="be text in UTF-8", got="Error -3 while decompressing", hint="Convert it first."):
        read_predictions(tmp_path / "damaged.csv.gz", kind="probs")


def test_names_of_columns(write):
    text = 'image_id,file_name,split,caption,"traffic, light",width\n7,a.jpg,val,hello,0.5,1\n8,b.jpg,test,,0.25,0\n'
    read = read_predictions(write(text), kind="probs")
    assert (read.ids, read.paths, read.splits) == (["7", "8"], ["a.jpg", "b.jpg"], ["val", "test"])
    assert read.labels.names == ["traffic, light", "width"]
    assert read.notes == [
        "Read 2 columns as probs of labels: 'traffic, light', 'width'.",
        "Ids are in column 'image_id'.",
        "Splits are in column 'split'.",
        "Left out columns: 'caption'.",
    ]
    some = read_predictions(write(text), kind="probs", labels=["traffic, light"])
    assert some.labels.names == ["traffic, light"]
    assert some.notes[-1] == "Left out columns: 'caption', 'width'."
    renamed = read_predictions(write(text), kind="probs", id_column="file_name", labels=["width"])
    assert renamed.ids == ["a.jpg", "b.jpg"]


def test_paths_or_row_numbers_for_ids(write):
    paths = read_predictions(write("path,cat\nx.jpg,0.5\n"), kind="probs")
    assert (paths.ids, paths.paths) == (["x.jpg"], ["x.jpg"])
    assert paths.notes[1] == "Ids are the paths in column 'path'."
    numbers = read_predictions(write("cat,dog\n0.5,0.1\n0.5,0.2\n"), kind="probs")
    assert numbers.ids == ["0", "1"]
    assert numbers.notes[1] == "Ids are row numbers."
    index = read_predictions(write(",cat\n5,0.5\n"), kind="probs")
    assert (index.ids, index.labels.names) == (["5"], ["cat"])


def test_numbered_images_and_splits(write):
    read = read_predictions(write("image,cat,split\n0009,0.5,1\n0010,1,2\n"), kind="probs")
    assert (read.ids, read.splits, read.labels.names) == (["0009", "0010"], ["1", "2"], ["cat"])
    frame = pd.DataFrame({"image": [9, 10], "cat": [0.5, 1.0], "dog": [0, 1]})
    joined = read_predictions(frame, kind="probs", targets=write("image,labels\n9,dog\n", "labels.csv"))
    assert (joined.ids, joined.targets.tolist()) == (["9", "10"], [[0, 1], [-1, -1]])


def test_a_label_may_be_called_like_anything(write):
    read = read_predictions(write("id,image,labels,split\nx,0.5,0.1,0.2\n"), kind="probs")
    assert read.labels.names == ["image", "labels", "split"]
    named = read_predictions(write("id,path\n0.5,0.25\n"), kind="probs", labels=["path", "id"])
    assert named.probs.tolist() == [[0.25, 0.5]]


def test_columns_marked_by_kind(write):
    text = "id,prob:cat,score:cat,target:cat,target:dog,prob:dog\na,0.9,5,1,,0.5\nb,0.1,-5,0,-1,0.25\n"
    read = read_predictions(write(text), kind="probs")
    assert read.labels.names == ["cat", "dog"]
    assert read.targets.tolist() == [[1, -1], [0, -1]]
    assert read.notes[-2:] == [
        "Targets are in 2 columns: 'target:cat', 'target:dog'.",
        "Left out columns: 'score:cat'.",
    ]


@pytest.mark.parametrize(
    "values", [("1", "0", ""), ("1.0", "0.0", "-1"), ("true", "false", ""), ("True", "False", "NaN")]
)
def test_targets_beside_the_numbers(write, values):
    rows = "".join(f"{row},0.5,{value}\n" for row, value in enumerate(values))
    read = read_predictions(write("id,cat,target:cat\n" + rows), kind="probs")
    assert read.targets.flatten().tolist() == [1, 0, -1]


def test_labels_without_targets_are_unknown(write):
    read = read_predictions(write("id,cat,dog,target:dog\na,0.5,0.5,1\n"), kind="probs")
    assert read.targets.tolist() == [[-1, 1]]
    assert "Targets of 'cat' are unknown: they have no column." in read.notes


def test_label_names_beside_the_numbers(write):
    text = "id,cat,dog,tags\na,0.9,0.2,cat dog\nb,0.1,0.3,\n"
    read = read_predictions(write(text), kind="probs")
    assert read.targets.tolist() == [[1, 1], [0, 0]]
    assert read.notes[-1] == "Targets are the label names in column 'tags', separated by ' ' as detected."
    other = read_predictions(write(text.replace("tags", "truth")), kind="probs", labels_column="truth", separator=" ")
    assert other.targets.tolist() == [[1, 1], [0, 0]]
    assert other.notes[-1] == "Targets are the label names in column 'truth', separated by ' '."


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (
            "id,cat\na,0.5\nb,\n",
            {},
            "`table` of `read_predictions` must have a number in every cell of its labels; "
            "got none in column 'cat', row 1. "
            "Fill or drop these rows, or name the columns of labels with `labels`.",
        ),
        (
            "id,cat,width\na,0.5,640\n",
            {},
            "`table` of `read_predictions` must hold probabilities between 0 and 1; got 640 in column 'width', row 0. "
            "Say `kind='scores'`, or name the columns of labels with `labels`.",
        ),
        (
            "id,cat,cat\na,0.5,0.5\n",
            {},
            "`source` of `read_predictions` must have columns of different names; "
            "got 'cat' twice in {path}. Rename one of them.",
        ),
        (
            "id,cat\na,0.5\na,0.25\n",
            {},
            "`ids` of `Predictions` must be all different; got 'a' twice. Name the column of ids with `id_column`.",
        ),
        (
            "id,cat,target:cta\na,0.5,1\n",
            {},
            "`table` of `read_predictions` must have probs for every label with targets; got 'target:cta' alone. "
            "Did you mean 'cat'?",
        ),
        (
            "id,caption\na,hello\n",
            {},
            "`table` of `read_predictions` must have a column of probs for each label; "
            "got the columns 'id', 'caption'. "
            "Name the columns with `labels`.",
        ),
        (
            "id,cat\na,0.5\n",
            {"labels": ["dog"]},
            "`labels` of `read_predictions` must name columns of the table; got 'dog'. The columns are 'id', 'cat'.",
        ),
        (
            "id,cat\na,0.5\n",
            {"id_column": "ids"},
            "`id_column` of `read_predictions` must name a column of the table; got 'ids'. Did you mean 'id'?",
        ),
        (
            "id,cat,labels\na,0.5,dog\n",
            {},
            "`targets` of `read_predictions` must name the 1 labels; got 'dog'. "
            "Pass `other_labels='leave out'` to do without such names, or rename the column if it does not hold true "
            "labels.",
        ),
        (
            "0.5,0.25\n0.1,0.2\n",
            {},
            "`source` of `read_predictions` must have a header; got {path}, which begins with numbers. "
            "Write the names of the columns above them.",
        ),
        ("", {}, "`source` of `read_predictions` must have a header; got {path} without one. Name the columns."),
        (
            PLAIN,
            {"other_labels": "drop"},
            "`other_labels` of `read_predictions` must be one of 'refuse', 'leave out'; got 'drop'. Pick one of these.",
        ),
        (
            "id,cat,target:cat\na,0.5,maybe\n",
            {},
            "`source` of `read_predictions` must hold 1, 0, -1, yes, no or blank for each label; got 'maybe' in "
            "column 'target:cat'. Write 1 for present, 0 for absent and nothing for unknown.",
        ),
        (
            PLAIN,
            {"labels": ["id"]},
            "`table` of `read_predictions` must hold numbers for each label; got text in column 'id'. "
            "Write scores and probabilities as numbers, and targets as 1, 0 and blank.",
        ),
        (
            PLAIN,
            {"dtype": torch.int8},
            "`dtype` of `read_predictions` must be torch.float32 or torch.float64; got torch.int8. "
            "Read the numbers in one of these, and convert them later.",
        ),
        (
            PLAIN,
            {"delimiter": "::"},
            "`delimiter` of `read_predictions` must be one character; got '::'. Leave it out to have it detected.",
        ),
        (PLAIN, {"labels": 3}, "`names` of `Labels` must be a list of strings; got int. Pass ['cat', 'dog']."),
        (
            PLAIN,
            {"targets": "nowhere.csv"},
            "`targets` of `read_predictions` must be a file; got 'nowhere.csv', where there is none. Check the path.",
        ),
        (
            PLAIN,
            {"targets": __file__},
            "`targets` of `read_predictions` must be a Parquet file or end with .csv, .tsv, .csv.gz, .tsv.gz, .npz, "
            f".npy; got {__file__!r}. Rename the file, or convert it first.",
        ),
        (
            PLAIN,
            {"separator": ""},
            "`separator` of `read_predictions` must be a character; got ''. Leave it out to have it detected.",
        ),
    ],
)
def test_refusals(write, text, options, sentence):
    path = write(text)
    with refused(sentence.format(path=repr(str(path)))):
        read_predictions(path, kind="probs", **options)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("id,cat\na,0.5\nb,0.5,7\n", "Expected 2 columns, got 3"),
        ("id,cat\n" + "a,0.5\n" * 2000 + "b,many\n", "many"),
    ],
)
def test_broken_tables(write, text, part):
    with raises_input_error("source", "read_predictions", match=f"a whole table of text in UTF-8; got .*{part}"):
        read_predictions(write(text), kind="probs")


def test_other_encodings(tmp_path):
    (tmp_path / "table.csv").write_bytes("id,Zürich\na,0.5\n".encode("latin-1"))
    with raises_input_error("source", "read_predictions", rule="be text in UTF-8"):
        read_predictions(tmp_path / "table.csv", kind="probs")
