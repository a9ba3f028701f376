"""Collections answer as somebody would who looks at every sample, wherever their columns are."""

import math
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import product

import duckdb
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import manyhot as mh
from manyhot.errors import InputError
from manyhot.search.collection import Collection
from manyhot.search.diagram import compile_query
from manyhot.search.formula import Count, format_query, holds
from manyhot.search.parser import parse_query
from manyhot.search.ranking import Scan, TopK
from tests.errors.expected import raises_input_error
from tests.search.formulas import Worlds, formulas, tangles

LABELS = ["cat", "dog", "traffic light", "sofa", "bird"]
QUERIES = [
    "cat",
    "!dog",
    "cat & dog & !bird",
    "cat & !(traffic light | sofa)",
    "(cat | dog) & (cat | bird)",
    "only(cat, sofa)",
    "none",
    "count >= 3",
    "atleast(2, cat, dog, bird) & count < 4",
    "dog & !dog",
    "cat | !cat",
]


def random_table(rows=400, *, seed=0, labels=LABELS, dtype=torch.float32, **columns):
    draw = torch.Generator().manual_seed(seed)
    probs = torch.sigmoid(3 * torch.randn(rows, len(labels), generator=draw) - 1).to(dtype)
    given = {"ids": [f"image {row}" for row in range(rows)], "paths": [f"photos/{row}.jpg" for row in range(rows)]}
    return mh.Predictions(**{"probs": probs, "labels": list(labels)} | given | columns)


def probabilities(table, query):
    """The probability of a query for each row, by adding up all sets of labels for which it holds."""
    formula = parse_query(query, table.labels.names)
    cells = table.probabilities().double().numpy()
    total = np.zeros(len(cells))
    for present in product((False, True), repeat=cells.shape[1]):
        if holds(formula, {column for column, there in enumerate(present) if there}):
            total += np.where(np.array(present), cells, 1 - cells).prod(1)
    return total


def ways(table, folder):
    """The same table as a collection in memory, in columns that are kept, and in files that are read each time."""
    table.save(folder / "table.parquet")
    yield Collection.of(table)
    yield Collection.open(folder / "table.parquet")
    yield Collection.open(folder / "table.parquet", cache_bytes=0)


@pytest.mark.parametrize("query", QUERIES)
def test_the_best_are_the_best_of_all(tmp_path, query):
    table = random_table()
    want = probabilities(table, query)
    order = np.argsort(-want, kind="stable")[:25]
    for collection in ways(table, tmp_path):
        found = collection.search(query, k=25)
        got = [hit.prob for hit in found.hits]
        np.testing.assert_allclose(got, want[order], rtol=1e-12)
        assert [hit.log_prob for hit in found.hits] == sorted((hit.log_prob for hit in found.hits), reverse=True)
        with np.errstate(divide="ignore"):
            logs = np.log(want[order])
        np.testing.assert_allclose([hit.log_prob for hit in found.hits], logs, rtol=1e-9, atol=1e-12)
        for hit in found.hits:
            row = int(hit.id.removeprefix("image "))
            assert hit.path == f"photos/{row}.jpg"
            assert hit.prob == pytest.approx(want[row], rel=1e-12)
        assert found.expected.mean == pytest.approx(want.sum(), rel=1e-12)
        assert found.expected.rows == len(table)
        assert found.precision == pytest.approx(want[order].mean())
        recall = want[order].sum() / want.sum() if want.sum() else math.nan
        assert found.recall == pytest.approx(recall, nan_ok=True)


@pytest.fixture(scope="module")
def both_ways(tmp_path_factory):
    """A table as a collection that keeps its columns, and as one that reads files; and all sets of its labels."""
    path = tmp_path_factory.mktemp("random") / "table.parquet"
    table = random_table(64, seed=11, dtype=torch.float64)
    table.save(path)
    probs = table.probs.numpy()
    return [Collection.open(path), Collection.open(path, cache_bytes=0)], Worlds(probs, 1 - probs)


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(formula=st.one_of(formulas(len(LABELS)), tangles(len(LABELS))))
def test_any_query_that_can_be_written_finds_what_going_through_all_sets_finds(both_ways, formula):
    collections, worlds = both_ways
    want = worlds.probs(formula)[0]
    for collection in collections:
        found = collection.search(format_query(formula, LABELS), k=7)
        np.testing.assert_allclose([hit.prob for hit in found.hits], np.sort(want)[::-1][:7], rtol=1e-12)
        assert found.expected.mean == pytest.approx(want.sum(), rel=1e-12)


