"""`InputError`: fields, a message rendered on demand, and the ways out of other processes."""

import copy
import pickle
import sys
import warnings

import numpy.random  # noqa: F401  # or a forked worker imports it, which can meet the finalizer of the one before
import pytest
import torch
from torch.utils.data import DataLoader

import manyhot as mh
from manyhot import errors
from manyhot.data import Dataset, Files, SparseTargets
from manyhot.data.loading import ImageBatches
from manyhot.errors import InputError, owned, require, suggest
from manyhot.images import UnreadableImage
from manyhot.preprocessing import Preprocessing
from manyhot.search.lexer import QueryError
from tests.errors.expected import raises_input_error

FIELDS = {"argument": "k", "owner": "AverageK", "rule": "be at least 1", "got": "0.5", "hint": "Pass a larger number."}
MESSAGE = "`k` of `AverageK` must be at least 1; got 0.5. Pass a larger number."


class TestMessage:
    def test_holds_all_fields(self):
        error = InputError(**FIELDS)
        assert {name: getattr(error, name) for name in FIELDS} == FIELDS
        assert str(error) == error.render() == MESSAGE
        assert isinstance(error, ValueError)

    def test_leaves_out_what_is_not_known(self):
        assert str(InputError("k", rule="be at least 1", got="0.5")) == "`k` must be at least 1; got 0.5."
        assert str(InputError(got="No image can be read.", hint="Check the folder.")) == (
            "No image can be read. Check the folder."
        )
        assert str(InputError()) == ""

    def test_is_rendered_on_demand(self):
        error = InputError("k", rule="be at least 1", got="0.5", hint="Pass a larger number.")
        assert "AverageK" not in str(error)
        error.owner = "AverageK"
        assert str(error) == MESSAGE

    def test_a_string_alone_is_the_whole_message(self):
        error = InputError("Something went wrong.")
        assert str(error) == "Something went wrong."
        assert (error.argument, error.got) == ("", "Something went wrong.")

    def test_other_names_of_arguments_need_no_owner(self):
        error = InputError(**FIELDS)
        assert error.render({"k": "-k"}) == "`-k` must be at least 1; got 0.5. Pass a larger number."
        assert error.render({"other": "--other"}) == str(error) == MESSAGE

    def test_only_known_arguments_are_placeholders(self, monkeypatch):
        monkeypatch.setattr(errors, "PLACEHOLDERS", frozenset({"root"}))
        error = InputError("path", rule="be below {root}", got="{root}", hint="Pass {root}, not {other} or {}.")
        assert str(error) == "`path` must be below `root`; got {root}. Pass `root`, not {other} or {}."
        assert error.render({"root": "--root", "other": "--other"}) == (
            "`path` must be below `--root`; got {root}. Pass `--root`, not {other} or {}."
        )

    def test_received_values_are_never_filled_in(self):
        name = next(iter(errors.PLACEHOLDERS))
        error = InputError("path", rule="exist", got=f"'{{{name}}}.csv'")
        assert str(error) == error.render({name: "--option"}) == f"`path` must exist; got '{{{name}}}.csv'."


class TestOwned:
    def test_names_the_decorated_function(self):
        @owned("read")
        def read(path):
            raise InputError("path", rule="exist", got=path)

        with raises_input_error("path", "read", rule="exist", got="a.csv") as caught:
            read("a.csv")
        assert caught.value.owner == "read"

    def test_a_function_can_be_called_again(self):
        @owned("read")
        def read(path):
            raise InputError("path", rule="exist", got=path)

        for path in ("a", "b"):
            with raises_input_error(match=f"`path` of `read` must exist; got {path}."):
                read(path)

    def test_the_innermost_name_stays(self):
        with pytest.raises(InputError) as caught, owned("outer"), owned("inner"):
            raise InputError("path", rule="exist", got="a")
        assert caught.value.owner == "inner"
        with pytest.raises(InputError) as caught, owned("outer"):
            raise InputError("path", "Reader", "exist", "a")
        assert caught.value.owner == "Reader"

    def test_other_errors_pass(self):
        with pytest.raises(KeyError), owned("read"):
            raise KeyError("a")


