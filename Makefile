# Two commands: `make reproduce` (the whole study) and `make test`. Both build .venv first; when it is up to date that does nothing.
#
#   make reproduce STUDY=configs/studies/other.yaml   another study
#   make ui                                           MLflow on the runs of STUDY
#   TORCH_INDEX=https://download.pytorch.org/whl/cpu make env   where the default index has no CPU build of torch

STUDY  ?= configs/studies/smoke.yaml
PYTHON ?= python3.11
SLCA   := .venv/bin/slca
LOCK   := requirements/cpu.txt
# Never through a link, and anew only if the lock or Python is another.
BUILD  := slca_core.benchmarks.environment

.PHONY: reproduce test acceptance chaos ui env bench bench-bfcl bench-tau2 lint clean
.DEFAULT_GOAL := reproduce

reproduce: env
	$(SLCA) run $(STUDY)

test: env
	.venv/bin/python -m pytest

ui: env
	$(SLCA) ui $(STUDY)

# The peers lie over .venv, whose packages they see.
bench: env
	.venv/bin/python -m $(BUILD) .venv-peers requirements/peers.txt --above .venv/lib/python3.11/site-packages
	.venv-peers/bin/python -m tests.bench

# The benchmarks' own code; a study that evaluates on one builds its environment itself.
bench-bfcl bench-tau2: bench-%:
	$(PYTHON) -m $(BUILD) .venv-$* requirements/bench-$*.txt

chaos: env
	.venv/bin/python -m tests.chaos

# What takes too long for every change: the real stack disturbed in every way, 10,000 spoilt inputs.
acceptance: chaos
	SLCA_ACCEPTANCE=1 SLCA_FUZZ=10000 .venv/bin/python -m pytest tests/chaos tests/curation/test_fuzz.py

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

env: .venv/.complete

.venv/.complete: $(LOCK) requirements/install.sh pyproject.toml
	PYTHON=$(PYTHON) TORCH_INDEX=$(TORCH_INDEX) bash requirements/install.sh $(LOCK)

clean:
	rm -rf .venv .venv-peers .venv-bfcl .venv-tau2 .slca .slca-chaos