def test_single_precision_loses_no_hit_of_a_query_over_many_labels():
    """1 - p has no digits of so small a p, and the error adds up over the labels."""
    labels = 40_000
    diagram = compile_query(Count(0, 0), labels)
    scan = Scan(diagram, TopK(2), None)
    for first_row, prob in ((0, 3.0e-8), (2, 2.99e-8)):
        scan.update(first_row, dict.fromkeys(range(labels), np.full(2, prob, np.float32)), 2)
    rows, probs, _ = scan.top.best()
    assert rows.tolist() == [2, 3]
    np.testing.assert_allclose(probs, math.exp(-labels * 2.99e-8), rtol=1e-6)


def test_rows_that_are_equally_probable_come_in_the_order_of_the_table(tmp_path):
    table = random_table(6, probs=torch.tensor([[0.5], [0.9], [0.5], [0.9], [0.5], [1.0]]), labels=["cat"])
    for collection in ways(table, tmp_path):
        assert [hit.id[-1] for hit in collection.search("cat").hits] == list("513024")


def test_probabilities_that_would_be_rounded_to_nothing_keep_their_order(tmp_path):
    labels = [str(number) for number in range(60)]
    tiny = torch.full((3, 60), 1e-30)
    tiny[1, 0], tiny[2, 0] = 3e-30, 2e-30
    for collection in ways(random_table(3, probs=tiny, labels=labels), tmp_path):
        found = collection.search(" & ".join(labels))
        assert [hit.id[-1] for hit in found.hits] == list("120")
        assert [hit.prob for hit in found.hits] == [0, 0, 0]
        assert found.hits[0].log_prob == pytest.approx(60 * math.log(1e-30) + math.log(3), rel=1e-6)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.5, 0.8, 0.99, 1.0])
@pytest.mark.parametrize("query", ["cat", "cat & dog", "count >= 2"])
def test_lists_end_where_they_become_too_imprecise_or_complete_enough(tmp_path, query, share):
    table = random_table(500, seed=3)
    probs = np.sort(probabilities(table, query))[::-1]
    means = np.cumsum(probs) / np.arange(1, 501)
    precise = int((means >= share * (1 - 1e-12)).sum())
    complete = int(np.flatnonzero(np.cumsum(probs) >= share * probs.sum() * (1 - 1e-12))[0]) + 1
    for collection in ways(table, tmp_path):
        assert len(collection.search(query, k=None, precision=share).hits) == precise
        assert len(collection.search(query, k=None, recall=share).hits) == complete
        both = collection.search(query, k=None, precision=share, recall=share)
        assert len(both.hits) == min(precise, complete)
        assert len(collection.search(query, k=3, recall=share).hits) == min(3, complete)


def test_of_no_matches_none_are_wanted(tmp_path):
    for collection in ways(random_table(4, probs=torch.zeros(4, 5)), tmp_path):
        assert collection.search("cat", recall=0.5).hits == []


def test_without_a_limit_all_rows_are_given(tmp_path):
    for collection in ways(random_table(30), tmp_path):
        assert len(collection.search("cat", k=None).hits) == len(collection) == 30


@pytest.mark.parametrize("limits", [{}, {"precision": 0.6, "k": None}, {"recall": 0.4, "k": None}, {"k": 3}])
def test_the_statement_gives_the_same_in_plain_duckdb(tmp_path, limits):
    table = random_table(200, seed=4)
    table.save(tmp_path / "it's.parquet")
    collection = Collection.open(tmp_path / "it's.parquet")
    for query in QUERIES[:-2]:  # the last ones tie all rows
        want = collection.search(query, **limits)
        rows = duckdb.connect().execute(collection.sql(query, **limits)).fetchall()
        assert sorted(row[0] for row in rows) == sorted(hit.id for hit in want.hits)
        np.testing.assert_allclose([row[2] for row in rows], [hit.prob for hit in want.hits], rtol=1e-12)


def test_the_statement_names_the_columns_of_the_query_alone(tmp_path):
    random_table().save(tmp_path / "table.parquet")
    statement = Collection.open(tmp_path / "table.parquet").sql("cat & !traffic light")
    assert '"prob:cat"' in statement
    assert '"prob:traffic light"' in statement
    assert "dog" not in statement


