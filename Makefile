# Everything runs in .venv, which is made on first use and again whenever pyproject.toml or constraints.txt changes.

VENV ?= .venv
CONSTRAINTS ?= constraints.txt
WORKERS ?= 2
WHAT ?= losses

# The first of these that runs and is new enough; looked up only when .venv has to be made.
PYTHON ?= $(firstword $(foreach name,python3.11 python3 python3.12 python3.13 python,\
	$(shell $(name) -c 'import sys; print("$(name)" if sys.version_info >= (3, 11) else "")' 2>/dev/null)))

# The tests of `make quick`: from losses to metrics, tables and search, and the files of older versions.
QUICK := $(addprefix tests/,laws reference theory errors files calibrate decide metrics evaluation linear search predictions data) tests/test_*.py

# What tests of pages look for; see tests/browsers.py.
BROWSERS := "$${MANYHOT_BROWSER:-chromium}" chromium chromium-browser google-chrome chrome

# The tests that need torch and numpy alone, beside pytest and hypothesis.
CORE := $(addprefix tests/,laws reference theory errors)

BIN := $(VENV)/bin
READY := $(VENV)/.ready

export MPLBACKEND := Agg
export NO_MKDOCS_2_WARNING := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1
export PIP_PROGRESS_BAR := off
export PIP_ROOT_USER_ACTION := ignore
export PYTHONHASHSEED := 0
export PYTHONUTF8 := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup browser lint format quick unit messages coverage core wheel docs test demo bench clean distclean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/\1|\2/p' $(firstword $(MAKEFILE_LIST)) | while IFS='|' read -r name text; do \
		printf '  make %-10s %s\n' "$$name" "$$text"; done

setup: $(READY) ## make .venv and install the package with its tools

test: lint unit docs ## all checks: lint, tests, docs

browser: ## a Chromium for the tests of the studio's page, where none is there and apt-get can install it
	@for name in $(BROWSERS); do command -v $$name >/dev/null && exit 0; done; \
	if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; \
	else echo "No Chromium was found. Install one, or name it: export MANYHOT_BROWSER=/path/to/chrome"; fi

lint: $(READY) ## ruff, mypy and the order of the subpackages
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(READY) ## let ruff rewrite the code in the format of the project
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

quick: $(READY) ## laws, vectors and units of the core, for the inner loop: no browser, no processes, nothing slow
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) -m "not browser and not process and not slow" $(QUICK)

unit: $(READY) browser ## the tests and the examples in docstrings, in WORKERS processes if set
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS)

messages: $(READY) browser ## write the whole messages of the errors that tests expect to tests/errors/messages.txt
	rm -rf .messages && mkdir .messages
	MANYHOT_COLLECT_MESSAGES=$(CURDIR)/.messages OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS)
	LC_ALL=C sort -u .messages/*.txt > tests/errors/messages.txt
	rm -rf .messages

coverage: $(READY) browser ## the tests again, and which lines and branches they run; PARTS="tests/laws ..." for a part
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n $(WORKERS) --cov --cov-report=term --cov-report=xml $(PARTS)

core: ## install the core alone, with no extra, into .venv-core and run the tests that it must pass
	$(PYTHON) -m venv --clear .venv-core
	.venv-core/bin/python -m pip install -qq -c $(CONSTRAINTS) . pytest hypothesis
	cd .venv-core && OMP_NUM_THREADS=1 bin/python ../tests/installed.py
	OMP_NUM_THREADS=1 .venv-core/bin/python -m pytest -q $(CORE)

wheel: ## build the wheel into dist/, install it into an empty .venv-wheel and run its command
	rm -rf dist
	$(PYTHON) -m pip wheel -q --no-deps --wheel-dir dist .
	$(PYTHON) -m venv --clear .venv-wheel
	.venv-wheel/bin/python -m pip install -qq -c $(CONSTRAINTS) "$$(echo dist/manyhot-*.whl)[tables]"
	cd .venv-wheel && bin/manyhot --help && OMP_NUM_THREADS=1 bin/python ../tests/installed.py

docs: $(READY) ## build the documentation into site/; a warning is an error
	$(BIN)/mkdocs build --strict

demo: $(READY) ## run the demonstration
	$(BIN)/manyhot demo

bench: $(READY) ## time against peers: WHAT=losses, metrics, thresholds, predictions, engine, linear, features, search, retrieval, split, studio
	$(BIN)/python benchmarks/$(WHAT).py

clean: ## remove caches and built files
	rm -rf build dist site demo-output .coverage .coverage.* coverage.xml htmlcov .benchmarks .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name '.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean ## remove .venv as well
	rm -rf $(VENV) .venv-core .venv-wheel

$(READY): pyproject.toml $(CONSTRAINTS)
	$(if $(wildcard $(BIN)/python)$(PYTHON),,$(error manyhot needs Python 3.11 or newer and none was found. Install one, or name it: make PYTHON=/path/to/python3.11))
	@echo "Setting up $(VENV); the first time takes some minutes."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -qq -c $(CONSTRAINTS) -e '.[dev]'
	@touch $@
