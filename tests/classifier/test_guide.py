"""The guide keeps its word: its examples run, in order."""

import re
from pathlib import Path

import torch

GUIDE = Path(__file__).parents[2] / "docs" / "classifier.md"


def test_the_examples_of_the_guide(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for code in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        exec(code, names)
    printed = capsys.readouterr().out.splitlines()
    classifier, table = names["classifier"], names["table"]
    assert printed[:-1] == [repr(answer) for answer in classifier.answers("photos", top=2)]
    assert printed[-1] == repr(table.labels.decode(table.decisions)[3])
    assert torch.equal(names["again"].predict("photos").scores, table.scores)
    assert json_labels(names) == ["cat", "dog", "bird"]


def json_labels(names):
    return names["json"].loads(names["facts"]["labels"])
