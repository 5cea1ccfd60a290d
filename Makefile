# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
COMMAND := .venv/.command
READY := .venv/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: setup demo test test-slow check bench clean
.DEFAULT_GOAL := test

setup: $(READY)

$(COMMAND): pyproject.toml constraints.txt Makefile  # the command alone, without torch and the like
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

$(READY): $(COMMAND)
	$(INSTALL) '.[test,check,all]'
	touch $@

demo: $(COMMAND)  ## stream an embedded example with a drift in it, print the ranked features, save the state
	$(BIN)/fires demo

test: setup  ## every test but those marked slow
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

test-slow: setup  ## every test
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: setup  ## style, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup  ## speed, as ratios inside one run on one thread
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