def test_columns_that_a_query_does_not_name_are_not_read(tmp_path):
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    random_table(2000).save(path)
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(place) for place in range(group.num_columns)]
    dog = next(chunk for chunk in chunks if chunk.path_in_schema == "prob:dog")
    content = bytearray(path.read_bytes())
    content[dog.data_page_offset : dog.data_page_offset + dog.total_compressed_size] = bytes(dog.total_compressed_size)
    path.write_bytes(content)
    for cache_bytes in (0, 2**20):
        collection = Collection.open(path, cache_bytes=cache_bytes)
        assert len(collection.search("cat & !sofa").hits) == 20
        with raises_input_error(rule="lead to whole Parquet files"):
            collection.search("dog")


def test_parts_in_folders_patterns_and_runs_are_one_collection(tmp_path):
    table = random_table(90)
    for part in range(3):
        table.slice(30 * part, 30 * part + 30).save(tmp_path / "parts" / f"day={part}" / f"part-{part}.parquet")
    (tmp_path / "parts" / "_unfinished").mkdir()
    (tmp_path / "parts" / "_unfinished" / "x.parquet").write_bytes(b"half")
    (tmp_path / "parts" / ".x.parquet.part").write_bytes(b"half")
    run = tmp_path / "run"
    table.save(run / "predictions.parquet")
    (run / "classifier.json").write_text("{}")
    want = Collection.of(table).search("cat & dog")
    parts = tmp_path / "parts"
    for path in (parts, f"{parts}/day=*/*.parquet", [parts / f"day={part}" for part in range(3)], run):
        assert Collection.open(path).search("cat & dog") == want
        assert Collection.open(path, cache_bytes=0).search("cat & dog") == want


def test_one_split_is_searched_as_a_table_of_its_own(tmp_path):
    table = random_table(80, splits=["val", "test"] * 40)
    test = table.of_split("test")
    table.save(tmp_path / "table.parquet")
    for name in ("val", "test"):
        part = table.of_split(name).replace(splits=None)
        part.save(tmp_path / "parts" / f"split={name}" / "part.parquet")
    want = Collection.of(test).search("cat & !dog")
    for path in (tmp_path / "table.parquet", tmp_path / "parts"):
        for cache_bytes in (0, 2**20):
            collection = Collection.open(path, split="test", cache_bytes=cache_bytes)
            assert len(collection) == 40
            assert collection.search("cat & !dog") == want


def test_scores_are_searched_through_their_link(tmp_path):
    scores = torch.randn(50, 3, generator=torch.Generator().manual_seed(0))
    table = mh.Predictions(scores=scores, labels=["a", "b", "c"], link=mh.StrictlyProperAsymmetricLoss().link)
    table.save(tmp_path / "scores.parquet")
    want = table.link.probs(scores)[:, 1].double().numpy()
    for collection in (Collection.of(table), Collection.open(tmp_path / "scores.parquet")):
        found = collection.search("b", k=1).hits[0]
        assert (found.id, found.path) == (str(want.argmax()), None)
        assert found.prob == pytest.approx(want.max(), rel=1e-6)


def test_scores_that_only_rank_are_refused(tmp_path):
    mh.Predictions(scores=torch.randn(5, 2)).save(tmp_path / "scores.parquet")
    with raises_input_error(hint="Fit a calibrator on held-out scores"):
        Collection.open(tmp_path / "scores.parquet")


ODD = [
    'say "hi"',
    "it's",
    "'; DROP TABLE kept; --",
    "two\nlines",
    "\x1b[31mred\x00",
    "Cat",
    "cat",
    "CAT",
    "",
    "and",
    "é😀",
    "probability",
    "p0",
    "row",
    "*",
]


def test_any_text_can_be_the_name_of_a_label(tmp_path):
    table = random_table(40, labels=ODD, seed=6)
    for collection in ways(table, tmp_path):
        for column, name in enumerate(ODD):
            escaped = "".join(f"\\u{ord(sign):04x}" if ord(sign) < 0xFFFF else sign for sign in name)
            if not name:
                continue
            best = collection.search(f'"{escaped}"', k=1, expect=False).hits[0]
            assert best.id == f"image {int(table.probs[:, column].argmax())}", name
        assert len(collection.search("count >= 3").hits) == 20


