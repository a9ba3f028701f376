"""New predictions join a folder of parts once, whole, or not at all."""

import pytest
import torch

import manyhot as mh
from manyhot.search.collection import Collection
from tests.errors.expected import raises_input_error


def table_of(names, *, labels=("cat", "dog"), **columns):
    draw = torch.Generator().manual_seed(len(names))
    given = {"probs": torch.rand(len(names), len(labels), generator=draw), "labels": list(labels), "ids": list(names)}
    return mh.Predictions(**given | columns)


def test_new_rows_are_found_and_known_ones_are_left_out(tmp_path):
    table_of("abc").save(tmp_path / "part-00000.parquet")
    collection = Collection.open(tmp_path)
    assert collection.add(table_of("bcdef")) == 3
    assert collection.add(table_of("abcdef")) == 0
    assert len(collection) == 6
    assert sorted(hit.id for hit in collection.search("cat").hits) == list("abcdef")
    assert Collection.open(tmp_path).search("cat") == collection.search("cat")
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert len(mh.Predictions.open(tmp_path)) == 6


def test_parts_that_others_add_are_seen_after_a_refresh(tmp_path):
    table_of("abc").save(tmp_path / "part-00000.parquet")
    mine, other = Collection.open(tmp_path), Collection.open(tmp_path)
    other.add(table_of("de"))
    assert len(mine.search("cat").hits) == 3
    mine.refresh()
    assert len(mine.search("cat").hits) == 5


def test_two_that_add_at_once_do_not_replace_each_other(tmp_path):
    table_of("abc").save(tmp_path / "part-00000.parquet")
    one, two = Collection.open(tmp_path), Collection.open(tmp_path)
    assert one.add(table_of("de")) == two.add(table_of("fg")) == 2
    assert one.add(table_of("defgh")) == 1
    assert len(Collection.open(tmp_path)) == 8


def test_folders_by_split_are_left_alone(tmp_path):
    table_of("abc").save(tmp_path / "split=test" / "part.parquet")
    with raises_input_error(rule="have no folders by split"):
        Collection.open(tmp_path).add(table_of("de", splits="test"))


def test_kinds_that_the_parts_do_not_have_are_left_out(tmp_path):
    table_of("abc").save(tmp_path / "part-00000.parquet")
    more = table_of("de")
    assert Collection.open(tmp_path).add(more.replace(targets=(more.probs > 0.5).int())) == 2
    assert mh.Predictions.open(tmp_path).kinds == ("probs",)


@pytest.mark.parametrize(
    ("table", "words"),
    [
        (table_of("de", labels=("cat", "bird")), "have the 2 labels of the collection; got 2 others"),
        (table_of("de", labels=("dog", "cat")), "got the same in another order"),
        (table_of("de").replace(probs=None, scores=torch.zeros(2, 2)), "got one without probs"),
        (table_of("de", paths=["d.jpg", "e.jpg"]), "have no paths like the existing parts"),
        (mh.Predictions(probs=torch.zeros(2, 2), labels=["cat", "dog"]), "have ids, which identify existing rows"),
    ],
)
def test_what_does_not_belong_is_refused(tmp_path, table, words):
    table_of("abc").save(tmp_path / "part-00000.parquet")
    with raises_input_error(match=words):
        Collection.open(tmp_path).add(table)
    assert len(list(tmp_path.glob("*.parquet"))) == 1


def test_only_folders_of_parts_can_grow(tmp_path):
    table_of("abc").save(tmp_path / "table.parquet")
    for collection in (Collection.open(tmp_path / "table.parquet"), Collection.of(table_of("abc"))):
        with raises_input_error(rule="be a folder of parts"):
            collection.add(table_of("de"))
