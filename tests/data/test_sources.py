"""Sources of images: names, bytes, rows taken, and an identity that changes with the image."""

import io
import os
import pickle
import tarfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from manyhot.data import Files, ParquetImages, Pixels, TarMembers

CONTENTS = [b"zero", b"one", b"two", b"three", b"four"]


def files(folder):
    for number, content in enumerate(CONTENTS):
        (folder / f"{number}.jpg").write_bytes(content)
    return Files([f"{number}.jpg" for number in range(5)], root=folder)


def tar(folder):
    places, names = [], []
    for number in range(2):
        with tarfile.open(folder / f"{number}.tar", "w") as archive:
            for row, content in list(enumerate(CONTENTS))[number * 3 : number * 3 + 3]:
                header = tarfile.TarInfo(f"{row}.jpg")
                header.size = len(content)
                archive.addfile(header, io.BytesIO(content))
        with tarfile.open(folder / f"{number}.tar") as archive:
            places += [(number, member.offset_data, member.size) for member in archive]
            names += archive.getnames()
    return TarMembers([folder / "0.tar", folder / "1.tar"], np.array(places), names)


def parquet(folder):
    pq.write_table(pa.table({"image": CONTENTS[:3]}), folder / "0.parquet", row_group_size=2)
    pq.write_table(pa.table({"image": CONTENTS[3:]}), folder / "1.parquet")
    return ParquetImages([folder / "0.parquet", folder / "1.parquet"], "image")


SOURCES = pytest.mark.parametrize("make", [files, tar, parquet])


@SOURCES
def test_rows(tmp_path, make):
    source = make(tmp_path)
    assert len(source) == 5
    assert [source.read(row) for row in range(5)] == CONTENTS
    assert len({source.name(row) for row in range(5)}) == 5
    taken = source.take(np.array([4, 0, 4])).take([1, 2])
    assert [taken.read(row) for row in range(len(taken))] == [b"zero", b"four"]
    assert (taken.name(0), taken.identity(0)) == (source.name(0), source.identity(0))
    assert len(source.take([])) == 0


@SOURCES
def test_a_copy_for_another_process(tmp_path, make):
    source = make(tmp_path)
    source.read(3)
    copy = pickle.loads(pickle.dumps(source))
    assert [copy.read(row) for row in range(5)] == CONTENTS


@SOURCES
def test_identities_follow_the_file(tmp_path, make):
    source = make(tmp_path)
    before = [source.identity(row) for row in range(5)]
    assert len(set(before)) == 5
    for path in tmp_path.iterdir():
        os.utime(path, ns=(1, 1))
    assert all(old != new for old, new in zip(before, (source.identity(row) for row in range(5)), strict=True))


@SOURCES
def test_identities_follow_a_file_that_was_replaced_with_its_times(tmp_path, make):
    """As unpacking an archive and copying do, also where the size stays the same."""
    source = make(tmp_path)
    before = [source.identity(row) for row in range(5)]
    for path in tmp_path.iterdir():
        times = path.stat()
        path.write_bytes(bytes(times.st_size))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert all(old != new for old, new in zip(before, (source.identity(row) for row in range(5)), strict=True))


@SOURCES
def test_what_is_gone_cannot_be_read(tmp_path, make):
    source = make(tmp_path)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(OSError, match=r"\d\."):
        source.read(4)
    assert source.identity(4)


def test_a_tar_that_ends_too_early(tmp_path):
    source = tar(tmp_path)
    (tmp_path / "1.tar").write_bytes((tmp_path / "1.tar").read_bytes()[:514])
    with pytest.raises(OSError, match=r"1\.tar ends within 3\.jpg"):
        source.read(3)


def test_structures_of_parquet(tmp_path):
    cells = [{"bytes": b"x", "path": "a.jpg"}, {"bytes": None, "path": "b.jpg"}]
    pq.write_table(pa.table({"image": cells}), tmp_path / "x.parquet")
    source = ParquetImages([tmp_path / "x.parquet"], "image")
    assert source.read(0) == b"x"
    with pytest.raises(OSError, match=r"x\.parquet, row 1 of column 'image' is blank"):
        source.read(1)


def test_row_groups_are_kept_within_bounds(tmp_path):
    pq.write_table(pa.table({"image": [bytes(1000)] * 20}), tmp_path / "x.parquet", row_group_size=1)
    source = ParquetImages([tmp_path / "x.parquet"], "image", cache_bytes=5000)
    for row in range(20):
        source.read(row)
    assert 1 < len(source._cached) < 6


def test_pixels():
    array = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    source = Pixels(array)
    taken = source.take([2, 0])
    assert (taken.read(0) == array[2]).all()
    assert (len(taken), taken.name(0)) == (2, "image 2")
    assert taken.identity(0) == source.identity(2)
    array[2, 0, 0, 0] ^= 1
    assert taken.identity(0) != source.identity(2)
