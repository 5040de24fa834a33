# Each target sets up what it needs: an environment in .venv, made once and again when pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USER_STAMP := $(VENV)/.installed
STAMP := $(VENV)/.ready
BENCH_STAMP := $(VENV)/.bench-ready
DOCS_STAMP := $(VENV)/.docs-ready

.PHONY: demo test test-thorough lint bench docs pages files clean

demo: $(USER_STAMP)
	$(BIN)/dalembert demo

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-thorough: $(STAMP)
	XLA_FLAGS=--xla_backend_optimization_level=3 $(BIN)/python -m pytest -n 2 --dist loadfile --thorough

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright

# a quarter of an hour, on a machine with nothing else to do; parts of it: make bench PARTS="scaling batch"
bench: $(BENCH_STAMP)
	$(BIN)/python benchmarks/run.py $(if $(PARTS),--only $(PARTS))

# the docs site, in out/site; a warning is an error
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

# what the docs say in numbers and pictures, made again by the code; some ten minutes
pages: $(STAMP)
	$(BIN)/python docs/make_pages.py
	$(BIN)/python docs/make_gallery.py

# what is written by the program itself: the built-in mechanisms as model files, and the schema of model files
files: $(STAMP)
	$(BIN)/python -m dalembert.mechanisms
	$(BIN)/dalembert schema > docs/model.schema.json

# what a user installs; tests, benchmarks and docs need more
$(USER_STAMP): pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or newer is needed; try: make PYTHON=python3.12")'
	@echo "Setting up $(VENV), once: a minute or two."
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(STAMP): $(USER_STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[test]"
	touch $@

$(BENCH_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[bench]"
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) out
