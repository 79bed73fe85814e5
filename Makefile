# Every target sets up .venv by itself; on a fresh machine it needs only Python 3.11 or newer, make and git. Another one: make test PYTHON=python3.13
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# Further interpreters, on which `make test` only tries whether observal works.
PYTHONS ?= $(foreach version,12 13 14,$(shell command -v python3.$(version)))
BIN := .venv/bin
READY := .venv/ready
DEMO_READY := .venv/ready-demo
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
# Compiled kernels are kept between runs, out of the source tree.
export NUMBA_CACHE_DIR ?= $(CURDIR)/.venv/numba-cache
# So are compiled modules, whatever the shell says: each of the many processes of the tests would compile them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint system smoke dist verify bench docs clean

$(READY): pyproject.toml
	@echo "Installing observal and its development tools into .venv …"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) '.[dev]'
	@touch $(READY) $(DEMO_READY)

# The demo needs none of the development tools.
$(DEMO_READY): pyproject.toml
	@echo "Installing observal into .venv …"
	@$(PYTHON) -m venv .venv
	@$(INSTALL) .
	@touch $(DEMO_READY)

demo: $(DEMO_READY)
	$(BIN)/observal demo --out out/demo

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What pip cannot bring; only root can install it.
system:
	sh scripts/setup_system.sh

# Coverage comes last in the output. SlipCover costs about a tenth of the time on Python 3.11, where coverage.py costs four fifths.
# It stops watching a line after 1,000 runs: after 50, the default, it searches for such lines so often that it costs a fifth.
test: lint system smoke
	$(BIN)/python -m slipcover --skip-covered --missing-width 60 --threshold 1000 -m pytest -n auto --dist worksteal -m 'not slow'

# A first run on another interpreter downloads what observal needs, about a minute; without a network it is left out.
smoke:
	@for python in $(PYTHONS); do sh scripts/smoke.sh "$$python" || exit 1; done

# Wheel and source, checked; the wheel in an empty environment runs the tutorial.
dist: $(READY)
	sh scripts/check_dist.sh $(BIN)/python

verify: $(READY)
	PYTHON=$(PYTHON) sh scripts/setup_system.sh --label-studio
	$(BIN)/observal-research verify
	$(BIN)/python -m pytest -n auto -m slow

bench: $(READY)
	$(BIN)/python benchmarks/results.py

docs: $(READY)
	@$(BIN)/python -c 'import mkdocs, material, mkdocstrings' 2>/dev/null || $(INSTALL) '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@! grep -rlE ':(class|func|meth|mod|attr|data|exc):( |<code>|`)' site --include='*.html' || (echo "These pages show markup of docstrings." && false)
	@echo "The documentation is at site/index.html"

clean:
	rm -rf .venv out build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
