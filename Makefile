# On a machine with Python 3.11 or newer and make, `make demo` and `make test` need no other step.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

# What is installed depends on pyproject.toml and on where the checkout lies, so the stamps are
# named by both: nothing is installed twice, and a complete $(VENV) needs no network.
KEY := $(shell { cat pyproject.toml; pwd; } | cksum | cut -d ' ' -f 1)
DEMO := $(VENV)/.installed-demo-$(KEY)
DEV := $(VENV)/.installed-dev-$(KEY)
BENCH := $(VENV)/.installed-bench-$(KEY)

.PHONY: help demo tutorials course tutorials-handout tutorials-solutions test test-fast test-plain test-gpu lint format bench figures docs clean
.DELETE_ON_ERROR:

help:
	@echo "make demo       train, profile, draw and check a small network on real digits"
	@echo "make tutorials  run the notebooks and write them anew (NN=\"01 13\": only these)"
	@echo "make tutorials-handout    students' copies in hand-out/, exercises open (NN=... too)"
	@echo "make tutorials-solutions  teachers' copies in solutions/, solved and run (NN=... too)"
	@echo "make course     slides, step-throughs and questions for teachers, in course-output/"
	@echo "make test       all tests"
	@echo "make test-fast  stop at the first failure, last failures first"
	@echo "make test-plain all tests without minigrad/fast and minigrad/courtesy"
	@echo "make test-gpu   the tests of the GPU, on a machine that has one (CuPy must be installed)"
	@echo "make lint       formatting, lint, types"
	@echo "make format     write the formatting"
	@echo "make bench      benchmarks beside PyTorch"
	@echo "make figures    pictures of the pages and outputs of their commands, made anew"
	@echo "make docs       the pages of documentation, in site/"
	@echo "make clean      remove $(VENV), caches and the demo's output"
	@echo "PYTHON=python3.12 chooses the interpreter"

demo: $(DEMO)
	@exec $(PY) tutorials/demo.py

tutorials: $(DEV)
	$(PY) tutorials/build.py $(NN)

tutorials-handout: $(DEV)
	$(PY) tutorials/build.py --hand-out hand-out $(NN)

tutorials-solutions: $(DEV)
	$(PY) tutorials/build.py --solutions solutions $(NN)

# What writes its pages, markdown-it-py, comes with Rich.
course: $(DEMO)
	@$(PY) tutorials/course/build.py

# Two workers share the processors: a BLAS that takes all of them in each is a third slower.
test test-fast test-plain: export OPENBLAS_NUM_THREADS = 1

test: $(DEV)
	$(PY) -m pytest -n 2 --dist worksteal

test-fast: $(DEV)
	$(PY) -m pytest -n 2 --dist worksteal -x --ff

# Without minigrad/fast and minigrad/courtesy.
test-plain: $(DEV)
	MINIGRAD_PLAIN=1 $(PY) -m pytest -n 2 --dist worksteal

# No virtual environment: CuPy, NumPy, SciPy, pytest and pytest-xdist are those of $(PYTHON).
test-gpu:
	$(PYTHON) -c 'import minigrad, sys; sys.exit(not minigrad.cuda.is_available() and "no GPU here")'
	$(PYTHON) -m pytest -n 8 -k "not stand_in" tests/cuda tests/on_gpu tests/expressions tests/fusion

lint: $(DEV)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m pyright --pythonpath $(PY)

format: $(DEV)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

# The pictures need a Chromium.
figures: $(DEV)
	$(PY) docs/make_figures.py
	$(PY) docs/pictures/make.py

docs: $(DEV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(PY) docs/build_site.py

bench: $(BENCH)
	$(PY) -m benchmarks

clean:
	rm -rf $(VENV) build dist demo-output course-output .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +

# -- the virtual environment ---------------------------------------------------------------------

$(PY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "minigrad needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	    "Say which one to use: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); exit 1; }

$(DEMO): | $(PY)
	@echo "Setting up $(VENV) (once; it needs the network) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[profile]'
	@touch $@

$(DEV): | $(PY)
	@echo "Setting up $(VENV) for development (once; it needs the network) ..."
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(DEMO)

$(BENCH): $(DEV)
	@$(PY) -m pip install --quiet --disable-pip-version-check -e '.[bench]'
	@touch $@
