# Everything a person or CI runs. `make demo` and `make test` need Python 3.11+ with venv, and nothing else.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV_VERSION := 0.13.9
JOBS ?= 60
SEED ?= 7
PYTEST ?= $(BIN)/pytest

.PHONY: help demo setup setup-dev lint format test test-gpu test-multihost chaos growth bench bench-sweep bench-peers lock clean

help: ## What can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: setup ## The main job on embedded servers and two simulated boxes, in about four minutes
	@$(BIN)/ddqueue demo

setup: $(VENV)/.local ## An environment that runs ddqueue
setup-dev: $(VENV)/.dev ## ... and its tests and checks

lint: setup-dev ## Style, types, direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-dev ## Put the code into the project's layout
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: setup-dev ## Every test that needs no GPU and no second host
	$(PYTEST) -n 2 --dist loadfile -m "not gpu and not multihost"

test-gpu: ## The pipeline over a real SGLang, on a machine with a GPU (tests/gpu/README.md)
	$(PYTEST) -m gpu tests/gpu

bench: setup-dev ## What ddqueue itself costs, held against what is wanted, in some ten minutes (docs/benchmarks.md)
	@failed=; for one in turnaround efficiency load_client startup scale "shorter_sweeps --sweeps 1"; do \
		set -- $$one; file=$$1; shift; printf '\n== %s\n' "$$file"; \
		$(BIN)/python benchmarks/$$file.py "$$@" || failed="$$failed $$file"; \
	done; test -z "$$failed" || { echo "not as wanted:$$failed" >&2; exit 1; }

bench-sweep: setup-dev ## One sweep of 40 cells on two simulated boxes, plain and shortened, in some twelve minutes
	$(BIN)/python benchmarks/forty_cells.py

bench-peers: setup-dev ## The load client beside others on one server; the first time they are installed, some gigabytes
	$(BIN)/python benchmarks/peers.py

chaos: setup-dev ## JOBS jobs under faults of every kind, planned from SEED, and what a checker says of it
	$(BIN)/python -m tests.chaos --jobs $(JOBS) --seed $(SEED) --hosts 2

growth: setup-dev ## 200 jobs, then a quarter of an hour without any: what worker and dispatcher hold more than before
	$(BIN)/python -m tests.growth --jobs 200 --idle-s 900

test-multihost: setup-dev ## A cut, a power cut, a control host away: on boxes booted on this machine, as root (docs/decisions/0014)
	$(PYTEST) -m multihost tests/multihost

lock: ## Make the lock files anew from pyproject.toml
	$(BIN)/uv pip compile -q pyproject.toml --universal --generate-hashes --no-header --python-version 3.11 \
		--group build --extra local -o requirements/local.lock
	$(BIN)/uv pip compile -q pyproject.toml --universal --generate-hashes --no-header --python-version 3.11 \
		--extra supervised -o requirements/deploy.lock
	$(BIN)/uv pip compile -q pyproject.toml --universal --generate-hashes --no-header --python-version 3.11 \
		--group build --extra local --extra dev -o requirements/dev.lock

clean: ## Remove the environment and what tools cached
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis

# uv installs the lock in seconds; where it cannot be had, or cannot reach the registry that pip is set up for, pip does.
$(VENV)/.local $(VENV)/.dev: $(VENV)/.%: requirements/%.lock pyproject.toml
	@scripts/make-venv "$(PYTHON)" "$(VENV)" "$<" "$(UV_VERSION)"
	@touch "$@"
