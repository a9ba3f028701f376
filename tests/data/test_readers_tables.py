"""Tables of paths and labels: what is detected, what is said about it, and what is refused."""

import gzip
import json

import pandas
import pytest

import manyhot as mh
from manyhot.data import image_tables as tables_module
from manyhot.data import read_data
from manyhot.errors import InputError
from tests.errors.expected import raises_input_error


@pytest.fixture
def photos(tmp_path):
    """Writes a table, and empty images for the names given."""

    def write(text, names=("a.jpg", "b.jpg", "c.jpg", "d.jpg"), table="photos.csv"):
        for name in names:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(name.encode())
        path = tmp_path / table
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(text.encode()) if table.endswith(".gz") else text.encode())
        return path

    return write


def rows(data):
    """The labels of each id, by name."""
    return dict(zip(data.ids, data.labels.decode(data.targets.dense()), strict=True))


@pytest.mark.parametrize("separator", ["|", ";", ",", " "])
def test_separators_are_found(photos, separator):
    lists = [["dog", "cat"], ["cat"], [], ["bird", "dog"]]
    body = "\n".join(f'{name}.jpg,"{separator.join(row)}"' for name, row in zip("abcd", lists, strict=True))
    data = read_data(photos(f"path,labels\n{body}\n"))
    assert list(rows(data).values()) == [sorted(row) for row in lists]
    assert f"separated by {separator!r} as detected" in data.notes[0]


@pytest.mark.parametrize("separator", ["|", ";", ","])
def test_names_with_spaces_survive(photos, separator):
    text = f'path,labels\na.jpg,"traffic light{separator} dog"\nb.jpg,traffic light\nc.jpg,"dog{separator}stop sign"\n'
    assert list(rows(read_data(photos(text))).values()) == [
        ["dog", "traffic light"],
        ["traffic light"],
        ["dog", "stop sign"],
    ]


def test_one_label_a_row_may_have_spaces_and_commas(photos):
    text = "path,label\n" + "".join(
        f'{name}.jpg,"{label}"\n'
        for name, label in zip("abcd", ["tench, Tinca tinca", "great white shark"] * 2, strict=True)
    )
    data = read_data(photos(text))
    assert data.labels.names == ["great white shark", "tench, Tinca tinca"]
    assert "labels in column 'label', one a row as detected (choose the separator ' ' if spaces" in data.notes[0]


def test_known_labels_settle_the_separator(photos):
    path = photos("path,labels\na.jpg,red fox\nb.jpg,grey wolf\n")
    assert read_data(path).labels.names == ["grey wolf", "red fox"]
    assert rows(read_data(path, labels=["fox", "red", "grey", "wolf"]))["a.jpg"] == ["fox", "red"]
    assert read_data(path, separator=" ").labels.names == ["fox", "grey", "red", "wolf"]
    assert read_data(photos("path,labels\na.jpg,x|y\n"), separator="").labels.names == ["x|y"]


def test_a_rare_sign_within_names_is_no_separator(photos):
    names = [f"{n}.jpg" for n in range(300)]
    lists = [["big dog", "big cat", "dog small", "cat small", "big small"][n % 5] for n in range(299)]
    texts = [f"{text} t{n}" for n, text in enumerate(lists)] + ["rock,roll big"]
    text = "path,labels\n" + "".join(f'{name},"{labels}"\n' for name, labels in zip(names, texts, strict=True))
    data = read_data(photos(text, names))
    assert {"big", "dog", "cat", "small", "rock,roll"} <= set(data.labels.names)


def test_lists_written_by_python_or_json(photos):
    data = read_data(photos('path,labels\na.jpg,"[\'dog\', ""it\'s, a|cat""]"\nb.jpg,[]\nc.jpg,"[""dog""]"\n'))
    assert rows(data) == {"a.jpg": ["dog", "it's, a|cat"], "b.jpg": [], "c.jpg": ["dog"]}
    assert "written as lists as detected" in data.notes[0]


def test_odd_text(photos):
    """A byte order mark, Windows lines, quoted commas, emoji, quotes and names that begin with digits."""
    text = '\ufeffpath,labels,split\r\n"a.jpg","3d print|""quoted""|🐕",train\r\n"d, e.jpg",🐕,val\r\n'
    data = read_data(photos(text, ("a.jpg", "d, e.jpg")))
    assert rows(data) == {"a.jpg": ['"quoted"', "3d print", "🐕"], "d, e.jpg": ["🐕"]}
    assert data.split_sizes() == {"train": 1, "val": 1}


