"""The page: what the kept runs say, no more and no less."""

from experiments.__main__ import RUNS
from experiments.harness.jobs import Ledger
from experiments.page import DOCS, folded, page_of, write_page


def test_the_page_is_what_the_kept_runs_give():
    page = (DOCS / "evidence.md").read_text(encoding="utf-8")
    assert page == page_of(Ledger(RUNS)), "run `python -m experiments page`"
    assert "{{" not in page


def test_a_page_without_runs_has_no_figures(tmp_path):
    write_page(Ledger(tmp_path / "runs"), tmp_path)
    page = (tmp_path / "evidence.md").read_text(encoding="utf-8")
    assert page.count("**not run**") == 11
    assert not list(tmp_path.rglob("*.png"))


def test_long_tables_are_folded():
    short = "a title:\n\n| x |\n| --- |\n| 1 |\n"
    long = "another:\n\n| x |\n| --- |\n" + "| 1 |\n" * 20
    text = folded(f"{short}\n{long}")
    assert "a title:\n\n| x |" in text
    assert '??? note "another"\n\n    | x |' in text