def test_files_whose_names_look_like_patterns_are_found(tmp_path):
    folder = tmp_path / "a[1]*b?'c"
    table = random_table(30)
    table.save(folder / "x[0-9].parquet")
    assert Collection.open(folder).search("cat") == Collection.of(table).search("cat")


@pytest.mark.slow
def test_many_threads_may_ask_at_once(tmp_path):
    collection = list(ways(random_table(300), tmp_path))[1]
    want = {query: collection.search(query) for query in QUERIES}
    with ThreadPoolExecutor(8) as pool:
        for query, found in pool.map(lambda query: (query, collection.search(query)), QUERIES * 10):
            assert found == want[query]


@pytest.mark.slow
def test_few_columns_are_kept_where_memory_is_scarce(tmp_path):
    table = random_table(1000)
    table.save(tmp_path / "table.parquet")
    collection = Collection.open(tmp_path / "table.parquet", cache_bytes=3 * 1000 * 4)
    for query in QUERIES * 2:
        assert collection.search(query) == Collection.of(table).search(query)
    cached = collection._view.cache._columns
    assert sum(values.nbytes for column, values in cached.items() if isinstance(column, int)) <= 3 * 1000 * 4


def test_a_table_without_rows_has_no_matches(tmp_path):
    table = random_table(3).take([])
    for collection in ways(table, tmp_path):
        found = collection.search("cat")
        assert found.hits == []
        assert math.isnan(found.precision)
        assert (found.expected.mean, found.expected.low, found.expected.high) == (0, 0, 0)
        assert math.isnan(found.recall)


def test_what_cannot_be_asked_is_refused_in_a_sentence(tmp_path):
    collection = Collection.of(random_table(5))
    with raises_input_error("k", "Collection.search", rule="be a whole number from 1 on, of at most 18 digits"):
        collection.search("cat", k=0)
    with raises_input_error("precision", "Collection.search", rule="lie above 0 and not above 1", got="90"):
        collection.search("cat", precision=90)
    with raises_input_error(hint="Did you mean 'cat'"):
        collection.search("catt")
    with raises_input_error("level", "Collection.expect", rule="lie above 0 and below 1"):
        collection.expect("cat", level=1)
    with raises_input_error(rule="lie on disk as Parquet with probabilities", got="one in memory"):
        collection.sql("cat")
    with raises_input_error("table", "Collection.of", rule="be a table of predictions", got="int"):
        Collection.of(3)
    with raises_input_error("query"):
        collection.search(["cat"])
    with raises_input_error(got="where there is nothing"):
        Collection.open(tmp_path / "none.parquet")
    with raises_input_error("path", "Collection.open", rule="be a path or several", got="int"):
        Collection.open(3)


def test_parts_may_differ_in_paths_and_precision(tmp_path):
    narrow = random_table(5, paths=None, probs=torch.full((5, 5), 0.5))
    tiny = torch.full((3, 5), 0.5, dtype=torch.float64)
    tiny[:, 0] = torch.tensor([1e-60, 3e-60, 2e-60], dtype=torch.float64)
    wide = random_table(3, probs=tiny, ids=list("xyz"), paths=["x.jpg", "y.jpg", "z.jpg"])
    for number, names in enumerate([("0", "1"), ("1", "0")]):
        folder = tmp_path / str(number)
        for table, name in zip((narrow, wide), names, strict=True):
            table.save(folder / f"part-{name}.parquet")
        for cache_bytes in (0, 2**20):
            hits = {hit.id: hit for hit in Collection.open(folder, cache_bytes=cache_bytes).search("cat").hits}
            assert [name for name in hits if name in "xyz"] == ["y", "z", "x"]
            assert hits["y"].prob == 3e-60
            assert hits["y"].path == "y.jpg"
            assert hits["image 0"].path is None


def test_a_file_named_twice_is_searched_once(tmp_path):
    random_table(5).save(tmp_path / "a.parquet")
    assert len(Collection.open([tmp_path, tmp_path / "a.parquet"])) == 5