@pytest.mark.parametrize("table", ["photos.tsv", "photos.tsv.gz", "photos.csv.gz"])
def test_other_forms_of_text(photos, table):
    sign = "\t" if "tsv" in table else ","
    data = read_data(photos(f"path{sign}labels\na.jpg{sign}dog|cat\nb.jpg{sign}\n", table=table))
    assert rows(data) == {"a.jpg": ["cat", "dog"], "b.jpg": []}


def test_rows_of_the_same_image_are_joined(photos):
    data = read_data(photos("image,label,split\na.jpg,dog,train\nb.jpg,cat,val\na.jpg,cat,train\na.jpg,dog,train\n"))
    assert rows(data) == {"a.jpg": ["cat", "dog"], "b.jpg": ["cat"]}
    assert data.splits.tolist() == ["train", "val"]
    assert "Rows of the same image were joined: 4 rows, 2 images." in data.notes


def test_an_image_in_two_splits_is_refused(photos):
    with raises_input_error("split", "read_data", rule="be one for each image", got="'a.jpg' in 'train' and 'val'"):
        read_data(photos("path,label,split\na.jpg,dog,train\na.jpg,cat,valid\n"))


def test_one_column_a_label(photos):
    text = "path,age,dog,cat,bird\na.jpg,31,1,0,\nb.jpg,25,0,0,-1\nc.jpg,2,1,1,1\n"
    data = read_data(photos(text))
    assert data.labels.names == ["dog", "cat", "bird"]
    assert data.targets.dense().tolist() == [[1, 0, -1], [0, 0, -1], [1, 1, 1]]
    assert "one column per label, 'dog', 'cat', 'bird'; blank cells are unknown" in data.notes[0]
    assert "Left out columns 'age'." in data.notes
    assert read_data(photos(text), labels=["cat", "dog"]).targets.dense().tolist() == [[0, 1], [0, 0], [1, 1]]


def test_blank_cells_may_be_called_absent(photos):
    path = photos("path,dog,cat,rare\na.jpg,1,,\nb.jpg,,1,\n")
    assert read_data(path).targets.dense().tolist() == [[1, -1, -1], [-1, 1, -1]]
    assert "choose unlisted 'absent'" in read_data(path).notes[0]
    assert read_data(path, unlisted="absent").targets.dense().tolist() == [[1, 0, 0], [0, 1, 0]]


def test_truth_values_and_joined_rows_of_label_columns(photos):
    text = "path,dog,cat\na.jpg,true,false\nb.jpg,false,\na.jpg,false,\nb.jpg,,\n"
    assert read_data(photos(text)).targets.dense().tolist() == [[1, 0], [0, -1]]


@pytest.mark.parametrize("first", [0, -1])
def test_joining_does_not_depend_on_what_is_stored(photos, first):
    """Rows of one image agree on what is known, whether absent or unknown is the common case."""
    filler = "".join(f"c{n}.jpg,{first},{first}\n" for n in range(5))
    text = f"path,dog,cat\na.jpg,0,-1\na.jpg,-1,-1\na.jpg,-1,1\nb.jpg,-1,0\nb.jpg,-1,1\n{filler}"
    data = read_data(photos(text, ["a.jpg", "b.jpg"]))
    assert data.targets.dense()[:2].tolist() == [[0, 1], [-1, 1]]


def test_wrong_values_of_label_columns(photos):
    with raises_input_error(rule="hold 1, 0, -1 or blank for each label", got="2 in column 'cat', row 2"):
        read_data(photos("path,dog,cat\na.jpg,1,0\nb.jpg,1,2\n"), labels=["dog", "cat"])


def test_splits_get_their_usual_names(photos):
    data = read_data(photos("path,label,Subset\na.jpg,x,Training\nb.jpg,x,dev\nc.jpg,x,testing\nd.jpg,x,fold 5\n"))
    assert data.splits.tolist() == ["train", "val", "test", "fold 5"]
    assert "Split 'dev' is read as 'val'." in data.notes
    flags = read_data(photos("fname,labels,is_valid\na.jpg,x,True\nb.jpg,x y,False\nc.jpg,y,False\n"))
    assert flags.splits.tolist() == ["val", "train", "train"]
    folds = read_data(photos("path,label,set\na.jpg,x,0\nb.jpg ,x,1\nb.jpg,y,1\n"))
    assert (folds.ids, folds.splits.tolist()) == (["a.jpg", "b.jpg"], ["0", "1"])


