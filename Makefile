# Two commands: `make reproduce` (the whole study) and `make test`. Both build .venv first; when it is up to date that does nothing.
#
#   make reproduce STUDY=configs/studies/other.yaml   another study
#   make ui                                           MLflow on the runs of STUDY
#   TORCH_INDEX=https://download.pytorch.org/whl/cpu make env   where the default index has no CPU build of torch

STUDY  ?= configs/studies/smoke.yaml
PYTHON ?= python3.11
SLCA   := .venv/bin/slca
LOCK   := requirements/cpu.txt

.PHONY: reproduce test ui env lint clean
.DEFAULT_GOAL := reproduce

reproduce: env
	$(SLCA) run $(STUDY)

test: env
	.venv/bin/python -m pytest

ui: env
	$(SLCA) ui $(STUDY)

lint: env
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .

env: .venv/.complete

.venv/.complete: $(LOCK) requirements/install.sh pyproject.toml
	PYTHON=$(PYTHON) TORCH_INDEX=$(TORCH_INDEX) bash requirements/install.sh $(LOCK)

clean:
	rm -rf .venv .slca
