# Two commands matter: `make demo` and `make test`. Both work in a fresh clone; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# Outside of the checkout, so that a second clone builds in seconds.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/shardmill
export CARGO_TARGET_DIR ?= $(CACHE)/target
PEERS ?= $(CACHE)/peers
DATA ?= $(CACHE)/data

VENV := .venv
BIN := $(VENV)/bin
NATIVE := python/shardmill/_native.abi3.so
RUST_SOURCES := $(shell find crates python/src -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml

.PHONY: help
help: ## List the commands
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):[^#]*## (.*)/  make \1\t\2/' | expand -t 22

.PHONY: demo
demo: build ## Make a small data set, curate it four ways, write a report to look at
	@$(BIN)/python examples/demo.py

.PHONY: test
test: lint test-rust test-python ## Everything that CI runs
	@echo "all tests passed"

.PHONY: prerequisites
prerequisites:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "shardmill needs Python 3.11 or newer as '$(PYTHON)'; name another one by: make PYTHON=python3.12 …" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null \
		|| { echo "$(PYTHON) lacks the modules venv and ensurepip; on Debian: apt-get install python3-venv" >&2; exit 1; }
	@command -v cargo >/dev/null \
		|| { echo "shardmill needs a Rust tool chain: no 'cargo' on the PATH; see https://rustup.rs" >&2; exit 1; }
	@rustc --version | awk '{ split($$2, v, "."); exit !(v[1] > 1 || v[2] >= 95) }' \
		|| { echo "shardmill needs Rust 1.95 or newer, found: $$(rustc --version); update by: rustup update" >&2; exit 1; }
	@command -v cc >/dev/null \
		|| { echo "shardmill needs a C compiler as 'cc' for its compression codecs; on Debian: apt-get install gcc" >&2; exit 1; }

# Several checkouts may share the build folder. Cargo tells their files apart by age alone, so the newcomer's are made new.
.PHONY: own-target
own-target: | prerequisites
	@mkdir -p $(CARGO_TARGET_DIR)
	@if [ "$$(cat $(CARGO_TARGET_DIR)/.checkout 2>/dev/null)" != "$(CURDIR)" ]; then \
		find crates python/src tests/rust -name '*.rs' -exec touch {} +; \
		echo "$(CURDIR)" > $(CARGO_TARGET_DIR)/.checkout; \
	fi

# One environment for everything; made anew when the pinned versions change.
$(VENV)/.ready: requirements-dev.txt | prerequisites
	@echo "making $(VENV) …" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.txt
	@touch $@

$(NATIVE): $(RUST_SOURCES) $(VENV)/.ready | own-target
	@echo "building the native module (minutes the first time) …" >&2
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --release --quiet >$(CARGO_TARGET_DIR)/build.log 2>&1 \
		|| { cat $(CARGO_TARGET_DIR)/build.log >&2; exit 1; }
	@touch $@

.PHONY: build
build: prerequisites own-target $(NATIVE) ## Build the native module into .venv

.PHONY: lint
lint: build ## Formats, lints and types
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos
	$(BIN)/pyright

.PHONY: test-rust
test-rust: own-target ## The Rust tests
	cargo test --quiet --workspace

.PHONY: test-python
test-python: build ## The Python tests
	$(BIN)/python -m pytest -m "not slow" --numprocesses auto --dist loadgroup

.PHONY: browser
browser: ## Install Chromium for the browser tests, where apt-get and the right to use it are there
	@tests/browser/install.sh

# Built beforehand, so that a build that breaks fails here and is not taken for a slow test.
.PHONY: s3-server
s3-server: prerequisites ## Build the servers and the fault proxy of tests/remote into the cache, where Go and Node.js are there
	@PYTHONPATH=tests $(PYTHON) -m remote.binary

.PHONY: test-slow
test-slow: build ## The long forms of the fault tests
	$(BIN)/python -m pytest -m slow

.PHONY: fuzz
fuzz: ## Fuzz each parser for EACH_S=300 seconds; needs nightly Rust and cargo-fuzz
	fuzz/run.sh $(or $(EACH_S),300)

.PHONY: fuzz-nightly
fuzz-nightly: ## Fuzz each parser for twenty minutes
	fuzz/run.sh 1200

.PHONY: peers
peers: prerequisites ## Build the environments of the tools that we measure against
	benchmarks/peers/build.sh $(PEERS)

.PHONY: bench-safety
bench-safety: build ## What page checksums and many small files of ids cost; the report goes to docs/benchmarks
	$(BIN)/python -m benchmarks.safety docs/benchmarks/safety.md

.PHONY: bench-interleaved
bench-interleaved: build ## The four paths beside NeMo Curator; the report goes to docs/benchmarks
	benchmarks/peers/build.sh $(PEERS) nemo_curator
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/interleaved_io.yaml --session-name interleaved_io --repeats 3
	$(BIN)/python -m benchmarks.report benchmark_results/interleaved_io/results.json docs/benchmarks/interleaved_io

.PHONY: bench-loader
bench-loader: build ## Tables into training batches, beside its peers; the report goes to docs/benchmarks
	benchmarks/peers/build.sh $(PEERS) loader
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/loader.yaml --session-name loader
	$(BIN)/python -m benchmarks.loader.report benchmark_results/loader/results.json docs/benchmarks/loader

# QUICK=1: few records and one round, in less than a minute, to see that everything runs; its figures mean nothing.
ifdef QUICK
bench-arrayrecord: export SHARDMILL_BENCH_RECORDS = 4096
bench-arrayrecord: export SHARDMILL_BENCH_CALLS = 2000
bench-arrayrecord: export SHARDMILL_BENCH_SLOW_CALLS = 500
ARRAYRECORD := arrayrecord_quick --repeats 1
ARRAYRECORD_REPORT := benchmark_results/arrayrecord_quick/report
else
ARRAYRECORD := arrayrecord --repeats 5
ARRAYRECORD_REPORT := docs/benchmarks/arrayrecord
endif

.PHONY: bench-arrayrecord
bench-arrayrecord: build ## ArrayRecord files, beside array_record; the report goes to docs/benchmarks; QUICK=1 only tries
	benchmarks/peers/build.sh $(PEERS) arrayrecord
	rm -rf benchmark_results/arrayrecord_quick
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/arrayrecord.yaml --session-name $(ARRAYRECORD)
	$(BIN)/python -m benchmarks.arrayrecord.report benchmark_results/$(firstword $(ARRAYRECORD))/results.json $(ARRAYRECORD_REPORT)

# QUICK=1: a hundredth of the ids with one share done, in about a minute, to see that everything runs.
ifdef QUICK
CHECKPOINT := checkpoint_quick --repeats 1 --entries 'hundredth and done_80'
CHECKPOINT_REPORT := benchmark_results/checkpoint_quick/report
else
CHECKPOINT := checkpoint --repeats 3
CHECKPOINT_REPORT := docs/benchmarks/checkpoint
endif

.PHONY: bench-checkpoint
bench-checkpoint: build ## Jobs that are partly done, beside Ray Data; the report goes to docs/benchmarks; QUICK=1 only tries
	rm -rf benchmark_results/checkpoint_quick
	SHARDMILL_BENCH_DATA=$(DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/checkpoint.yaml --session-name $(CHECKPOINT)
	$(BIN)/python -m benchmarks.checkpoint.report benchmark_results/$(firstword $(CHECKPOINT))/results.json $(CHECKPOINT_REPORT)

# QUICK=1: few rows and one round, in about a minute, to see that everything runs; its figures mean nothing.
ifdef QUICK
bench-streaming: export SHARDMILL_BENCH_ROWS = 2000
bench-streaming: export SHARDMILL_BENCH_PLAN = 100000
bench-streaming: export SHARDMILL_BENCH_IMAGES = 20000000
STREAMING := streaming_quick
STREAMING_DATA := $(DATA)/quick
STREAMING_REPEATS := 1
STREAMING_REPORT := benchmark_results/streaming_quick/report
else
STREAMING := streaming
STREAMING_DATA := $(DATA)
STREAMING_REPEATS := 5
STREAMING_REPORT := docs/benchmarks/streaming
endif

.PHONY: bench-streaming
bench-streaming: build ## The streaming report, beside MosaicML Streaming and, from the checkout CHINIDATASET, ChiniDataset; QUICK=1 only tries
	benchmarks/peers/build.sh $(PEERS) streaming
	rm -rf benchmark_results/streaming_quick
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(STREAMING_DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/streaming.yaml --session-name $(STREAMING) --repeats $(STREAMING_REPEATS) \
		--entries '$(if $(CHINIDATASET),imdb,not chinidataset)'
	$(BIN)/python -m benchmarks.streaming.report benchmark_results/$(STREAMING)/results.json $(STREAMING_REPORT)

# QUICK=1: small tables, one shard and few faults, in some minutes, to see that everything runs; its figures mean nothing.
ifdef QUICK
bench-remote: export SHARDMILL_BENCH_SHARE = 0.05
bench-remote: export SHARDMILL_BENCH_RUNS = 1
bench-remote: export SHARDMILL_BENCH_FAULTS = 50
bench-remote: export SHARDMILL_BENCH_SHARDS = 1
REMOTE := remote_quick
REMOTE_DATA := $(DATA)/quick
REMOTE_REPEATS := 1
REMOTE_REPORT := benchmark_results/remote_quick/report
else
REMOTE := remote
REMOTE_DATA := $(DATA)
REMOTE_REPEATS := 3
REMOTE_REPORT := docs/benchmarks/remote
endif

.PHONY: bench-remote
bench-remote: build s3-server ## A store that is far away, beside its peers; needs Go; the report goes to docs/benchmarks; QUICK=1 only tries
	benchmarks/peers/build.sh $(PEERS) remote streaming nemo_curator
	rm -rf benchmark_results/remote_quick
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(REMOTE_DATA) $(BIN)/python -m benchmarks.run \
		--config benchmarks/remote.yaml --session-name $(REMOTE) --repeats $(REMOTE_REPEATS)
	$(BIN)/python -m benchmarks.remote.report benchmark_results/$(REMOTE)/results.json $(REMOTE_REPORT)

.PHONY: clean
clean: ## Remove what was built in this checkout
	rm -rf $(VENV) $(NATIVE) demo_output benchmark_results
