"""What the documents promise: the example of the README runs, and every public name has a page."""

import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import manyhot as mh

ROOT = Path(__file__).parents[1]


def test_the_readme_examples_run_and_keep_their_promise(capsys):
    training, after = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(training.strip().splitlines()) <= 16
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(training, names)
    promised, came_true = names["probs"].mean(0), names["targets"].float().mean(0)
    torch.testing.assert_close(promised, came_true, rtol=0.05, atol=0.01)
    scores = names["head"](names["features"]).detach()
    exec(after, names | {"scores": scores, "splits": ["val", "test"] * 500, "names": list("abcd")})
    assert "mAP" in capsys.readouterr().out


def test_every_public_name_is_documented():
    pages = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    modules = re.findall(r"^::: ([\w.]+)", pages, re.MULTILINE)
    public = [getattr(mh, name) for name in mh.__all__ if name != "UNIFORM_LOSSES"]
    public = [value for value in public if not isinstance(value, types.ModuleType)]
    for value in public + [getattr(mh.metrics, name) for name in mh.metrics.__all__]:
        home = value.__module__
        assert home in modules or f"{home}.{value.__name__}" in modules, (
            f"no page of the API documents {value.__name__}"
        )


def test_every_public_name_is_offered_by_the_package():
    assert set(mh.__all__) <= set(dir(mh))
    assert all(getattr(mh, name) is getattr(mh.api, name) for name in mh.__all__)
    with pytest.raises(AttributeError, match="module 'manyhot' has no attribute 'Nothing'"):
        mh.Nothing  # noqa: B018


def test_the_citation_names_this_version():
    cited = dict(re.findall(r"^(title|version|license): (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert cited == {"title": "manyhot", "version": mh.__version__, "license": "Apache-2.0"}


@pytest.mark.process
def test_import_needs_torch_and_numpy_only():
    """In a fresh interpreter: nothing else that is installed beside the package gets imported."""
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import manyhot; manyhot.Loss; "
        "new = {name.split('.')[0] for name in set(sys.modules) - before}; "
        "print(sorted(new - set(sys.stdlib_module_names) - {'torch', 'numpy'}))"
    )
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert new == "['manyhot']", new


@pytest.mark.process
def test_the_command_line_answers_without_torch():
    code = (
        "import sys; sys.argv = ['manyhot', 'decide', '--help']; from manyhot.cli import main\n"
        "try: main()\nfinally: print('torch' in sys.modules, 'numpy' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip().endswith("False False"), shown
    assert 'manyhot decide calibrated.parquet --rule "AverageK(3)" --fit-on val' in " ".join(shown.split())
