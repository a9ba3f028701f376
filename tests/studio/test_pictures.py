"""Pictures are read from the folders of the collection alone, whatever the table says."""

import io
import os
import tarfile

import pytest
from PIL import Image

from manyhot.images import UnreadableImage
from manyhot.studio.thumbnails import OUTSIDE, UNNAMED, Thumbnails
from tests.studio.collections import write_pictures


@pytest.fixture
def photos(tmp_path):
    """A folder of two pictures, and a secret one beside it."""
    write_pictures(tmp_path / "photos", 2)
    Image.new("RGB", (9, 9), "red").save(tmp_path / "secret.png")
    return tmp_path / "photos"


def test_a_picture_comes_as_a_small_jpeg(photos):
    pictures = Thumbnails(["000.png", "001.png"], [photos])
    with Image.open(io.BytesIO(pictures.jpeg(1, 128))) as picture:
        assert (picture.format, picture.size) == ("JPEG", (128, 96))
    assert pictures.why(0) is None
    assert pictures.file(0) == photos / "000.png"
    assert pictures.summary() == "All 2 images were found."


def test_paths_that_lead_out_of_the_folders_are_not_read(photos):
    (photos / "link.png").symlink_to(photos.parent / "secret.png")
    (photos / "up").symlink_to(photos.parent)
    odd = ["../secret.png", str(photos.parent / "secret.png"), "link.png", "up/secret.png", "up/photos/../secret.png"]
    pictures = Thumbnails(odd, [photos])
    for row in range(len(odd)):
        assert pictures.why(row) == OUTSIDE
        assert pictures.file(row) is None
        with pytest.raises(UnreadableImage, match="outside of the folders"):
            pictures.jpeg(row, 128)
    assert pictures.summary().endswith(
        "5 lie outside of the folders of this collection; allow their folder with --root."
    )


def test_links_within_the_folders_are_followed(photos):
    (photos / "link.png").symlink_to("000.png")
    (photos.parent / "all").symlink_to(photos)
    assert Thumbnails(["link.png"], [photos]).jpeg(0, 128)
    assert Thumbnails(["000.png"], [photos.parent / "all"]).jpeg(0, 128)
    assert Thumbnails(["photos/000.png"], [photos.parent]).jpeg(0, 128)


def test_a_link_that_is_changed_later_is_noticed(photos):
    (photos / "link.png").symlink_to("000.png")
    pictures = Thumbnails(["link.png"], [photos])
    assert pictures.jpeg(0, 128)
    (photos / "link.png").unlink()
    (photos / "link.png").symlink_to(photos.parent / "secret.png")
    with pytest.raises(UnreadableImage, match="outside of the folders"):
        pictures.jpeg(0, 128)


def test_what_is_no_picture_says_why(photos):
    (photos / "text.png").write_text("no picture")
    (photos / "loop.png").symlink_to("loop.png")
    pictures = Thumbnails(["text.png", "gone.png", "loop.png", None, ""], [photos])
    assert [pictures.why(row) for row in range(5)] == [None, *["there is no such file"] * 2, UNNAMED, UNNAMED]
    with pytest.raises(UnreadableImage, match="no image of a known format"):
        pictures.jpeg(0, 128)


def test_pictures_in_archives_are_found(photos):
    with tarfile.open(photos / "all.tar", "w") as archive:
        archive.add(photos / "001.png", "inner/001.png")
    pictures = Thumbnails(["all.tar/inner/001.png", "all.tar/inner/002.png"], [photos])
    assert pictures.jpeg(0, 128) == Thumbnails(["001.png"], [photos]).jpeg(0, 128)
    assert pictures.file(0) is None
    assert pictures.why(1) == "the archive has no such file"


def test_the_mark_changes_with_the_picture(photos):
    pictures = Thumbnails(["000.png"], [photos])
    before = pictures.etag(0, 128)
    assert before == pictures.etag(0, 128) != pictures.etag(0, 256)
    first = pictures.jpeg(0, 128)
    Image.new("RGB", (9, 9), "blue").save(photos / "000.png")
    os.utime(photos / "000.png", ns=(1, 1))
    assert pictures.etag(0, 128) != before
    assert pictures.jpeg(0, 128) != first
    (photos / "000.png").unlink()
    with pytest.raises(UnreadableImage, match="no such file"):
        pictures.jpeg(0, 128)
