"""How the tests type commands."""

import sys

import pytest

from manyhot.cli import main


@pytest.fixture
def run(monkeypatch, capsys):
    """Runs a command as the console script does, and returns what it printed."""

    def command(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["manyhot", *(str(argument) for argument in arguments)])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        assert (end.value.code or 0) == code, printed.out + printed.err
        assert "Traceback" not in printed.err
        return printed

    return command
