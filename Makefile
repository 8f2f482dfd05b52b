# The two commands: `make run` and `make test`. Every target is one line that can also be typed by hand.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON      ?= python3
PROFILE     ?= smoke
# Every study, unless something is asked for that only one of them has.
STUDY       ?= containers $(if $(SYSTEMS)$(WORKLOADS)$(SESSION),,cnis runtimes storage)
ENV         := .venv
BIN         := $(ENV)/bin
UV_VERSION  := 0.13.8

.PHONY: help run test torture validate notebook env lock lint audit system figures paper published benchmark build clean distclean lab-down
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

audit: env  ## Hold the locked packages against known advisories, and say what could not be asked
	@$(BIN)/python scripts/audit

# What `make run` hands to a notebook: only what was given, through the environment, so that no shell reads it.
export STUDY PROFILE RUNS SYSTEMS WORKLOADS SEED SITE SESSION DEPLOYMENTS ORDER PRECISION MOST HOURS
given = $(if $($(2)),-p $(1) "$$$(2)")
ARGUMENTS = -p mode run -p profile "$$PROFILE" $(call given,runs,RUNS) $(call given,systems,SYSTEMS) \
  $(call given,workloads,WORKLOADS) $(call given,seed,SEED) $(call given,site,SITE) $(call given,session,SESSION) \
  $(call given,deployments,DEPLOYMENTS) $(call given,order,ORDER) $(call given,precision,PRECISION) $(call given,most,MOST) \
  $(call given,hours,HOURS)

system:
	@scripts/system-packages $(or $(NEEDS),$$STUDY)

run: env system  ## Run every study on real systems and write notebooks, figures, tables and report to out/ (STUDY= PROFILE= RUNS= SYSTEMS= WORKLOADS= SITE= SEED= SESSION= DEPLOYMENTS= ORDER= PRECISION= MOST= HOURS=)
	@status=0; for study in $$STUDY; do \
	  $(BIN)/infrabench notebook notebooks/$$study.ipynb out/$$study.ipynb $(ARGUMENTS) || { \
	    status=$$?; [ $$status = 3 ] && [ "$(words $(STUDY))" != 1 ] || break; status=0; }; \
	done; \
	$(BIN)/infrabench report || { failed=$$?; [ $$status != 0 ] || status=$$failed; }; \
	exit $$status

.PHONY: campaign
export FILE EXECUTOR
campaign: env  ## Run studies on several sites, or go on with it: FILE= names the campaign (EXECUTOR=slurm; DRY=1: only the plan)
	@[ -n "$$FILE" ] || { echo "Name the campaign: make campaign FILE=campaign.yml (docs/campaigns.md)" >&2; exit 2; }
	@$(BIN)/infrabench campaign "$$FILE" $(if $(EXECUTOR),--executor "$$EXECUTOR") $(if $(DRY),--dry-run)

test: NEEDS := all browser pdf
test: env system  ## Run the whole test suite: units, notebooks, a real browser, and the real lab where there can be one
	@$(if $(TESTS),$(BIN)/pytest lib/tests $(TESTS),\
	  $(BIN)/pytest lib/tests -m "not lab and not browser" -n logical --dist worksteal && \
	  $(BIN)/pytest lib/tests -m "lab or browser")

torture: env  ## A storm of faults, long form: kills, full disks, lost hosts, damaged output and ledgers, hostile values (a quarter of an hour on two cores)
	@INFRABENCH_TORTURE=long $(BIN)/pytest lib/tests/torture -q -n logical --dist worksteal --timeout 3500 $(TESTS)

validate: env  ## Simulate campaigns of known truth, 10 000 and more a check, and check the statistics (minutes)
	@$(BIN)/infrabench validate --full

notebook: env system  ## Open JupyterLab on its first page: studies, what this machine can run, sessions
	@$(BIN)/infrabench jupyter

figures: env  ## Make the figures and tables of the recorded sessions and of the published numbers again
	@for study in containers cnis runtimes storage; do \
	  [ ! -d data/recorded/$$study ] || $(BIN)/infrabench notebook notebooks/$$study.ipynb out/$$study-recorded.ipynb -p out .; \
	done
	@$(BIN)/infrabench notebook notebooks/validation.ipynb out/validation-recorded.ipynb -p out . -p simulations none
	@$(BIN)/infrabench notebook notebooks/published.ipynb out/published-recorded.ipynb -p out .
	@$(BIN)/infrabench notebook notebooks/sites.ipynb out/sites-recorded.ipynb -p out .

paper: NEEDS := paper
paper: env system  ## Write numbers and tables of the recorded sessions for LaTeX, and typeset the example paper (out/paper/example.pdf)
	@$(BIN)/infrabench paper $(wildcard $(patsubst %,data/recorded/%/*,containers cnis runtimes storage))
	@scripts/typeset paper/example.tex out/paper

published: env  ## Recompute the papers' numbers: the audit and the composite score, as a notebook and a report
	@$(BIN)/infrabench notebook notebooks/published.ipynb out/published.ipynb
	@$(BIN)/infrabench report

.PHONY: claims kick archive
claims: env  ## Check every claim of the recorded sessions: re-analysis, and what sessions measured here say (MEASURE=smoke: measure first)
	@$(BIN)/infrabench claims $(if $(MEASURE),--measure $(MEASURE))

kick:  ## Kick the tyres in under half an hour: environment, recorded claims, a smoke session, its claims (STUDY= PROFILE= SITE=)
	@STUDY=$(firstword $(STUDY)) PROFILE=$(PROFILE) SITE=$(or $(SITE),auto) PYTHON=$(PYTHON) scripts/kick

ARCHIVE ?= out/infrabench.tar.xz
archive: env  ## Write one archive of this commit: raw data, source, results, metadata, checksums, licences (ARCHIVE=)
	@$(BIN)/infrabench archive $(ARCHIVE)

benchmark: env system  ## Measure what the harness itself costs, here and on the lab
	@$(BIN)/infrabench benchmark --site local
	@$(BIN)/infrabench benchmark --site lab

build: NEEDS := all
build: env system  ## Make the lab's images and Kubernetes' programs ahead of time (a third of an hour on two cores, once)
	@$(BIN)/infrabench lab build

lab-down: env  ## Take the embedded lab down
	@$(BIN)/infrabench lab down

clean: lab-down  ## Remove reports, the lab's cached images and Kubernetes' programs; recorded sessions and runs stay
	@$(BIN)/infrabench lab purge
	rm -rf out

distclean:  ## Remove the environment too
	rm -rf out .venv
