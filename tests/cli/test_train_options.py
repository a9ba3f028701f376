"""How the data of a run are described in its settings."""

from manyhot.cli.train import TrainingCommand
from manyhot.settings import write_settings


def test_a_run_can_be_resumed_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "photos.csv").write_text("path,labels\n")
    monkeypatch.chdir(tmp_path)
    data = ["photos.csv", "shards/*.csv", "gone.csv"]
    source = TrainingCommand(data=data, root="images", separator="|").source()
    assert source.to_dict() == {
        "paths": [str(tmp_path / "photos.csv"), str(tmp_path / "shards" / "*.csv"), "gone.csv"],
        "root": str(tmp_path / "images"),
        "separator": "|",
    }


def test_an_empty_text_is_an_option_that_was_given(tmp_path):
    source = TrainingCommand(data=["photos.csv"], split_column="", separator="").source()
    assert source.to_dict() == {"paths": ["photos.csv"], "split_column": "", "separator": ""}
    write_settings({"data": source.to_dict()}, tmp_path / "config.yaml")
    assert TrainingCommand(data=None, config=tmp_path / "config.yaml").source() == source


def test_what_a_file_says_stays_as_it_is_unless_it_is_typed(tmp_path, monkeypatch):
    (tmp_path / "photos.csv").write_text("path,labels\n")
    monkeypatch.chdir(tmp_path)
    stored = {"paths": ["photos.csv"], "root": "images", "corrections": ["a.csv"], "digest": "0"}
    write_settings({"data": stored}, tmp_path / "config.yaml")
    given = {"data": None, "config": tmp_path / "config.yaml"}
    source = TrainingCommand(**given).source()
    assert source.to_dict() == {"paths": ["photos.csv"], "root": "images", "corrections": ["a.csv"]}
    typed = TrainingCommand(**given, root="moved", corrections=["b.csv"]).source().to_dict()
    assert (typed["root"], typed["corrections"]) == (str(tmp_path / "moved"), ["a.csv", str(tmp_path / "b.csv")])
