"""The examples of the README run, and every public name is documented and offered by the package."""

import dataclasses
import importlib.util
import pkgutil
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import yaml

import manyhot as mh

ROOT = Path(__file__).parents[1]


def test_the_readme_examples_run_and_are_calibrated(capsys):
    training, after = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(training.strip().splitlines()) <= 16
    torch.manual_seed(0)
    names: dict[str, object] = {}
    exec(training, names)
    predicted, observed = names["probs"].mean(0), names["targets"].float().mean(0)
    torch.testing.assert_close(predicted, observed, rtol=0.05, atol=0.01)
    scores = names["head"](names["features"]).detach()
    exec(after, names | {"scores": scores, "splits": ["val", "test"] * 500, "names": list("abcd")})
    assert "mAP" in capsys.readouterr().out


def test_every_public_name_is_documented_once():
    pages = "\n".join(path.read_text() for path in (ROOT / "docs" / "api").glob("*.md"))
    documented = list(documented_objects(pages))
    by_object = {id(value): name for name, value in documented}
    assert sorted(by_object.values()) == sorted(name for name, _ in documented), "an object is documented twice"
    public = {f"manyhot.{name}": getattr(mh, name) for name in mh.__all__}
    for module in public_modules():
        public |= {f"{module.__name__}.{name}": getattr(module, name) for name in getattr(module, "__all__", ())}
    for name, value in public.items():
        if not isinstance(value, types.ModuleType):
            assert id(value) in by_object, f"no page of the API documents {name}"


def test_every_module_of_the_api_has_a_page_in_the_navigation():
    pages = {path.stem for path in (ROOT / "docs" / "api").glob("*.md")}
    assert pages == set(mh.SUBPACKAGES)
    assert pages == set(re.findall(r"api/(\w+)\.md", (ROOT / "mkdocs.yml").read_text()))


def documented_objects(pages):
    """The objects that the pages of the API show, as mkdocstrings selects them: by name and as Python sees them."""
    entry = r"^::: ([\w.]+)\n((?: +.*\n)*)"
    for target, text in re.findall(entry, pages, re.MULTILINE):
        options = (yaml.safe_load(text) or {}).get("options", {})
        value = pkgutil.resolve_name(target)
        if options.get("show_root_heading"):
            yield target, value
            continue
        module = importlib.import_module(target)  # `manyhot.search.contact_sheet` is a module and a function
        names = options.get("members")
        if names is None:
            hidden = [pattern.removeprefix("!") for pattern in options.get("filters", [])]
            names = [name for name in module.__all__ if not any(re.search(pattern, name) for pattern in hidden)]
        for name in names:
            yield f"{target}.{name}", getattr(module, name)


def public_modules():
    return [importlib.import_module(f"manyhot.{name}") for name in mh.SUBPACKAGES]


def test_every_public_name_is_offered_by_the_package():
    assert set(mh.__all__) == {*mh.NAMES, *mh.LISTED_SUBPACKAGES} <= set(dir(mh))
    for name, module in mh.NAMES.items():
        home = importlib.import_module(f"manyhot.{module}")
        assert getattr(mh, name) is getattr(home, name)
        assert name in getattr(home, "__all__", [name]), f"{module} does not list {name}"
    for module in public_modules():
        assert getattr(mh, module.__name__.removeprefix("manyhot.")) is module
        assert all(hasattr(module, name) for name in getattr(module, "__all__", ()))
    with pytest.raises(AttributeError, match="module 'manyhot' has no attribute 'Nothing'"):
        mh.Nothing  # noqa: B018


def generated_pages():
    spec = importlib.util.spec_from_file_location("generated", ROOT / "docs" / "generated.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_setting_has_a_line_in_the_generated_table():
    table = generated_pages().on_page_markdown((ROOT / "docs" / "api" / "settings.md").read_text())
    for item in dataclasses.fields(mh.TrainSettings):
        (line,) = (line for line in table.splitlines() if line.startswith(f"| `{item.name}` |"))
        assert line.endswith(f"| {item.metadata['description']} |")


def test_every_command_has_a_section_in_the_generated_page():
    page = generated_pages().on_page_markdown((ROOT / "docs" / "commands.md").read_text())
    sections = re.findall(r"^### manyhot (\w+)$", page, re.MULTILINE)
    assert set(sections) == set(re.findall(r"^\| `(\w+)` \| ", page.partition("## From photos")[0], re.MULTILINE))
    assert page.count("| `--json` |") == 9
    assert "| `--corrections` |" in page


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
