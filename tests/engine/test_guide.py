"""The guide keeps its word: its examples run, in order."""

import re
from pathlib import Path

import pytest

from manyhot.errors import InputError

GUIDE = Path(__file__).parents[2] / "docs" / "engine.md"


def test_the_examples_of_the_guide(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = GUIDE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(blocks[0], names)
    assert names["result"].best_value > 0.95
    assert names["scores"].shape == (100, 3)
    first = names["result"].history
    exec(blocks[1], names)
    assert names["result"].history == first
    (sentence,) = re.findall(r"```text\n(.*?)\n```", text, re.DOTALL)
    with pytest.raises(InputError) as caught:
        exec(blocks[1].replace("lr=0.05", "lr=0.01"), names)
    assert str(caught.value) == sentence
    exec(blocks[2], names)
    assert "coverage error" in names["result"].history[0]