def test_a_split_that_is_not_there_is_refused(tmp_path):
    random_table(4, splits=["val", "test"] * 2).save(tmp_path / "a.parquet")
    random_table(4).save(tmp_path / "b.parquet")
    with raises_input_error(got="'tset'", hint="Did you mean 'test'"):
        Collection.open(tmp_path / "a.parquet", split="tset")
    with raises_input_error(hint="There are 'test', 'val'"):
        Collection.open(tmp_path / "a.parquet", split="train")
    with raises_input_error(got="'test' for one without splits", hint="Leave it out"):
        Collection.open(tmp_path / "b.parquet", split="test")


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
def test_files_that_change_are_not_mixed_with_what_was_read_before(tmp_path, cache_bytes):
    path = tmp_path / "table.parquet"
    table = random_table(50)
    table.save(path)
    collection = Collection.open(path, cache_bytes=cache_bytes)
    collection.expect("cat")
    table.take(list(range(49, -1, -1))).save(path)
    with raises_input_error(got="which has changed", hint="Open it again, or call `refresh()`"):
        collection.search("cat & dog")
    collection.refresh()
    assert collection.search("cat & dog").hits == Collection.open(path).search("cat & dog").hits
    path.unlink()
    with raises_input_error(got="which has changed"):
        collection.search("bird & !sofa")


def test_searches_during_a_refresh_see_one_state_of_the_files(tmp_path):
    table = random_table(4000, seed=9)
    table.save(tmp_path / "part-1.parquet")
    extra = random_table(500, seed=10, ids=[f"extra {row}" for row in range(500)])
    truth = {f"image {row}": prob for row, prob in enumerate(probabilities(table, "cat & dog"))}
    truth |= {f"extra {row}": prob for row, prob in enumerate(probabilities(extra, "cat & dog"))}
    collection = Collection.open(tmp_path)
    wrong, stop = [], threading.Event()

    def ask():
        while not stop.is_set():
            try:
                hits = collection.search("cat & dog", k=5).hits
            except InputError:  # the files changed before the refresh
                continue
            wrong.extend(hit for hit in hits if abs(truth[hit.id] - hit.prob) > 1e-12)

    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(ask) for _ in range(3)]
        for turn in range(30):
            if turn % 2:
                (tmp_path / "part-0.parquet").unlink()
            else:
                extra.save(tmp_path / "part-0.parquet")
            collection.refresh()
        stop.set()
    for future in asked:
        future.result()
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_threads_that_share_little_memory_do_not_take_columns_from_each_other(tmp_path, dtype):
    table = random_table(2000, dtype=dtype)
    table.save(tmp_path / "table.parquet")
    collection = Collection.open(tmp_path / "table.parquet", cache_bytes=2000 * 4 * 2)
    queries = ["cat & dog", "sofa & bird", "cat & bird", "dog & !sofa"]
    want = {query: Collection.of(table).search(query, k=5) for query in queries}
    with ThreadPoolExecutor(4) as pool:
        for query, found in pool.map(lambda query: (query, collection.search(query, k=5)), queries * 25):
            assert [hit.id for hit in found.hits] == [hit.id for hit in want[query].hits]


@pytest.mark.parametrize("cache_bytes", [0, 2**20])
@pytest.mark.parametrize("bad", [math.nan, None, 1.5, -0.1, math.inf])
def test_cells_that_are_no_probabilities_are_refused(tmp_path, cache_bytes, bad):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = tmp_path / "table.parquet"
    random_table(3, labels=["cat", "dog"]).save(path)
    table = pq.read_table(path)
    metadata = pq.read_metadata(path).metadata
    cells = pa.array([0.5, bad, 0.25], pa.float32())
    schema = pa.schema([pa.field(field.name, field.type) for field in table.schema], metadata)
    table = table.set_column(table.column_names.index("prob:cat"), "prob:cat", cells).cast(schema)
    pq.write_table(table, path)
    collection = Collection.open(path, cache_bytes=cache_bytes)
    assert len(collection.search("dog").hits) == 3
    for expect in (True, False):
        with raises_input_error(got="1 cells of label 'cat' that do not, or are blank"):
            collection.search("!cat & dog", expect=expect)


def test_parts_of_different_models_are_refused(tmp_path):
    random_table(3).save(tmp_path / "a.parquet")
    random_table(3, labels=[*LABELS[:-1], "horse"]).save(tmp_path / "b.parquet")
    with raises_input_error(rule="parts with the same labels as 'a.parquet'", got="'b.parquet' with others"):
        Collection.open(tmp_path)


@pytest.mark.process
def test_searching_files_does_not_load_torch(tmp_path):
    random_table(20).save(tmp_path / "table.parquet")
    code = (
        "import sys; from manyhot.search.collection import Collection;"
        f"found = Collection.open({str(tmp_path / 'table.parquet')!r}).search('cat & !dog');"
        "assert len(found.hits) == 20; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
