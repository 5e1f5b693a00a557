# Everything fencepost can do from a clone. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-spark-oldest
TIERS := $(BIN)/python -m tools.tiers

.DEFAULT_GOAL := help

help: ## list these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk 'BEGIN {FS = ":.*## "} {printf "  make %-18s %s\n", $$1, $$2}'

$(VENV)/dev: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(f"fencepost needs Python 3.11 or newer, got {sys.version.split()[0]}; set PYTHON=...") if sys.version_info < (3, 11) else 0'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BIN)/python -m tools.java
	@touch $@

$(VENV)/warm: $(VENV)/dev src/fencepost/compiled.py $(shell find src/fencepost/indexes -name '*.py')
	@$(BIN)/fencepost warm
	@touch $@

$(VENV)/bench: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,bench]'
	@touch $@

$(VENV)/docs: $(VENV)/dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev,docs]'
	@touch $@

$(OLDEST)/ready: pyproject.toml
	@test -x $(OLDEST)/bin/python || $(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check -e '.[spark,remote]' 'pyspark==4.0.*' hypothesis pytest pytest-timeout
	@$(OLDEST)/bin/python -m tools.java
	@touch $@

setup: $(VENV)/warm ## create .venv, install fencepost with its tools, compile (the others do this themselves)

check: $(VENV)/dev ## lint, format, types, direction of imports, private names
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tools.private_names

format: $(VENV)/dev ## format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test: $(VENV)/warm ## the tests of every commit, in minutes: all that start no process of their own
	$(TIERS) quick

test-all: $(VENV)/warm $(OLDEST)/ready connectors ## every test: also real shells, kills, examples, the demo, the oldest Spark, servers
	$(TIERS) all

ci: $(VENV)/warm $(VENV)/docs $(OLDEST)/ready connectors ## what .ci/run runs: check, docs and test-all beside each other
	$(TIERS) ci

test-spark-oldest: $(VENV)/warm $(OLDEST)/ready ## the operators on the oldest Spark that fencepost supports
	$(TIERS) oldest

test-system: $(VENV)/warm $(OLDEST)/ready connectors ## tests that need servers, such as PostgreSQL (tools/system-packages installs them)
	$(TIERS) system

connectors: $(VENV)/dev
	-@$(BIN)/fencepost connector > /dev/null
	-@$(BIN)/fencepost connector avro > /dev/null

soak: $(VENV)/warm ## a long run with kills, changing rules and a slow sink (SOAK="--triggers 200" for a shorter one)
	$(BIN)/python -m tests.spark.soak $(SOAK)

campaign: $(VENV)/warm ## every promise tried with fresh seeds, for two hours (CAMPAIGN="--minutes 3" for the short form)
	$(BIN)/python -m tests.campaign $(CAMPAIGN)

bench: $(VENV)/bench $(VENV)/warm ## peers side by side, as ratios (BENCH="--full" for the large sizes, "--write" for docs and, quick, README)
	$(BIN)/python -m benchmarks $(BENCH)

bench-spark: $(VENV)/warm ## match on Spark against a plan that does nothing and the joins one would write instead; constants of fencepost size (BENCH="--write" keeps them)
	$(BIN)/python -m benchmarks.spark $(filter-out --write,$(BENCH))
	$(BIN)/python -m benchmarks.spark_kafka $(filter-out --write,$(BENCH))
	$(BIN)/python -m benchmarks.spark_shards $(filter-out --write,$(BENCH))
	$(BIN)/python -m benchmarks.deliveries $(filter-out --write,$(BENCH))
	$(BIN)/python -m benchmarks.sizing $(BENCH)

kafka: $(VENV)/dev ## start a Kafka broker on 127.0.0.1:9092, and get Spark's connector to it
	$(BIN)/python -m tools.kafka start

kafka-stop: $(VENV)/dev ## end that broker
	$(BIN)/python -m tools.kafka stop

figures: $(VENV)/warm ## every figure of the papers, ours beside them, at a quick size
	$(BIN)/fencepost reproduce --out docs/figures --table docs/reproduction.md $(FIGURES)

figures-full: $(VENV)/warm ## the same at the papers' own sizes, for an hour and more
	$(BIN)/fencepost reproduce --full --out docs/figures/full --table docs/reproduction-full.md

docs: $(VENV)/docs ## the documentation as a site: open site/index.html (a broken link is an error)
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going docs site

wheel: $(VENV)/dev ## a wheel to install elsewhere, in dist/, with machine code
	$(BIN)/python -m tools.wheel

demo: $(VENV)/warm ## a market and a city under a million rules, live on local Spark (DEMO="--once" ends by itself)
	@$(BIN)/fencepost demo $(DEMO)

clean: ## remove the virtual environment and everything generated
	rm -rf $(VENV) $(OLDEST) dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.PHONY: help setup ci check connectors format test test-all test-spark-oldest test-system wheel soak campaign bench bench-spark figures figures-full docs kafka kafka-stop demo clean
