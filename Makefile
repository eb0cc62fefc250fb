# The commands of a developer. Prerequisites: Python 3.11 to 3.13, Java 17 or 21, make. The rest is installed here.
.DEFAULT_GOAL := help
.PHONY: help install check lint types imports rooms figures words collect docs test test-slice test-all torture store-test sink-test azurite compare-database bench dist demo up doctor screenshots requirements audit-packages

# tests start many processes, and each would compile all modules again
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
STAMP := .venv/installed
AZURITE := .venv/azurite
# two processes, each with its own broker and session; all tests of a file run in one process
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Create the virtual environment with pinned packages and jars; a second call is quick
	@$(BIN)/python -m lakehouse.local.jars registry

check: install ## Check lint, format, types, import rules, line budgets, figures, words and the site, and collect all tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types lint imports rooms figures words docs collect

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy
	cd lakehouse/examples/template && MYPYPATH=src:../../.. ../../../$(BIN)/mypy --config-file ../../../pyproject.toml --cache-dir ../../../.mypy_cache --explicit-package-bases .

imports:
	$(BIN)/lint-imports

rooms:
	$(BIN)/python -m pytest --quiet --quiet lakehouse_tests/unit/test_rooms.py

figures:
	$(BIN)/python -m pytest --quiet --quiet lakehouse_tests/unit/test_figures.py

words:
	$(BIN)/codespell

collect:
	$(BIN)/python -m pytest --collect-only --quiet --quiet

docs: $(STAMP) ## Build the site in build/site; a broken link or an omitted page is an error
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict

screenshots: install ## Take the pictures of Dagster in the README again; needs Chromium
	PYTHONPATH=. $(BIN)/python docs/screenshots.py

test: install ## Run the fast tests, in minutes; some of them: make test ARGS="-k positions"
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" lakehouse_tests/real lakehouse_tests/unit $(ARGS)

test-slice: install ## Run some of the other tests, in minutes; the committed tree selects them
	$(BIN)/python -m pytest -n 2 --dist loadgroup lakehouse_tests --slice tree $(ARGS)

test-all: install ## Run all tests at full scale, in hours
	$(BIN)/python -m pytest $(PARALLEL) --write-durations $(ARGS)

torture: install ## Run the fault tests at full scale; the results go into docs/explanation
	$(BIN)/python -m pytest $(PARALLEL) lakehouse_tests/full/faults --report docs/explanation $(ARGS)

store-test: install ## Attack tables in object stores, in minutes; prints what was killed and what came of it
	$(BIN)/python -m pytest lakehouse_tests/full/faults/test_stores.py $(ARGS)

azurite: install ## Install the server of Azure storage that tests use, 240 MB; without it, they are skipped
	@grep -qs '"version": "3.37.0"' $(AZURITE)/node_modules/azurite/package.json && test -d $(AZURITE)/node_modules/.bin || PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/npm install --prefix $(AZURITE) --no-save --no-package-lock --omit=optional --ignore-scripts --no-audit --no-fund --loglevel=error azurite@3.37.0

sink-test: install ## Attack sinks, and register tables in a metastore, in minutes; prints what was killed and what came of it
	$(BIN)/python -m pytest lakehouse_tests/full/faults/test_*sinks.py lakehouse_tests/full/integration/test_hive_metastore.py $(ARGS)

compare-database: install ## Compare tables with a PostgreSQL that Debezium follows, while everything is killed, in minutes
	$(BIN)/python -m pytest lakehouse_tests/full/integration/test_database*.py $(ARGS)

bench: install ## Run benchmarks, as ratios: make bench ARGS="small --turns 7"; run nothing else meanwhile
	$(BIN)/python -m benchmarks $(ARGS)

dist: $(STAMP) ## Build the wheel and the source distribution in dist/
	$(BIN)/uv build --quiet --out-dir dist

demo: install ## Run the whole path once, from a Kafka topic to tables, and account for every record
	@$(BIN)/lakehouse demo temperatures

up: install ## Run broker, warm Spark, Dagster webserver and daemon in the foreground; Ctrl-C stops them
	@exec $(BIN)/lakehouse up

doctor: install ## Show each part of the setup, its version and its state
	@$(BIN)/lakehouse doctor

requirements: $(STAMP) ## Pin the newest versions that pyproject.toml allows
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade --quiet \
		--no-emit-package pip --custom-compile-command "make requirements" --output-file requirements.txt

audit-packages: install ## List known vulnerabilities of the pinned packages; fails if the service is unreachable
	@errors=$$(mktemp); trap 'rm -f "$$errors"' EXIT; \
	if $(BIN)/pip-audit --strict --disable-pip --no-deps --vulnerability-service osv --progress-spinner off \
		--requirement requirements.txt 2>"$$errors"; then tail -n 1 "$$errors"; \
	elif grep -qE 'ConnectionError|ConnectTimeout|ReadTimeout|HTTPError' "$$errors"; then \
		echo "Not audited: the vulnerability service of pip-audit (OSV) cannot be reached from here." >&2; exit 1; \
	else cat "$$errors" >&2; exit 1; fi

$(STAMP): requirements.txt pyproject.toml
	@set -e; \
	if ! $(BIN)/python -c '$(SUPPORTED)' 2>/dev/null; then \
		for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
			if $$python -c '$(SUPPORTED)' 2>/dev/null; then break; fi; python=; \
		done; \
		if [ -z "$$python" ]; then \
			echo "Python 3.11, 3.12 or 3.13 is needed, but python3 is $$(python3 --version 2>&1)." \
				"Install one, or set its path: make PYTHON=/path/to/python3.12 install" >&2; exit 1; \
		fi; \
		rm -rf .venv; \
		$$python -m venv .venv || { rm -rf .venv; \
			echo "$$python cannot create a virtual environment; on Debian, run: apt-get install python3-venv" >&2; exit 1; }; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)
