# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
COMMAND := .venv/.command
READY := .venv/.ready
SPARK := .venv-spark/bin
CHOSEN := -m "not slow"
# For two cores: many tests wait for a process, a browser or a broker. With 4, neither core is idle
# meanwhile; a worker more would take longer to import everything than it saves.
WORKERS := 4
JAVA := $(if $(JAVA_HOME),$(JAVA_HOME)/bin/java,java)
# Without bytecode files every process that a test starts would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE
# pip compiles what nobody imports too: half of its time. The first import compiles the rest.
INSTALL := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: setup demo test test-slow test-main test-spark check docs bench mutants clean
.DEFAULT_GOAL := test

setup: $(READY)

$(COMMAND): pyproject.toml constraints.txt Makefile  # the command alone, without torch and the like
	@echo "installing fires and eight libraries into .venv: about 660 MB (numba with LLVM 205, polars 190, scipy 120, numpy 65, scikit-learn 40)"
	$(PYTHON) -m venv .venv
	$(INSTALL) .
	touch $@

$(READY): $(COMMAND)
	@echo "installing all extras, torch and the tools for tests and checks into .venv"
	$(INSTALL) '.[test,check,all,torch]'
	touch $@

demo: $(COMMAND)  ## stream an embedded example with a drift in it, print the ranked features, save the state
	$(BIN)/fires demo

test: setup  ## every test but those marked slow
	$(BIN)/python -m tests.warm_up
	@$(MAKE) --no-print-directory -j2 test-main test-spark

test-slow: setup  ## every test
	$(BIN)/python -m tests.warm_up
	@$(MAKE) --no-print-directory -j2 test-main test-spark CHOSEN=

test-main:
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(CHOSEN)

test-spark:  ## the tests on a local Spark, where there is Java 17 or later
	@if $(JAVA) -version 2>&1 | grep -qE 'version "(1[7-9]|[2-9][0-9])'; \
	then $(MAKE) --no-print-directory .venv-spark/.tested; \
	else echo "no Java 17 or later: the tests on Spark are left out"; fi

.PHONY: .venv-spark/.tested
.venv-spark/.tested: .venv-spark/.ready
	@log=$$(mktemp) && $(SPARK)/python -m pytest $(CHOSEN) tests/integrations/spark > $$log 2>&1; \
	status=$$?; cat $$log; rm $$log; exit $$status  # in one piece, for other tests run meanwhile

# Of its own: pyspark wants pandas 2, and everything else is tested with pandas 3.
.venv-spark/.ready: pyproject.toml constraints.txt Makefile
	$(PYTHON) -m venv .venv-spark
	$(SPARK)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable '.[spark]' pytest hypothesis
	touch $@

check: setup  ## style, types, architecture
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/.docs  ## the site, in site/: strict, and nothing in it is loaded from the network
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@! grep -rE '<(script|link|img|iframe)[^>]+(src|href)="(https?:)?//' site --include=*.html

.venv/.docs: $(COMMAND)
	$(INSTALL) '.[docs]'
	touch $@

bench: setup  ## speed, as ratios inside one run on one thread
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m benchmarks

mutants: setup  ## 60 small changes of the code: which do the tests notice, and did they before?
	$(BIN)/python -m benchmarks.mutants --base

clean:
	rm -rf .venv .venv-spark site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
