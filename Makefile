# The daily commands. Every target sets up what it needs first; `make` alone lists them.
STAGE ?= dev
TARGET ?= local
KEEP ?=
SLOW ?=
DEPLOY ?=
DESTROY ?=
FORCE ?=

PYTHON_BIN := .venv/bin
CDK := node_modules/.bin/cdk

.DEFAULT_GOAL := help
.PHONY: help setup demo test soak lint format synth review snapshots doctor deploy pause resume destroy integration lock clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  STAGE=dev chooses the stage; demo takes KEEP=1; deploy and resume take FORCE=1"
	@echo "  integration takes TARGET=local|aws SLOW=1 DEPLOY=1 DESTROY=1 KEEP=1"

setup: ## Make .venv and node_modules ready
	@scripts/setup

demo: setup ## Deploy both voices to the local cloud, stream real speech, take it all down
	@$(PYTHON_BIN)/python -m voice_local.demo --stage $(STAGE) $(if $(KEEP),--keep)

test: setup ## Style, types and every test, the end-to-end ones included
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/ruff format --check .
	@mkdir -p build
	@# Much of the tests' time is waiting for real time: three at once, and the type checker, keep two cores busy.
	@$(PYTHON_BIN)/mypy >build/mypy.log 2>&1 & types=$$!; \
	$(PYTHON_BIN)/pytest -q -n 3 --dist loadfile; tests=$$?; \
	wait $$types; types=$$?; echo "mypy: $$(tail -n 1 build/mypy.log)"; \
	[ $$types = 0 ] || cat build/mypy.log; \
	[ $$tests = 0 ] && [ $$types = 0 ]

lint: setup ## Style and types
	$(PYTHON_BIN)/ruff check .
	$(PYTHON_BIN)/ruff format --check .
	$(PYTHON_BIN)/mypy

# What compares times, and what a browser plays, has the machine to itself.
ALONE := tests/soak/bench tests/soak/browser

soak: setup ## The long tests: many cycles, random cuts, simulated hours
	@scripts/setup-old-sdks
	@scripts/setup-browser
	$(PYTHON_BIN)/pytest -q -n 2 --dist loadfile tests/soak $(foreach folder,$(ALONE),--ignore $(folder))
	$(PYTHON_BIN)/pytest -q $(ALONE)

format: setup ## Put the code in the house's format
	$(PYTHON_BIN)/ruff check --fix .
	$(PYTHON_BIN)/ruff format .

synth: setup ## Write the CloudFormation templates to cdk.out/ (needs no credentials)
	$(CDK) synth --quiet --no-notices -c stage=$(STAGE)
	@ls -1 cdk.out/*.template.json

review: setup ## Print what a stage would create, may do and cost, and every finding of the scanners
	@$(PYTHON_BIN)/python -m voice_ops.review --stage $(STAGE)

snapshots: setup ## Renew the reviewed templates in tests/template/snapshots (say why in the commit)
	@$(PYTHON_BIN)/python -m voice_ops.snapshots --write

doctor: setup ## Tell what would stop a deploy: tools, account, quotas, images, models, price
	@$(PYTHON_BIN)/python -m voice_ops.doctor --stage $(STAGE)

DEPLOYMENT := $(PYTHON_BIN)/python -m voice_ops.deployment --stage $(STAGE)

deploy: setup ## Doctor, deploy to AWS with your credentials, prove it by a spoken sentence (costs money while it runs)
	@$(DEPLOYMENT) $(if $(FORCE),--force)

pause: setup ## Take the endpoints away, and with them all hourly costs; the rest stays
	@$(DEPLOYMENT) -c paused=true $(if $(FORCE),--force)

resume: setup ## Bring the endpoints back
	@$(DEPLOYMENT) -c paused=false $(if $(FORCE),--force)

destroy: setup ## Remove the stage from AWS and prove that nothing of it is left
	@$(DEPLOYMENT) --destroy

integration: setup ## Run the post-deploy suite against TARGET=local|aws
	$(PYTHON_BIN)/pytest -q tests/integration --target $(TARGET) --stage $(STAGE) $(if $(SLOW),--slow) $(if $(DEPLOY),--deploy) $(if $(DESTROY),--destroy) $(if $(KEEP),--keep)

UV_LOCK := $(PYTHON_BIN)/uv pip compile -q --universal --python-version 3.12 --generate-hashes --no-header

lock: setup ## Renew the hash-locked requirement sets after a change of pyproject.toml or requirements/*.in
	$(UV_LOCK) --extra cdk --extra local --extra engines-gpl --extra ui --extra bench --extra chat --group dev pyproject.toml -o requirements/dev.txt
	# The two are installed together, so they agree.
	$(UV_LOCK) -c requirements/dev.txt requirements/bootstrap.in -o requirements/bootstrap.txt
	for set in checkov sdk-0.4 sdk-0.9; do $(UV_LOCK) requirements/$$set.in -o requirements/$$set.txt || exit 1; done

clean: ## Remove what set-up, synthesis and runs made
	rm -rf .venv node_modules build cdk.out .pytest_cache .mypy_cache .ruff_cache
