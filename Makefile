# Every target sets up its own environment first; a machine may be new.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

# Images of containers often forbid bytecode: every worker and child of the tests would then compile all of it again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: setup demo test format docs bench audit browser clean

setup: $(STAMP)

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(STAMP)

demo: setup
	$(BIN)/conspectus demo

# Three workers for two processors: tests that wait for a disk, a server or a browser leave one to another.
# The rooms on which privacy rests are covered to 95 %, but for kernels; tests/lines_run.py writes which lines were run.
test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	rm -f .coverage .coverage.*
	LINES_RUN=1 $(BIN)/python -m pytest -n 3 --dist worksteal -m "not audit"
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --fail-under=95

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The site in site/. A link that leads nowhere, a page without a place and a name that is not found fail the build.
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# axe-core, with which the tests of the pages look for what keeps people out; without it they look at the rest.
browser:
	-npm install --silent --prefix .browser axe-core

audit: setup browser
	$(BIN)/python -m pytest -n 2 tests/audits tests/samplers
	$(BIN)/python -m pytest -n 2 -m audit tests/test_documents.py tests/laws tests/edges tests/servers tests/service
	$(BIN)/python -m tests.fuzzing.workload_files --count 100000 --seed 1
	$(BIN)/python -m tests.fuzzing.command_files --count 100000 --seed 1
	$(BIN)/python -m tests.fuzzing.workload_files --later --count 20000 --seed 1
	$(BIN)/python -m tests.fuzzing.command_files --later --count 20000 --seed 1
	$(BIN)/python -m tests.fuzzing.grown_files --count 2000 --seed 1
	$(BIN)/python -m tests.fuzzing.grown_files --later --count 1600 --seed 1
	$(BIN)/python -m tests.fuzzing.selects --count 20000 --seed 1
	$(BIN)/python -m tests.fuzzing.answered_selects --count 20000 --seed 1
	$(BIN)/python -m tests.fuzzing.predicates --count 20000 --seed 1
	$(BIN)/python -m tests.fuzzing.http_requests --count 100000 --seed 1
	$(BIN)/conspectus audit

bench: setup
	$(BIN)/python -m bench

clean:
	rm -rf $(VENV) site .coverage .coverage.*
