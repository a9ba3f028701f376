"""What can be opened, and what is said of it."""

import pytest

import manyhot as mh
from manyhot.errors import InputError
from manyhot.studio import open_studio
from manyhot.studio import session as opening
from tests.errors.expected import raises_input_error
from tests.studio.collections import LABELS, predictions, write_collection, write_pictures


def test_a_table_beside_its_pictures(tmp_path):
    studio, notes = open_studio(write_collection(tmp_path), read_only=True)
    assert len(studio.table) == 30
    assert studio.upload_classifier is None
    assert studio.thumbnails.summary() in notes
    assert all(studio.thumbnails.why(row) is None for row in range(30))
    assert studio.labels_file == tmp_path / "predictions.reviewed.csv"


def test_one_split_of_it(tmp_path):
    studio, _ = open_studio(write_collection(tmp_path), split="val", read_only=True)
    assert studio.table.split_sizes() == {"val": 10}


def test_a_table_of_another_program(tmp_path):
    names = write_pictures(tmp_path, 3)
    lines = [",".join(["id", *LABELS]), *(f"{name},0.9,0.2,0.1,0.4,0.5" for name in names)]
    (tmp_path / "scores.csv").write_text("\n".join(lines) + "\n")
    truth = ["id,labels", *(f"{name},dog|park" for name in names)]
    (tmp_path / "truth.csv").write_text("\n".join(truth) + "\n")
    studio, _ = open_studio(
        tmp_path / "scores.csv", kind="probs", targets=tmp_path / "truth.csv", roots=[tmp_path], read_only=True
    )
    assert studio.table.targets.sum() == 6
    assert studio.thumbnails.why(0) is None  # its id is the path of a file
    assert studio.labels_file == tmp_path / "scores.reviewed.csv"


def test_pictures_outside_of_the_roots_are_told_about(tmp_path):
    path = write_collection(tmp_path / "a")
    (tmp_path / "b").mkdir()
    _, notes = open_studio(path, roots=[tmp_path / "b"], read_only=True)
    assert notes[-1] == "0 of 30 images were found. Name the folder that their paths begin in with --root."


def test_scores_without_a_link_are_refused(tmp_path):
    table = predictions(["a", "b", "c"])
    mh.Predictions(scores=table.probs, labels=LABELS, link=mh.TwoWayLoss().link).save(tmp_path / "scores.parquet")
    with raises_input_error(rule="probabilit"):
        open_studio(tmp_path / "scores.parquet", read_only=True)


def test_what_does_not_fit_into_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "MOST_CELLS", 100)
    with raises_input_error(
        rule="at most 100 cells, rows times labels", got="30 x 5", hint="Open one split with --split"
    ):
        open_studio(write_collection(tmp_path), read_only=True)


def test_a_root_that_is_no_folder_is_refused(tmp_path):
    path = write_collection(tmp_path)
    with raises_input_error("--root", "studio", rule="be a folder"):
        open_studio(path, roots=[path], read_only=True)


def test_a_model_that_cannot_be_loaded_is_an_error_only_where_it_was_asked_for(tmp_path):
    path = write_collection(tmp_path)
    with pytest.raises(InputError):
        open_studio(path, model=tmp_path, read_only=True)
    (tmp_path / "classifier.json").write_text("{}")
    studio, notes = open_studio(tmp_path, read_only=True)
    assert studio.upload_classifier is None
    assert any(note.startswith("New images cannot be classified: ") for note in notes)
    assert studio.labels_file == tmp_path / "reviewed.csv"


def test_a_run_without_predictions_is_refused(tmp_path):
    (tmp_path / "classifier.json").write_text("{}")
    with raises_input_error(
        rule="be a run with a predictions.parquet", hint="Let it finish, or open what `manyhot predict"
    ):
        open_studio(tmp_path, read_only=True)


def test_edits_belong_to_the_picture_and_not_to_its_id(tmp_path):
    """Pictures of two months have the same names; what was said of the one must not be read of the other."""
    for month in ("march", "april"):
        names = write_pictures(tmp_path / month, 3)
        table = predictions(names)
        table.replace(paths=[str(tmp_path / month / name) for name in names]).save(tmp_path / "new.parquet")
        studio, _ = open_studio(tmp_path / "new.parquet")
        assert not studio.edits(1)
        studio.review.edit(1, {"dog": 1}, done=True)
        studio.close()
    text = (tmp_path / "new.reviewed.csv").read_text()
    assert "march/001.png" in text
    assert "april/001.png" in text


def test_a_picture_that_is_a_link_keeps_its_own_name(tmp_path):
    path = write_collection(tmp_path / "photos")
    (tmp_path / "photos" / "000.png").unlink()
    (tmp_path / "photos" / "000.png").symlink_to("001.png")
    studio, _ = open_studio(path)
    studio.review.edit(0, {"dog": 1})
    studio.close()
    assert "000.png" in (tmp_path / "photos" / "predictions.reviewed.csv").read_text()


def test_a_link_to_the_last_run_may_lead_on_while_the_studio_is_open(tmp_path):
    write_collection(tmp_path / "runs" / "a")
    (tmp_path / "runs" / "b").mkdir()
    last = tmp_path / "runs" / "last"
    last.symlink_to("a")
    studio, _ = open_studio(last)
    last.unlink()
    last.symlink_to("b")
    studio.review.edit(0, {"dog": 1})
    studio.close()
    assert (tmp_path / "runs" / "a" / "reviewed.csv").is_file()
