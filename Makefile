# Every target sets up its own environment first; a machine may be new.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup demo test bench audit clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/conspectus demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2 -m "not audit"

audit: setup
	$(BIN)/python -m pytest -n 2 tests/audits tests/coins
	$(BIN)/conspectus audit

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV)
