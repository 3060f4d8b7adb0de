# The two commands of the project, `make demo` and `make test`, need Python and make, nothing else.
#
#   make demo              the main job on synthetic data, on the CPU
#   make demo-cifar        classification with few classes per client, in minutes
#   make pictures          the pictures of the documentation, from runs that docs/site/pictures.py names
#   make test              lint, formatting, types and tests
#   make check             the same with the tests of a minute, for every save
#   make campaign          damaged inputs and killed runs, new ones every day (SEED=20260131: that day's)
#   make PYTHON=python3.12 demo      with a given interpreter

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
TEST_STAMP := $(VENV)/test_installed

.PHONY: help demo demo-cifar test check campaign lint format docs docs-tools new-user \
  figures pictures install clean

help:
	@echo "make demo         segmentation: train and evaluate on synthetic street scenes"
	@echo "make demo-cifar   classification: CIFAR-10 if it is prepared, else synthetic shapes"
	@echo "make test         lint, formatting, types and tests"
	@echo "make check        lint, formatting, types and the tests of a minute, for every save"
	@echo "make new-user     what the README and the pages say, in an empty environment"
	@echo "make campaign     2,000 damaged inputs and 56 killed runs; SEED=... for given ones"
	@echo "make figures      train the demos and compare with the documented figures"
	@echo "make lint         lint, formatting and types only"
	@echo "make format       format the sources"
	@echo "make docs         build the documentation as a site in build/docs"
	@echo "make pictures     the pictures of the documentation anew"
	@echo "make clean        remove the environment and the caches"

demo: $(STAMP)
	$(BIN)/fedseg demo

demo-cifar: $(STAMP)
	$(BIN)/fedseg demo images

# Four processes, with two cores as well: a quarter of the time a test waits for another process. A
# file's tests stay together, so that what they share is made once; files with few tests, which are
# long ones, do not wait till the end.
WORKERS := --numprocesses 4 --dist loadfile --no-loadscope-reorder
LINT := $(BIN)/python -m ruff check . && $(BIN)/python -m ruff format --check . && \
  $(BIN)/python -m mypy
QUICK_TESTS := tests/core tests/engine tests/algorithms tests/optim tests/config tests/runs \
  tests/loaders tests/test_layers.py

# A lint finding does not hide the test results, nor the other way round. (No make calls make here: it
# would do so even with --dry-run, which the tests use.)
test: $(TEST_STAMP)
	@code=0; $(LINT) || code=1; $(BIN)/python -m pytest $(WORKERS) || code=1; exit $$code

check: $(TEST_STAMP)
	@code=0; $(LINT) || code=1; $(BIN)/python -m pytest $(WORKERS) $(QUICK_TESTS) || code=1; exit $$code

campaign: $(TEST_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -W ignore -m tests.campaign $(if $(SEED),--seed $(SEED))

lint: $(TEST_STAMP)
	$(LINT)

format: $(TEST_STAMP)
	$(BIN)/python -m ruff check --fix .
	$(BIN)/python -m ruff format .

docs: docs-tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file docs/site/mkdocs.yml

pictures: $(TEST_STAMP)
	$(BIN)/python docs/site/pictures.py $(if $(RUNS),--runs $(RUNS))

docs-tools: $(VENV)/docs_installed

$(VENV)/docs_installed: $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[docs]'
	@touch $@

# What the README and the pages say, from the wheel, in an environment that has nothing but it.
new-user: $(TEST_STAMP)
	$(BIN)/python -m pytest tests/journeys --new-user

# The demos' figures in docs/results.md, trained again, and how hard the synthetic shapes are.
figures: $(TEST_STAMP)
	$(BIN)/python -m pytest -m figures tests/integration/test_demo_figures.py \
	  tests/data_prep/test_synthetic_shapes.py

install: $(STAMP)

# What a run needs: once, and again when the dependencies change.
#
# mmcv asks for opencv-python and albumentations for opencv-python-headless: two wheels of one
# version that unpack into one folder, cv2/. The headless one comes last: it needs no display.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "fedseg needs Python 3.11 or newer, '$(PYTHON)' is not." \
	    "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	$(BIN)/python -m pip install --constraint constraints.txt --force-reinstall --no-deps \
	  opencv-python-headless
	$(BIN)/python -W ignore -c 'import cv2, mmcv, mmseg, albumentations, torch, torchvision'
	@touch $@

# What the tests need on top: pytest, ruff and mypy, the other trackers, a driver for the browser.
$(TEST_STAMP): $(STAMP)
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[test]'
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
