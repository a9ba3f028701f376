"""The guide keeps its word: its examples run, in order, and print what it says."""

import io
import json
import re
import tarfile
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "data.md"


def test_the_examples_of_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|text|csv)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    table, corrections = [text for language, text in blocks if language == "csv"]
    notes, tree, corrected = [text for language, text in blocks if language == "text"]
    (tmp_path / "photos.csv").write_text(table)
    (tmp_path / "reviewed.csv").write_text(corrections)
    for name in [f"images/{number}.jpg" for number in (1, 2, 3)] + re.findall(r"photos/\S+", tree):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    _write_coco(tmp_path / "coco")
    _write_shards(tmp_path / "shards")

    names: dict[str, object] = {}
    for code in [text for language, text in blocks if language == "python"]:
        exec(code, names)
    assert capsys.readouterr().out == notes + corrected
    assert names["data"].labels.names == ["dog"]
    assert names["data"].splits.tolist() == ["train", "train", "test"]
    assert len(names["images"]) == 6


def _write_coco(folder):
    content = {
        "images": [{"id": 1, "file_name": "1.jpg"}],
        "categories": [{"id": 1, "name": "dog"}],
        "annotations": [{"image_id": 1, "category_id": 1}],
    }
    (folder / "annotations").mkdir(parents=True)
    (folder / "annotations" / "instances_train.json").write_text(json.dumps(content))
    (folder / "train").mkdir()
    (folder / "train" / "1.jpg").write_bytes(b"")


def _write_shards(folder):
    folder.mkdir()
    for number in range(2):
        with tarfile.open(folder / f"train-00{number}.tar", "w") as archive:
            for name, data in ((f"{number}.jpg", b"x"), (f"{number}.txt", b"dog")):
                header = tarfile.TarInfo(name)
                header.size = len(data)
                archive.addfile(header, io.BytesIO(data))
