"""The public list: one place, the same for type checkers, and nothing heavy behind it."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import manyhot as mh
from tests import typed_consumer

ROOT = Path(__file__).parent.parent


def stubbed():
    """Each name that the stub imports, and the module that it comes from."""
    tree = ast.parse((ROOT / "src/manyhot/__init__.pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert all(alias.asname == alias.name for node in imports for alias in node.names), "not exported by the stub"
    return {alias.name: node.module.removeprefix("manyhot").strip(".") for node in imports for alias in node.names}


def test_the_stub_names_what_the_package_offers():
    assert stubbed() == mh.NAMES | dict.fromkeys(mh.SUBPACKAGES, "")


def test_the_list_is_short_and_every_name_is_there():
    assert 50 <= len(mh.__all__) <= 60
    assert len(set(mh.__all__)) == len(mh.__all__)
    for name in mh.__all__:
        assert getattr(mh, name) is not None
    assert set(mh.__all__) <= set(dir(mh))
    assert all(getattr(mh, name).__name__ == f"manyhot.{name}" for name in mh.SUBPACKAGES)


def test_every_top_level_module_can_be_reached():
    modules = {path.stem for path in (ROOT / "src/manyhot").iterdir() if path.suffix == ".py" or path.is_dir()}
    private = {
        "__init__",
        "__pycache__",
        "autograd",
        "curves",
        "files",
        "formatting",
        "images",
        "image_paths",
        "numerics",
        "sorting",
    }
    private |= {"poisson_binomial", "tables", "cli", "demo"}
    assert modules - private == set(mh.SUBPACKAGES)


@pytest.mark.process
def test_the_package_alone_imports_nothing_heavy():
    code = (
        "import sys, manyhot; print([name for name in ('torch', 'numpy', 'pyarrow', 'typer') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_code_of_a_user_runs_as_it_is_typed():
    typed_consumer.main()


def test_the_exceptions_to_the_order_of_the_subpackages_only_become_fewer():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    allowed = {line for contract in contracts for line in contract.get("ignore_imports", ())}
    assert len(allowed) <= 5
