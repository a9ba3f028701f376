"""How many files of the package a table goes through: functions alone, not the code that runs on import."""

import inspect
import sys
from pathlib import Path

import pytest
from PIL import Image

import manyhot as mh
from manyhot.data import read_data
from manyhot.predictions import read_predictions

PACKAGE = Path(mh.__file__).parent


def files_run(function):
    """The files whose functions a call runs, once everything is imported."""
    function()
    executed, before = set(), sys.getprofile()

    def note(frame, event, argument):
        if event == "call":
            executed.add(frame.f_code)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    files = {Path(code.co_filename) for code in executed if code.co_flags & inspect.CO_OPTIMIZED}
    return sorted(path.relative_to(PACKAGE).as_posix() for path in files if path.is_relative_to(PACKAGE))


def test_training_data_go_through_at_most_twelve_files(tmp_path):
    for name in "abc":
        Image.new("RGB", (8, 8)).save(tmp_path / f"{name}.jpg")
    table = tmp_path / "photos.csv"
    table.write_text("path,labels,split\na.jpg,dog|cat,train\nb.jpg,dog,val\nc.jpg,,test\n")
    files = files_run(lambda: read_data(table))
    assert len(files) <= 12, " ".join(files)


@pytest.mark.parametrize("targets", ["", ",target:cat,target:dog"])
def test_scores_go_to_parquet_through_at_most_twelve_files(tmp_path, targets):
    table = tmp_path / "scores.csv"
    table.write_text(f"id,cat,dog{targets}\n" + "".join(f"{row},0.5,0.2{',1,0' * bool(targets)}\n" for row in "abc"))
    files = files_run(lambda: read_predictions(table, kind="probs", to=tmp_path / "out.parquet"))
    assert len(files) <= 12, " ".join(files)
