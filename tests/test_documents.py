"""What the documents promise: the example of the README runs, and every public name has a page."""

import re
import subprocess
import sys
from pathlib import Path

import torch

import manyhot as mh

ROOT = Path(__file__).parents[1]


def test_the_readme_example_runs_and_keeps_its_promise():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(code.strip().splitlines()) <= 16
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(code, names)
    promised, came_true = names["probs"].mean(0), names["targets"].float().mean(0)
    torch.testing.assert_close(promised, came_true, rtol=0.05, atol=0.01)


def test_every_public_name_is_documented():
    pages = "\n".join(path.read_text() for path in (ROOT / "docs").rglob("*.md"))
    modules = re.findall(r"^::: ([\w.]+)", pages, re.MULTILINE)
    for name in set(mh.__all__) - {"UNIFORM_LOSSES"}:
        home = getattr(mh, name).__module__
        assert home in modules or f"{home}.{name}" in modules, f"no page of the API documents {name}"


def test_import_needs_torch_and_numpy_only():
    """In a fresh interpreter: nothing else that is installed beside the package gets imported."""
    code = (
        "import sys, torch, numpy; before = set(sys.modules); import manyhot; "
        "print(sorted({name.split('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names)))"
    )
    new = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert new == "['manyhot']", new
