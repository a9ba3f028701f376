"""The guide keeps its word: its examples run, in order, and print what it says."""

import re
from pathlib import Path

GUIDE = Path(__file__).parents[2] / "docs" / "predictions.md"


def test_the_examples_of_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```(python|text)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    texts = [text for language, text in blocks if language == "text"]
    scores, notes = texts
    (tmp_path / "scores.csv").write_text(scores)
    (tmp_path / "truth.csv").write_text("id,labels\na.jpg,dog\nb.jpg,\n")
    names: dict[str, object] = {}
    for code in [text for language, text in blocks if language == "python"]:
        exec(code, names)
    assert capsys.readouterr().out == notes
    assert names["stored"].kinds == ("scores", "probs", "targets")
    assert names["table"].targets.tolist() == [[0, 1, 0], [0, 0, 0], [-1, -1, -1]]
    assert list(names["frame"].columns) == ["id", "prob:dog", "target:dog"]
