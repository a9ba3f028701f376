"""Which files count as images: what Pillow reads; what is skipped is named and counted."""

import io
import subprocess
import sys
import tarfile

import numpy as np
import pytest
from PIL import Image

from manyhot import image_paths
from manyhot.data import read_data, read_images
from manyhot.data.sources import read_image
from tests.errors.expected import raises_input_error

ENDINGS = [".avif", ".jfif", ".jp2", ".tga", ".qoi", ".jpe", ".j2k", ".pnm", ".dib", ".pcx", ".ico", ".TIF", ".mpo"]
COUNTED = "2 .heic, 1 .cr2, 1 .svg"
SKIPPED = f"Skipped 4 images that Pillow cannot read here: {COUNTED}. Convert them to JPEG to have them read."


def picture(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.full((32, 32, 3), 200, dtype=np.uint8)).save(path)


@pytest.fixture
def photos(tmp_path):
    """One image that can be read beside others that cannot, and files that are none."""
    folder = tmp_path / "photos"
    picture(folder / "a.jpg")
    for name in ("b.heic", "c.HEIC", "d.cr2", "e.svg", "notes.txt", "a.json", "Thumbs.db", ".hidden.heic", "film.mp4"):
        (folder / name).write_bytes(b"x")
    return folder


@pytest.mark.parametrize("ending", ENDINGS)
def test_files_that_pillow_reads_are_images(tmp_path, ending):
    picture(tmp_path / f"a{ending}")
    data = read_images(tmp_path)
    assert data.ids == [f"a{ending}"]
    assert abs(np.asarray(read_image(data.images, 0)).astype(int) - 200).max() < 5


def test_labelled_folders_and_tables_take_them_too(tmp_path):
    for ending in (".avif", ".jfif", ".qoi"):
        picture(tmp_path / "folders" / "cat" / f"a{ending}")
        picture(tmp_path / "table" / "images" / f"x{ending}")
    assert len(read_data(tmp_path / "folders")) == 3
    (tmp_path / "table" / "list.csv").write_text("name,labels\nx,cat\n")
    assert read_data(tmp_path / "table" / "list.csv").images.path(0).name == "x.avif"


def test_drawings_and_programs_stay_closed(tmp_path):
    (tmp_path / "a.eps").write_bytes(b"%!PS")
    (tmp_path / "b.pdf").write_bytes(b"%PDF")
    picture(tmp_path / "c.png")
    assert read_images(tmp_path).ids == ["c.png"]


def test_images_that_were_skipped_are_named_and_counted(photos):
    assert read_images(photos).notes == [SKIPPED, "1 image to predict."]
    assert SKIPPED in read_images([photos, photos / "a.jpg"]).notes
    assert read_images(photos / "a.jpg").notes == ["1 image to predict."]


def test_images_that_were_skipped_in_folders_of_labels_are_counted(photos):
    labelled = photos.parent / "labelled"
    labelled.mkdir()
    photos.rename(labelled / "cat")
    assert SKIPPED in read_data(labelled).notes


def test_images_that_were_skipped_in_archives_are_counted(tmp_path):
    content = io.BytesIO()
    Image.new("RGB", (8, 8)).save(content, "PNG")
    with tarfile.open(tmp_path / "shard.tar", "w") as archive:
        for name, data in (("a.png", content.getvalue()), ("a.txt", b"cat"), ("b.heic", b"x"), ("b.txt", b"dog")):
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    note = "Skipped 1 image that Pillow cannot read here: 1 .heic. Convert it to JPEG to have it read."
    assert note in read_images(tmp_path / "shard.tar").notes
    assert note in read_data(tmp_path / "shard.tar").notes


def test_files_without_an_ending_are_counted(tmp_path):
    picture(tmp_path / "a.png")
    (tmp_path / "a.png").rename(tmp_path / "IMG0001")
    picture(tmp_path / "a.png")
    assert "Skipped 1 file without an ending in its name, such as 'IMG0001'." in read_images(tmp_path).notes


def test_a_folder_of_nothing_that_can_be_read_says_what_it_has(photos):
    (photos / "a.jpg").unlink()
    for read, rule in ((read_images, "lead to images"), (read_data, "lead to data")):
        with raises_input_error(match=f"must {rule}; got .* with {COUNTED}, which Pillow cannot read here"):
            read(photos)
    with raises_input_error(hint="Convert it to JPEG: Pillow cannot read it"):
        read_images(photos / "b.heic")


def test_a_format_that_this_pillow_lacks_is_skipped_and_counted(tmp_path, monkeypatch):
    picture(tmp_path / "a.avif")
    picture(tmp_path / "b.png")
    monkeypatch.delitem(Image.OPEN, "AVIF")
    monkeypatch.setattr(image_paths, "_suffixes", image_paths._suffixes.__wrapped__)
    data = read_images(tmp_path)
    assert data.ids == ["b.png"]
    assert "1 .avif" in data.notes[0]


@pytest.mark.process
def test_formats_are_known_without_torch():
    code = "import sys, manyhot.image_paths as f; f.is_image('a.jpg'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
