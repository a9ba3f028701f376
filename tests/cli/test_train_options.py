"""How the data of a run are described in its settings."""

from manyhot.cli.options import DATA_OPTIONS, build_source


def test_a_run_can_be_resumed_from_another_folder(tmp_path, monkeypatch):
    (tmp_path / "photos.csv").write_text("path,labels\n")
    monkeypatch.chdir(tmp_path)
    given = dict.fromkeys(DATA_OPTIONS) | {"root": "images", "separator": "|"}
    source = build_source(["photos.csv", "shards/*.csv", "gone.csv"], None, None, given)
    assert source.to_dict() == {
        "paths": [str(tmp_path / "photos.csv"), str(tmp_path / "shards" / "*.csv"), "gone.csv"],
        "root": str(tmp_path / "images"),
        "separator": "|",
    }
