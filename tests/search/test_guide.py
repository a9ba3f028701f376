"""The guide keeps its word: its examples run, in order, and print what it says."""

import re
import shlex
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "search.md"


@pytest.fixture
def blocks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return re.findall(r"```(\w+)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


def run_all(blocks):
    names: dict[str, object] = {}
    for code in [text for language, text in blocks if language == "python"]:
        exec(code, names)
    return names


def test_the_examples_of_the_guide(blocks, capsys):
    names = run_all(blocks)
    (printed,) = [text for language, text in blocks if language == "text"]
    assert capsys.readouterr().out == printed
    found = names["result"]
    assert [hit.id for hit in found.hits] == ["lunch", "dinner", "drawer"]
    lunch = 0.98 * 0.95 * 0.96
    assert found.hits[0].prob == pytest.approx(lunch, rel=1e-6)
    assert f"{found.expected.mean:.2f} {found.precision:.2f} {found.recall:.2f}" == "1.09 0.36 0.98"
    assert names["sheet"].size[0] > 192
    assert Path("found.png").is_file()


def test_the_commands_of_the_guide(blocks, capsys):
    from typer.testing import CliRunner

    from manyhot.cli.app import app

    run_all(blocks[:3])
    (session,) = [text for language, text in blocks if language == "console"]
    command, _, wanted = session.partition("\n")
    answer = CliRunner().invoke(app, shlex.split(command)[2:])
    assert answer.exit_code == 0
    assert [line.rstrip() for line in answer.stdout.splitlines()] == wanted.splitlines()
