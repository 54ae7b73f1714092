# Everything sets itself up: a Python of 3.11 or newer and a network are enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
.DEFAULT_GOAL := help
.PHONY: help demo test lint bench boards clean debian

help: ## say what there is
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*##/ -/'

$(VENV)/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; say which with PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

debian: ## install what the tests need of Debian's packages (Prometheus)
	@sh tests/debian-packages.sh

demo: $(VENV)/.ready ## replay captured pages of all four stacks through the exporter and the auditor
	@$(BIN)/python deploy/demo/replay.py

test: $(VENV)/.ready debian ## run all tests
	$(BIN)/python -m pytest

lint: $(VENV)/.ready ## style, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: $(VENV)/.ready ## measure speed, as ratios in one run
	$(BIN)/python -m pytest -m bench -q tests/bench

boards: $(VENV)/.ready ## write the boards and rules anew from their sources
	$(BIN)/python -m dashboards.build

clean: ## remove what these commands made
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
