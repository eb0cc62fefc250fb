# What a person types. Prerequisites: Python 3.11 to 3.13, Java 17 or 21, make; all the rest is set up here.
.DEFAULT_GOAL := help
.PHONY: help install check lint types imports words collect docs test test-slice test-all torture bench dist demo up doctor requirements audit-packages

BIN := .venv/bin
STAMP := .venv/installed
# two processes, each with a broker and a session of its own; a file stays in one of them
PARALLEL := -n 2 --dist loadfile --no-loadscope-reorder
FITS := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(STAMP) ## Virtual environment, pinned Python packages and jars; a second call is quick
	@$(BIN)/python -m lakehouse.local.jars registry

check: install ## Lint, format, types, import rules, words, the site, and that every test can be collected
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types lint imports words docs collect

lint:
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:
	$(BIN)/mypy
	cd lakehouse/examples/template && MYPYPATH=../../.. ../../../$(BIN)/mypy --config-file ../../../pyproject.toml --cache-dir ../../../.mypy_cache --explicit-package-bases .

imports:
	$(BIN)/lint-imports

words:
	$(BIN)/codespell

collect:
	$(BIN)/python -m pytest --collect-only --quiet --quiet

docs: $(STAMP) ## The site, in build/site; a broken link or a page that is left out is an error
	NO_MKDOCS_2_WARNING=true $(BIN)/mkdocs build --quiet --strict

test: install ## What a change breaks, in minutes; a part of it: make test ARGS="-k positions"
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow" lakehouse_tests/real lakehouse_tests/unit $(ARGS)

test-slice: install ## A few minutes of all other tests, chosen by the committed tree
	$(BIN)/python -m pytest -n 2 --dist loadgroup lakehouse_tests --slice tree $(ARGS)

test-all: install ## Every test, at full scale: hours
	$(BIN)/python -m pytest $(PARALLEL) --write-durations $(ARGS)

torture: install ## Attack every promise at full scale; the table goes into docs/reliability.md
	$(BIN)/python -m pytest $(PARALLEL) lakehouse_tests/full/faults --report docs/reliability.md $(ARGS)

bench: install ## How fast it is, as ratios: make bench ARGS="small --turns 7"; nothing else should be running
	$(BIN)/python -m benchmarks $(ARGS)

dist: $(STAMP) ## The wheel and the source distribution, in dist/
	$(BIN)/uv build --quiet --out-dir dist

demo: install ## The whole path once, from a Kafka topic to tables, with every record accounted for
	@$(BIN)/lakehouse demo temperatures

up: install ## Broker, warm Spark, Dagster webserver and daemon in the foreground; Ctrl-C stops them
	@exec $(BIN)/lakehouse up

doctor: install ## Each part of the set-up, its version and its state
	@$(BIN)/lakehouse doctor

requirements: $(STAMP) ## Choose the newest versions that pyproject.toml allows and pin them
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --upgrade --quiet \
		--no-emit-package pip --custom-compile-command "make requirements" --output-file requirements.txt

audit-packages: install ## Known vulnerabilities of the pinned Python packages; fails where it cannot ask
	@said=$$(mktemp); trap 'rm -f "$$said"' EXIT; \
	if $(BIN)/pip-audit --strict --disable-pip --no-deps --vulnerability-service osv --progress-spinner off \
		--requirement requirements.txt 2>"$$said"; then tail -n 1 "$$said"; \
	elif grep -qE 'ConnectionError|ConnectTimeout|ReadTimeout|HTTPError' "$$said"; then \
		echo "Not audited: the vulnerability service that pip-audit asks (OSV) cannot be reached from here." >&2; exit 1; \
	else cat "$$said" >&2; exit 1; fi

$(STAMP): requirements.txt pyproject.toml
	@set -e; \
	if ! $(BIN)/python -c '$(FITS)' 2>/dev/null; then \
		for python in $(PYTHON) python3 python3.13 python3.12 python3.11; do \
			if $$python -c '$(FITS)' 2>/dev/null; then break; fi; python=; \
		done; \
		if [ -z "$$python" ]; then \
			echo "Python 3.11, 3.12 or 3.13 is needed, and python3 is none of them: $$(python3 --version 2>&1)." \
				"Install one, or name it: make PYTHON=/path/to/python3.12 install" >&2; exit 1; \
		fi; \
		rm -rf .venv; \
		$$python -m venv .venv || { rm -rf .venv; \
			echo "$$python cannot make a virtual environment; on Debian: apt-get install python3-venv" >&2; exit 1; }; \
	fi
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $(STAMP)
