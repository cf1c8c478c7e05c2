# Each sets up what it needs; begin with `make demo` or `make test`.
PYTHON ?= python3
VENV ?= .venv
# Each takes a row of tests, as these share what is made for them, and, when it
# has none left, the end of another's row.
PARALLEL ?= --numprocesses auto --maxprocesses 4 --dist worksteal --durations 10
# The workers share the cores; with more threads each, they are slower. What is
# compiled is kept, which saves each process seconds.
TEST = OMP_NUM_THREADS=1 TF_NUM_INTRAOP_THREADS=1 TF_NUM_INTEROP_THREADS=1 \
	PYTHONDONTWRITEBYTECODE= $(VENV)/bin/python -m pytest $(PARALLEL)

# Tests that need another backend.
BACKENDS = tests/test_backends.py tests/runs/test_train_on_jax.py
# The tables of all modes that users switch.
SWITCHES = tests/test_switches.py tests/models/test_switches.py

.PHONY: demo test test-oldest test-all test-rest test-backends test-load lint \
	docs dist publishable clean

demo: $(VENV)/.demo
	$(VENV)/bin/relative-attention demo --output runs/demo

# Each behavior once, on TensorFlow: what every change runs.
test: $(VENV)/.test
	$(TEST)

# The same with the oldest versions of what it requires, in a place of its own.
test-oldest:
	PIP_CONSTRAINT=$(CURDIR)/tests/oldest.txt $(MAKE) test VENV=$(VENV)-oldest

test-all: test test-rest

# Long cases, slow runs (the demo, notebooks, runs killed, machines lost), and
# the other backends.
test-rest: $(VENV)/.test test-backends
	$(TEST) -m "large or slow" $(BACKENDS:%=--ignore %)

# One case of each test, as JAX compiles each shape of each operation; for it
# whole models are left to the last line, which takes two minutes and not ten.
test-backends: $(VENV)/.test $(VENV)/.backends
	KERAS_BACKEND=torch $(TEST) --first-case \
		tests/ops tests/layers tests/training tests/models
	KERAS_BACKEND=jax $(TEST) --first-case \
		tests/ops tests/layers
	KERAS_BACKEND=torch $(TEST) -m large $(SWITCHES)
	KERAS_BACKEND=jax $(TEST) -m large $(SWITCHES)
	$(TEST) -m "" $(BACKENDS)

# How much load the server handles, and at what cost; quarter of an hour.
test-load: $(VENV)/.test
	$(VENV)/bin/python -m benchmarks.serving.load \
		multi30k_en_de_tiny_relative --check
	RELATIVE_ATTENTION_ANSWERS=10000 $(VENV)/bin/python -m pytest -m large \
		tests/serve/test_predict.py

lint: $(VENV)/.lint
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/mypy

# The site, docs/_build/html/index.html; whatever there is to warn of, such as a
# link to nothing, is an error.
docs: $(VENV)/.docs
	$(VENV)/bin/python -m sphinx --fail-on-warning --keep-going --quiet \
		--write-all -c docs -d docs/_build/doctrees . docs/_build/html

# The wheel and the source, as they are published, dist/.
dist: $(VENV)/.release
	rm -rf dist
	$(VENV)/bin/python -m build
	$(VENV)/bin/twine check --strict dist/*

# What publishing asks before it builds: an address that can be reached.
publishable:
	@! grep '^ADDRESS = .*\.invalid"' setup.py || { \
		echo "error: set ADDRESS in setup.py to the project's address"; \
		exit 1; }

$(VENV)/bin/pip:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras; made again when the requirements change.
$(VENV)/.%: setup.py pyproject.toml | $(VENV)/bin/pip
	$(VENV)/bin/pip install --quiet --editable '.[$*]'
	touch $@

clean:
	rm -rf $(VENV) $(VENV)-oldest build dist docs/_build *.egg-info
