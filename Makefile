# `make demo` and `make test` set up everything they need, from Python, make and a compiler alone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
STRANGERS := .strangers
# Test files run side by side, each on one worker, with servers of their own. One more than the cores of a small
# machine: tests wait for processes to start, for clocks and for disks half of their time.
JOBS   ?= 3

.PHONY: help setup demo strangers test check format clean

help:            ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(STAMP)  ## the virtual environment with every dependency

# torch first and by its exact version: a machine that offers the CPU build then takes that one, and nothing
# that follows pulls a newer torch with its CUDA packages in.
$(STAMP): pyproject.toml Makefile
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c "import torch" 2>/dev/null || $(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet -e ".[all,dev]"
	touch $@

demo: $(STAMP)   ## a conversation remembered over weeks, on the embedded default
	$(BIN)/memory-agent demo

# Clients that others wrote, for the tests; MCP Inspector only where npm is.
strangers: $(STRANGERS)/.installed
$(STRANGERS)/.installed: tests/strangers/requirements.txt tests/strangers/package-lock.json
	test -x $(STRANGERS)/bin/python || $(PYTHON) -m venv $(STRANGERS)
	$(STRANGERS)/bin/python -m pip install --quiet -r tests/strangers/requirements.txt
	cp tests/strangers/package.json tests/strangers/package-lock.json $(STRANGERS)/
	! command -v npm >/dev/null || npm ci --prefix $(STRANGERS) --no-audit --no-fund --ignore-scripts --silent
	touch $@

test: $(STAMP) $(STRANGERS)/.installed  ## every test, on a real MongoDB, a real Chroma server and the real model
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

check: $(STAMP)  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP) ## format and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove the environment and every cache
	rm -rf $(VENV) $(STRANGERS) .mypy_cache .ruff_cache .pytest_cache .hypothesis
