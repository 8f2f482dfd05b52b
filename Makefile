# The two commands: `make run` and `make test`. Every target is one line that can also be typed by hand.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON      ?= python3
PROFILE     ?= smoke
STUDY       ?= containers
ENV         := .venv
BIN         := $(ENV)/bin
UV_VERSION  := 0.13.8

.PHONY: help run test notebook env lock lint system figures clean distclean lab-down
.DEFAULT_GOAL := help

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env: $(ENV)/.made  ## Make the locked Python environment in .venv

$(ENV)/.made: lib/requirements.lock lib/pyproject.toml scripts/make-env
	@PYTHON=$(PYTHON) UV_VERSION=$(UV_VERSION) scripts/make-env $(ENV)

lock: env  ## Resolve lib/pyproject.toml into lib/requirements.lock again
	$(ENV)/tools/bin/uv pip compile lib/pyproject.toml --extra dev --generate-hashes --no-emit-index-url --no-header --python-version 3.11 -o lib/requirements.lock -q --upgrade

lint: env  ## Check style of the library and the notebooks
	$(BIN)/ruff check lib notebooks
