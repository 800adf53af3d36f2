# make room: set-up, then the room on http://localhost:8000
# make test: set-up, ruff, the type checker, pytest
PY := .venv/bin/python
HOST ?= 127.0.0.1
PORT ?= 8000
export PYTHONDONTWRITEBYTECODE ?=

.DEFAULT_GOAL := help
.PHONY: help setup room test lint types pytest bench bench-llm test-llm train train-safety crossval clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 26

setup: ## make .venv with everything in it (idempotent)
	@scripts/setup.sh

room: setup ## start the room on http://localhost:8000
	@echo "==> the room is on http://localhost:$(PORT) (Ctrl-C stops it)"
	@.venv/bin/chainlit run ui/app.py --headless --host $(HOST) --port $(PORT)

test: setup lint types pytest ## ruff, the type checker and all tests

lint:
	@echo "==> ruff"
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check -q .

types:
	@echo "==> mypy"
	@$(PY) -m mypy

pytest:
	@echo "==> pytest"
	@$(PY) -m pytest

bench: setup ## speed of the replay and of a live turn, as ratios
	@$(PY) scripts/bench.py

bench-llm: setup ## speed of the LLM replay on a local mock server, as a ratio
	@$(PY) scripts/bench_llm.py

test-llm: setup ## tests against real model servers on loopback (fetches 130 MB; SECOND=1 builds a second one)
	@export KITH_TEST_LLM="$${KITH_TEST_LLM:-$$HOME/.cache/kith/test-llm}"; \
	SECOND=$(SECOND) scripts/test_llm_setup.sh && $(PY) -m pytest -m llm tests/test_llm_real.py

train: setup ## fit the shipped heads again (needs the RESCUE data, KITH_RESCUE)
	@$(PY) -m agent.train --split train --out agent/weights

train-safety: setup ## train the shipped safety adapter again (KITH_RESCUE; 20 minutes)
	@$(PY) -m agent.safety.train

crossval: setup ## the cross-validation table (needs the RESCUE data, KITH_RESCUE)
	@$(PY) -m eval.crossval

clean: ## remove caches and the environment (never rooms or runs)
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache
