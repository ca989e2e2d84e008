# `make demo` and `make test` each do everything from nothing: they need Python 3.11 or later, make, and no more.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
JOBS ?= 2
SECONDS ?= 600

.DEFAULT_GOAL := help
.PHONY: help demo test test-browser test-plain soak wheel lint docs plots page page-test screenshots format clean

help:
	@echo "make demo    the wind farm: anomalies, proofs, a changed reading, a new rule; then many farms on Spark, and as a stream"
	@echo "make test    all tests, then a part of them again without the compiler"
	@echo "make soak    the tests with random input, on fresh seeds, for SECONDS=600 in all"
	@echo "make wheel   a wheel with compiled kernels, in dist; it needs a C compiler, to link them"
	@echo "make lint    ruff and mypy"
	@echo "make docs    the documentation as a site, in build/site, with all links checked"
	@echo "make plots   draw the plots of the documentation again, from its tables"
	@echo "make page    build the page of tidelog serve again, from web; it needs npm"
	@echo "make format  format all sources"
	@echo "make clean   remove the virtual environment and all caches of this folder"

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "tidelog needs Python 3.11 or later; name one with `make PYTHON=…`")'
	@echo "Installing tidelog into $(VENV), once …"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all,dev,spark-connect]'
	@touch $@

demo: $(READY)
	@$(BIN)/python examples/demo.py

# The kernels come first, which takes both cores, and so do the classes of Spark. On Spark, each worker has one session.
test: $(READY)
	@$(BIN)/tidelog warmup
	@$(BIN)/python tests/support/spark/class_archive.py
	$(BIN)/python -m pytest -n $(JOBS) -m "not spark and not browser"
	$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m spark
	@$(MAKE) --no-print-directory test-browser
	@$(MAKE) --no-print-directory test-plain

# Of the page of a server. One process has one browser and one server.
test-browser: $(READY)
ifeq ($(and $(shell command -v chromium || command -v chromium-browser),$(shell command -v chromedriver)),)
	@echo "LEFT OUT: the tests of the page in a browser, as chromium and chromedriver (chromium-driver) are not installed"
else
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile -m browser
endif

test-plain: $(READY)
	NUMBA_DISABLE_JIT=1 $(BIN)/python -m pytest -n $(JOBS) -m plain

# Every test that obeys TIDELOG_SOAK goes on for its share of the time, one after the other, on kernels that check each
# access to memory. What fails says how to see it again; after a crash, the last line of soak.log names the seed. In the
# end it says how many cases were done. The tests with Hypothesis have other input as well.
SOAKED = $(shell grep -lr --include='test_*.py' '^from soaking' tests)
SEARCHED = $(shell grep -lr --include='test_*.py' '^from hypothesis' tests)
soak: $(READY)
	@rm -f soak.log
	TIDELOG_CHECKED=1 TIDELOG_SOAK=$$(( $(SECONDS) / $(words $(SOAKED)) )) $(BIN)/python -m pytest $(sort $(SOAKED) $(SEARCHED))
	@grep 'done$$' soak.log

# The libraries of kernels are made in build/kernels; what is left of an earlier wheel in build/lib would get into this
# one.
wheel: $(READY)
	@rm -rf build
	@$(BIN)/python -m tidelog.machine.kernels.wheel build/kernels
	TIDELOG_KERNELS=build/kernels $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

plots: $(READY)
	$(BIN)/python docs/plots/draw.py

# The built files are committed, so that only those who change the page need npm.
page: web/node_modules
	cd web && npm run build

page-test: web/node_modules
	cd web && npm test

web/node_modules: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

screenshots: $(READY)
	$(BIN)/python docs/page/shoot.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist web/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis spark-warehouse