ERRORS = [
    InputError(**FIELDS),
    InputError(got="No image can be read."),
    QueryError("cat & dgo", 6, "name labels that exist", "'dgo'", "Did you mean 'dog'?"),
    UnreadableImage("cats/17.jpg", "the file is empty"),
]


class TestPickle:
    @pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
    @pytest.mark.parametrize("clone", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy])
    def test_keeps_type_fields_and_message(self, error, clone):
        cloned = clone(error)
        assert type(cloned) is type(error)
        assert vars(cloned) == vars(error)
        assert str(cloned) == str(error)

    def test_an_owner_that_was_set_later(self):
        error = InputError("k", rule="be at least 1", got="0.5", hint="Pass a larger number.")
        error.owner = "AverageK"
        assert str(pickle.loads(pickle.dumps(error))) == MESSAGE


class FailingFiles(Files):
    """Images that raise an error other than `UnreadableImage` when they are read."""

    def read(self, row):
        raise InputError(**FIELDS)


class FailingSamples(torch.utils.data.Dataset):
    def __init__(self, error):
        self.error = error

    def __len__(self):
        return 1

    def __getitem__(self, row):
        raise self.error


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="other systems start workers that cannot import this file")
class TestDataLoader:
    """torch raises errors of workers again by type and text, so `ImageBatches` sends the error itself."""

    @pytest.mark.parametrize("workers", [0, 1])
    def test_fields_arrive_from_workers_of_image_batches(self, workers):
        names = ["a.png", "b.png"]
        targets = SparseTargets.from_rows([[0], []], num_labels=1)
        dataset = Dataset(mh.Labels(["a"]), targets, ids=names, images=FailingFiles(names))
        batches = ImageBatches(dataset, Preprocessing(size=(8, 8)), workers=workers)
        for _ in range(2):
            with pytest.raises(InputError) as caught:
                list(batches.load([[0, 1]], epoch=None))
            assert type(caught.value) is InputError
            assert vars(caught.value) == FIELDS
            assert str(caught.value) == MESSAGE

    @staticmethod
    def caught_by_torch(error):
        loader = DataLoader(FailingSamples(error), num_workers=1, multiprocessing_context="fork")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(Exception, match="in DataLoader worker process 0") as caught:
                list(loader)
        return caught.value

    def test_type_and_text_arrive_from_a_data_loader_of_your_own(self):
        error = self.caught_by_torch(InputError(**FIELDS))
        assert type(error) is InputError
        assert str(error).rstrip().endswith(MESSAGE)

    def test_text_arrives_from_errors_with_other_arguments(self):
        error = self.caught_by_torch(UnreadableImage("cats/17.jpg", "the file is empty"))
        assert "The image 'cats/17.jpg' cannot be read: the file is empty." in str(error)


class TestSuggest:
    def test_nearest_name(self):
        assert suggest("colour", ["color", "size"]) == "Did you mean color?"
        assert suggest("colour", ["color", "size"], show=repr) == "Did you mean 'color'?"

    def test_no_name_is_near(self):
        assert suggest("price", ["color", "size"], "Pick color or size.") == "Pick color or size."
        assert suggest("price", ["color", "size"]) == ""
        assert suggest("price", []) == ""

    def test_cutoff(self):
        assert suggest("abcd", ["abxy"], cutoff=0.5) == "Did you mean abxy?"
        assert suggest("abcd", ["abxy"], "none", cutoff=0.6) == "none"


class TestRequire:
    def test_an_installed_module(self):
        assert require("importlib.metadata", "Versions", extra="vision") is sys.modules["importlib.metadata"]

    def test_a_missing_package_says_how_to_install_it(self):
        with pytest.raises(ImportError) as caught:
            require("no_such_package.part", "Checkpoints", extra="vision")
        assert str(caught.value) == ("Checkpoints need no_such_package. Install it with: pip install 'manyhot[vision]'")

    def test_a_package_with_a_missing_dependency_is_not_reported_as_missing(self, tmp_path, monkeypatch):
        (tmp_path / "package_with_a_gap.py").write_text("import no_such_dependency")
        monkeypatch.syspath_prepend(tmp_path)
        with pytest.raises(ModuleNotFoundError, match="no_such_dependency"):
            require("package_with_a_gap", "Checkpoints", extra="vision")