def test_numbers_too_large_for_a_label_are_refused(photos, tmp_path):
    pandas.DataFrame({"path": ["a.jpg"], "n": [2**40 + 1]}).to_parquet(photos("", table="n.parquet"))
    with raises_input_error(rule="hold 1, 0, -1 or blank for each label", got="1.09951e+12 in column 'n', row 1"):
        read_data(tmp_path / "n.parquet", labels=["n"])


def test_blank_splits(photos):
    path = photos("path,label,split\na.jpg,x,train\nb.jpg,x,\n")
    with raises_input_error(rule="be there in every row", got="1 rows without one"):
        read_data(path)
    assert read_data(path, split_column="").splits is None
    assert read_data(photos("path,label,split\na.jpg,x,\n")).splits is None


def test_files_of_splits(photos, tmp_path):
    photos("path,label\na.jpg,x\n", table="train.csv")
    photos("path,label\nb.jpg,y\n", table="valid.csv")
    for paths in (tmp_path, [tmp_path / "train.csv", tmp_path / "valid.csv"], str(tmp_path / "*.csv")):
        data = read_data(paths)
        assert data.splits.tolist() == ["train", "val"]
        assert rows(data) == {"a.jpg": ["x"], "b.jpg": ["y"]}


def test_where_images_lie(photos, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    data = read_data(photos("path,label\np.jpg,x\nq.jpg,y\n", ["images/p.jpg", "images/q.jpg"], "one.csv"))
    assert data.images.read(1) == b"images/q.jpg"
    assert f"Images lie in {str(tmp_path / 'images')!r}." in data.notes
    deep = ["elsewhere/p1/r.jpg", "elsewhere/p2/s.png"]
    data = read_data(photos("id,label\nr,x\ns,y\n", deep, "t/two.csv"), root=elsewhere)
    assert [data.images.read(row).decode() for row in (0, 1)] == deep
    assert data.ids == ["r", "s"]
    assert f"Images were found by name below {str(elsewhere)!r}." in data.notes


def test_names_without_endings(photos):
    data = read_data(
        photos("image_name,tags\nx_1,haze primary\nx_2,clear primary\n", ["train-jpg/x_1.jpg", "train-jpg/x_2.png"]),
        root=None,
    )
    assert data.images.read(1) == b"train-jpg/x_2.png"
    data = read_data(
        photos("image_id,label\ny_1,a\ny_2,b\ny_3,b\n", ["images/y_1.jpg", "images/y_2.jpg", "images/y_3.png"])
    )
    assert [data.images.name(row) for row in range(3)] == ["y_1.jpg", "y_2.jpg", "y_3.png"]
    assert "Names have no ending; '.jpg' was added." in data.notes


def test_backslashes(photos):
    data = read_data(photos("path,label\nsub\\a.jpg,x\n", ["sub/a.jpg"]))
    assert data.images.read(0) == b"sub/a.jpg"


def test_missing_images(photos, tmp_path):
    data = read_data(photos("path,label\na.jpg,x\nlost.jpg,y\n"))
    assert "Of the first 2 images 1 are not there." in data.notes
    with pytest.raises(InputError) as caught:
        read_data(photos("path,label\nlost.jpg,x\nlost2.jpg,y\n", [], "t/photos.csv"))
    assert str(caught.value) == (
        "`root` of `read_data` must be the folder of the images; got none of the first 2, such as 'lost.jpg', in "
        f"{str(tmp_path / 't')!r} or below. Pass the folder that the paths start from."
    )


def test_labels_to_keep(photos):
    path = photos("path,labels\na.jpg,dog|cat\nb.jpg,bird|dog\nc.jpg,bird\n")
    data = read_data(path, labels=["dog", "cat"])
    assert rows(data) == {"a.jpg": ["dog", "cat"], "b.jpg": ["dog"], "c.jpg": []}
    assert "Left out 1 label: 'bird'." in data.notes
    with raises_input_error(
        "labels", "read_data", rule="name labels that occur", got="'dgo'", hint="Did you mean 'dog'?"
    ):
        read_data(path, labels=["dgo", "cat"])
    data = read_data(path, labels=mh.Labels(["dog", "whale"]))
    assert data.targets.dense().tolist() == [[1, 0], [1, 0], [0, 0]]
    assert "Never present: 'whale'." in data.notes


def test_unlisted_may_be_unknown(photos):
    data = read_data(photos("path,labels\na.jpg,dog|cat\nb.jpg,dog\n"), unlisted="unknown")
    assert data.targets.dense().tolist() == [[1, 1], [-1, 1]]


def test_json_lines_with_lists(photos, tmp_path):
    lines = [{"file_name": "a.jpg", "tags": ["dog", "traffic light"]}, {"file_name": "b.jpg", "tags": []}]
    for table, text in (("metadata.jsonl", "\n".join(map(json.dumps, lines))), ("list.json", json.dumps(lines))):
        assert rows(read_data(photos(text, table=table))) == {"a.jpg": ["dog", "traffic light"], "b.jpg": []}


def test_image_folders_of_hugging_face(photos, tmp_path):
    photos('file_name,tags\n1.jpg,"dog,cat"\n', ["train/1.jpg"], "train/metadata.csv")
    photos('file_name,tags\n1.jpg,"cat,bird"\n', ["validation/1.jpg"], "validation/metadata.csv")
    data = read_data(tmp_path)
    assert rows(data) == {"train/1.jpg": ["cat", "dog"], "validation/1.jpg": ["bird", "cat"]}
    assert data.splits.tolist() == ["train", "val"]
    assert [data.images.read(row) for row in (0, 1)] == [b"train/1.jpg", b"validation/1.jpg"]


def test_an_absolute_path_is_one_image_whichever_folder_names_it(photos, tmp_path):
    photos("", ["a.jpg"], "train/metadata.csv")
    for split in ("train", "validation"):
        photos(f"file_name,tags\n{tmp_path}/a.jpg,cat\n", [], f"{split}/metadata.csv")
    with raises_input_error("split", "read_data", rule="be one for each image"):
        read_data(tmp_path)
    assert read_data(tmp_path, split_column="").ids == [str(tmp_path / "a.jpg")]


@pytest.mark.parametrize(
    ("text", "options", "sentence"),
    [
        (
            "path,labels\na.jpg,x\n",
            {"path_column": "paht"},
            r"`path_column` of `read_data` must name a column of the table; got 'paht'\. Did you mean 'path'\?",
        ),
        ("path,labels\na.jpg,x\n", {"labels_column": "zzz"}, r"The columns are 'path', 'labels'\."),
        ("path,labels\na.jpg,x\n", {"split_column": "fold"}, r"`split_column` of `read_data` must name a column"),
        ("path,labels\na.jpg,x\n", {"layout": "excel"}, r"`layout` of `read_data` must be one of 'table', 'folders'"),
        (
            "path,labels\na.jpg,x\n",
            {"unlisted": "zero"},
            r"`unlisted` of `read_data` must be one of 'absent', 'unknown'",
        ),
        ("path,labels\na.jpg,x\n", {"root": "/nowhere"}, r"`root` of `read_data` must be a folder; got '/nowhere'"),
        ("path,labels\n,x\n", {}, r"must have a path in every row; got a blank in row 1\."),
        ("path,labels\n", {}, r"must have rows; got .* without any\."),
        ("a.jpg,x\nb.jpg,y\n", {}, r"must have a header; got .*, which begins with 'a\.jpg'\. Write `path,labels`"),
        ("age,height\n1,2\n", {}, r"must have a column of image paths; got the columns 'age', 'height'\."),
        (
            "path,note,remark\na.jpg,x,y\n",
            {},
            r"must have a column of label names or one column per label; got the columns",
        ),
        (
            "path,label,dog\na.jpg,1,0\n",
            {},
            r"must have labels in one way; got both 'label' and columns of 1 and 0 such as 'dog'",
        ),
        ("path,labels\nhttps://x.org/a.jpg,x\n", {}, r"must name images on this machine; got 'https://x\.org/a\.jpg'"),
        ("path,labels\na.jpg,[x\n", {"separator": "[]"}, r"must be lists such as \['cat', 'dog'\]; got '\[x'"),
    ],
)
def test_refusals(photos, text, options, sentence):
    with raises_input_error(match=sentence):
        read_data(photos(text), **options)


def test_paths_that_lead_nowhere(photos, tmp_path):
    with raises_input_error("path", "read_data", rule="lead to data"):
        read_data(tmp_path / "none.csv")
    photos("path,label\na.jpg,x\n", table="one.csv")
    photos("path,label\na.jpg,x\n", table="two.csv")
    with raises_input_error(rule="be one table, or tables named like splits", got="a folder with 'one.csv', 'two.csv'"):
        read_data(tmp_path)
    (tmp_path / "photos.zip").write_bytes(b"PK")
    with raises_input_error(hint="Unpack it, and pass the folder."):
        read_data(tmp_path / "photos.zip")
    with raises_input_error(match=r"Use `read_images` for images without labels"):
        read_data(tmp_path / "a.jpg")
    photos("path,other\na.jpg,x\n", table="three.csv")
    with raises_input_error(rule="hold the same columns in all files"):
        read_data([tmp_path / "one.csv", tmp_path / "three.csv"])


def test_joining_rows_against_a_plain_loop():
    """Values of rows of one image: the highest known one, row by row, over random tables."""
    import numpy as np

    from manyhot.data import SparseTargets

    draw = np.random.default_rng(0)
    for low in (0.2, 0.9):
        table = draw.choice([-1, 0, 1], p=[low * 0.8, (1 - low) * 0.8, 0.2], size=(60, 4))
        owners = draw.integers(0, 25, size=60)
        expected = np.full((25, 4), -1)
        for row, owner in enumerate(owners):
            expected[owner] = np.maximum(expected[owner], table[row])
        seen = np.isin(np.arange(25), owners)
        joined = tables_module.join_rows(SparseTargets.from_dense(table), owners, 25).dense().numpy()
        assert (joined[seen] == expected[seen]).all()


def test_texts_that_stand_for_nothing(photos):
    data = read_data(photos("path,labels\na.jpg,dog|cat\nb.jpg,nan\nc.jpg,\nd.jpg,None\n"))
    assert rows(data) == {"a.jpg": ["cat", "dog"], "b.jpg": [], "c.jpg": [], "d.jpg": []}
    assert "and 'nan' for a row without any" in data.notes[0]
    assert read_data(
        photos("path,labels\na.jpg,dog|none\nb.jpg,none\n"), labels=["none"]
    ).targets.counts().tolist() == [2]


def test_tables_without_any_label(photos):
    data = read_data(photos("path,labels\na.jpg,\nb.jpg,\n"))
    assert (len(data), len(data.labels)) == (2, 0)


def test_numbers_as_labels(photos):
    data = read_data(photos("image_id,label\n000010,9\n000011,10\n", ["000010.jpg", "000011.jpg"]))
    assert (data.ids, data.labels.names) == (["000010", "000011"], ["9", "10"])
    data = read_data(photos("path;labels\na.jpg;3,7\nb.jpg;7\n"))
    assert rows(data) == {"a.jpg": ["3", "7"], "b.jpg": ["7"]}


def test_json_lines_end_at_line_feeds_alone(photos):
    lines = ['{"file_name": "a.jpg", "tags": ["one\u2028two"]}', '{"file_name": "b.jpg", "tags": ["x\x85y"]}']
    assert rows(read_data(photos("\r\n".join(lines), table="m.jsonl"))) == {
        "a.jpg": ["one\u2028two"],
        "b.jpg": ["x\x85y"],
    }


def test_json_of_several_types(photos):
    lines = [{"file_name": "a.jpg", "tags": ["dog", 5]}, {"file_name": "b.jpg", "tags": "cat"}, {"file_name": "c.jpg"}]
    data = read_data(photos("\n".join(map(json.dumps, lines)), table="m.jsonl"))
    assert rows(data) == {"a.jpg": ["5", "dog"], "b.jpg": ["cat"], "c.jpg": []}
    objects = [{"file_name": "a.jpg", "objects": [{"category": "dog"}]}]
    with raises_input_error("labels_column", "read_data", rule="hold lists of names", got="list<"):
        read_data(photos("\n".join(map(json.dumps, objects)), table="m.jsonl"), labels_column="objects")
    with raises_input_error(rule="be JSON, one object a line"):
        read_data(photos("{broken", table="m.jsonl"))
    with raises_input_error(rule="hold JSON objects", hint="Write one object for each image."):
        read_data(photos("[1, 2]", table="m.json"))


def test_tables_in_other_encodings_and_of_uneven_rows(photos, tmp_path):
    (tmp_path / "latin.csv").write_bytes("path,labels\na.jpg,Käse\n".encode("latin-1"))
    with raises_input_error(rule="in UTF-8"):
        read_data(tmp_path / "latin.csv")
    with raises_input_error(rule="be a whole table of text in UTF-8"):
        read_data(photos("path,labels\na.jpg,dog\nb.jpg,cat,bird\n"))


def test_a_label_may_be_called_like_an_image_where_another_column_shows_that_there_is_a_header(photos):
    data = read_data(photos("path,x.jpg\na.jpg,1\nb.jpg,0\n"))
    assert (data.ids, data.labels.names) == (["a.jpg", "b.jpg"], ["x.jpg"])
