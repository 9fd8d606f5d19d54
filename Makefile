# Two commands matter: `make demo` and `make test`. Both work in a fresh clone; `make help` lists the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
# Outside of the checkout, so that a second clone builds in seconds.
CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/shardmill
export CARGO_TARGET_DIR ?= $(CACHE)/target
PEERS ?= $(CACHE)/peers
TOOLS ?= $(CACHE)/tools
DATA ?= $(CACHE)/data

# libjpeg-turbo is built by CMake, which PyPI has where the system has none.
CMAKE ?= $(or $(shell command -v cmake),$(TOOLS)/cmake/bin/cmake)
export CMAKE

# `release` is for wheels and benchmarks. `fast` is without link-time optimization, and the module and the Rust tests share its dependencies.
PROFILE ?= fast

# One more than there are CPUs: many tests wait for a process, a server or a cluster.
TEST_PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

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
test: lint test-rust test-python ## Lints, types and tests, in minutes; CI adds a browser, an S3 server and checks of crates and workflows
	@echo "all tests passed"

# Whole products of options, long faults, Ray clusters, servers of stores, trainings and notebooks.
.PHONY: test-all
test-all: export SHARDMILL_TESTS = all
test-all: lint stubs s3-server test-rust ## Every test, with other versions of Python where they are installed: an hour and more
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadgroup
	@for python in $(OTHER_PYTHONS); do $(MAKE) --no-print-directory test-with PYTHON=$$python SHARDMILL_TESTS=; done
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
		|| { echo "shardmill needs a C compiler as 'cc' for its codecs; on Debian: apt-get install gcc" >&2; exit 1; }

# Several checkouts may share the build directory. Cargo tells their files apart by age alone, so the newcomer's are made new.
.PHONY: own-target
own-target: | prerequisites $(CMAKE)
	@mkdir -p $(CARGO_TARGET_DIR)
	@if [ "$$(cat $(CARGO_TARGET_DIR)/.checkout 2>/dev/null)" != "$(CURDIR)" ]; then \
		find crates python/src tests/rust -name '*.rs' -exec touch {} +; \
		echo "$(CURDIR)" > $(CARGO_TARGET_DIR)/.checkout; \
	fi

$(TOOLS)/cmake/bin/cmake: | prerequisites
	@$(PYTHON) -m venv $(TOOLS)/cmake
	@$(TOOLS)/cmake/bin/python -m pip install --quiet --disable-pip-version-check cmake==4.4.4

# It installs gigabytes in a quarter of the time of pip.
UV := $(TOOLS)/uv/bin/uv
export UV_HTTP_TIMEOUT ?= 180
$(UV): | prerequisites
	@$(PYTHON) -m venv $(TOOLS)/uv
	@$(TOOLS)/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9

# What builds and runs the demo comes first; what the tests need is added to the same environment.
$(VENV)/.demo: requirements-demo.txt | $(UV)
	@echo "making $(VENV) …" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(UV) pip install --quiet --python $(BIN)/python -r requirements-demo.txt
	@touch $@

$(VENV)/.ready: requirements-dev.txt requirements-docs.txt $(VENV)/.demo
	@echo "installing what the tests need into $(VENV): gigabytes, minutes the first time …" >&2
	@cargo fetch --quiet --locked
	@$(UV) pip install --quiet --python $(BIN)/python -r requirements-dev.txt
	@touch $@

# The profile of the last build, newer than the module if another one is wanted.
PROFILE_MARK := $(VENV)/.profile
ifneq ($(shell cat $(PROFILE_MARK) 2>/dev/null),$(PROFILE))
.PHONY: $(PROFILE_MARK)
endif
$(PROFILE_MARK): | $(VENV)/.demo
	@echo $(PROFILE) >$@

$(NATIVE): $(RUST_SOURCES) $(VENV)/.demo $(PROFILE_MARK) | own-target
	@echo "building the native module (minutes the first time) …" >&2
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/maturin develop --profile $(PROFILE)
	@touch $@

.PHONY: build
build: prerequisites own-target $(NATIVE) ## Build the native module into .venv
	@# As pip does. Without it, each process compiles the modules again where PYTHONDONTWRITEBYTECODE is set.
	@$(BIN)/python -m compileall -q python/shardmill
	@$(BIN)/python -m shardmill --version -v | grep -q scalar \
		&& echo "this build decodes JPEG at half the speed, because it has no SIMD code; to build it: make assembler build" >&2 || true

.PHONY: build-release
build-release: ## Build the native module as in wheels, for measurements
	@$(MAKE) --no-print-directory build PROFILE=release

.PHONY: lint
lint: build $(VENV)/.ready ## Formats, lints and types
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets --profile $(PROFILE) -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/typos
	$(BIN)/pyright

.PHONY: stubs
stubs: build $(VENV)/.ready ## Compare the stubs of the native module with the module
	MYPYPATH=python PYTHONPATH=python $(BIN)/python -m mypy.stubtest shardmill._native

.PHONY: deny
deny: prerequisites ## Licences, banned and unused crates; builds cargo-deny and cargo-machete into the cache once
	@# With a target directory of their own, they do not wait for a build of the library.
	@test -x $(TOOLS)/bin/cargo-deny || CARGO_TARGET_DIR=$(TOOLS)/target cargo install --quiet --locked cargo-deny --version 0.20.2 --root $(TOOLS)
	@test -x $(TOOLS)/bin/cargo-machete || CARGO_TARGET_DIR=$(TOOLS)/target cargo install --quiet --locked cargo-machete --version 0.9.2 --root $(TOOLS)
	@rm -rf $(TOOLS)/target
	$(TOOLS)/bin/cargo-deny --log-level error check licenses bans sources
	$(TOOLS)/bin/cargo-machete --with-metadata

.PHONY: advisories
advisories: deny ## Known vulnerabilities of the crates; asks the network
	$(TOOLS)/bin/cargo-deny check advisories

# The tables and help texts come from the native module: of this checkout, or else of a wheel.
DOCS := build/docs-env
WHEEL := $(lastword $(sort $(wildcard build/wheels/*.whl)))
$(DOCS)/.ready: requirements-docs.txt
	@$(PYTHON) -m venv $(DOCS)
	@$(DOCS)/bin/pip install --quiet --disable-pip-version-check -r requirements-docs.txt
	@touch $@

.PHONY: docs
docs: $(if $(wildcard $(NATIVE) $(WHEEL)),,build) $(DOCS)/.ready ## Build the documentation into build/site; a link that leads nowhere fails
	@test -e $(NATIVE) || $(DOCS)/bin/pip install --quiet --no-deps --force-reinstall $(WHEEL)
	PYTHONPATH=$$(test -e $(NATIVE) && echo python) $(DOCS)/bin/mkdocs build --strict

$(TOOLS)/wheels/.ready: requirements-wheels.txt | prerequisites $(CMAKE)
	@$(PYTHON) -m venv $(TOOLS)/wheels
	@$(TOOLS)/wheels/bin/python -m pip install --quiet --disable-pip-version-check -r requirements-wheels.txt
	@touch $@

.PHONY: assembler
assembler: ## Install nasm on Debian, which assembles the SIMD code of libjpeg-turbo for x86-64
	@[ "$$(uname -sm)" != "Linux x86_64" ] || command -v nasm >/dev/null || { \
		$$([ "$$(id -u)" = 0 ] || echo sudo) apt-get install --yes nasm \
		&& cargo clean --quiet --package turbojpeg-sys --profile $(PROFILE) && rm -f $(NATIVE); }

.PHONY: wheels
wheels: $(TOOLS)/wheels/.ready ## Build the wheel and the sdist of HEAD into build/wheels, and check them; TARGET=aarch64-unknown-linux-gnu for another processor
	@PATH=$(TOOLS)/wheels/bin:$$PATH $(TOOLS)/wheels/bin/python packaging/build.py $(if $(TARGET),--target $(TARGET))
	@PATH=$(TOOLS)/wheels/bin:$$PATH $(TOOLS)/wheels/bin/python packaging/check.py

.PHONY: test-wheels
test-wheels: ## Install the wheel of build/wheels into an empty environment and use it; TORCH=1 also with torch
	@$(PYTHON) packaging/trial.py $(if $(TORCH),--torch)

.PHONY: workflows
workflows: ## Check the workflows in .github; needs Go
	go run github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: urls
urls: ## Fill in the owner of the repository: make urls OWNER=name
	@test -n "$(OWNER)" || { echo "which owner? make urls OWNER=name" >&2; exit 1; }
	sed -i 's,github\.com/OWNER/,github.com/$(OWNER)/,; s,//OWNER\.github\.io,//$(OWNER).github.io,' README.md pyproject.toml

.PHONY: api
api: build $(VENV)/.ready ## Rewrite the list of the public API after a reviewed change
	$(BIN)/python tests/python/public_api.py

.PHONY: test-rust
test-rust: own-target ## The Rust tests
	cargo test --quiet --workspace --profile $(PROFILE)

.PHONY: test-aarch64
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER := aarch64-linux-gnu-gcc
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER := qemu-aarch64-static -L /usr/aarch64-linux-gnu
test-aarch64: own-target ## The Rust tests of images and tokens on an emulated aarch64; on Debian: apt-get install g++-aarch64-linux-gnu qemu-user-static
	rustup target add aarch64-unknown-linux-gnu
	cargo test --quiet --profile $(PROFILE) --target aarch64-unknown-linux-gnu --package shardmill-images --package shardmill-pixels --package shardmill-tokens

.PHONY: test-python
test-python: build $(VENV)/.ready ## The Python tests
	env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -m "not slow" --numprocesses $(TEST_PROCESSES) --dist loadgroup

# $(call versions,RESOLUTION,NAME): a short selection of the tests with versions of the dependencies that uv finds for `pyproject.toml`.
# `clip` would raise the version of torch. The tests' own packages have the versions of `requirements-dev.txt`.
VERSIONED_TESTS := $(addprefix tests/python/test_,$(addsuffix .py,option_values extras cli_shell columns images image_memory pixel_filters \
	write_rows torch report_page view_pages prometheus iceberg ray_executor))
define versions
	$(UV) venv --quiet --clear --python $(BIN)/python $(TOOLS)/$(2)
	$(UV) pip install --quiet --python $(TOOLS)/$(2)/bin/python --resolution $(1) -r pyproject.toml \
		$$($(BIN)/python packaging/extras.py --without clip) \
		$$(grep -oE '^(pytest|pytest-xdist|hypothesis|polars)==[^ ]+' requirements-dev.txt) 'sqlalchemy>=2.0.18'
	PYTHONPATH=$(CURDIR)/python $(TOOLS)/$(2)/bin/python -m pytest -m "not slow" $(VERSIONED_TESTS)
endef

.PHONY: test-lowest
test-lowest: build $(UV) ## A short selection of the tests with the lowest versions that pyproject.toml allows
	$(call versions,lowest-direct,lowest)

.PHONY: test-newest
test-newest: build $(UV) ## The same with the newest versions
	$(call versions,highest,newest)

.PHONY: browser
browser: ## Install Chromium for the browser tests, where apt-get and the right to use it are there
	@tests/browser/install.sh

.PHONY: screenshots
screenshots: demo browser $(VENV)/.ready ## Take the pictures of the home page and of the guides again; needs Chromium
	$(BIN)/python docs/site/screenshots.py
	SHARDMILL_SCREENSHOTS=$(CURDIR)/docs/images $(BIN)/python -m pytest tests/browser

# Built beforehand, so that a build that breaks fails here and is not taken for a slow test.
.PHONY: s3-server
s3-server: prerequisites ## Build the servers and the fault proxy of tests/remote into the cache, where Go and Node.js are there
	@PYTHONPATH=tests $(PYTHON) -m remote.binary

# `make test` in other versions of Python: the module is the same for all of them.
OTHER_PYTHONS ?= $(shell for minor in 12 13 14; do $(PYTHON) -c "import sys; sys.exit(sys.version_info[1] == $$minor)" \
	&& python3.$$minor -c '' 2>/dev/null && echo python3.$$minor; done)
.PHONY: test-with
test-with: build $(UV) ## The Python tests with another version: make test-with PYTHON=python3.13
	@$(PYTHON) -m venv $(CACHE)/environments/$(notdir $(PYTHON))
	@$(UV) pip install --quiet --python $(CACHE)/environments/$(notdir $(PYTHON))/bin/python -r requirements-dev.txt
	PYTHONPATH=$(CURDIR)/python $(CACHE)/environments/$(notdir $(PYTHON))/bin/python -m pytest -m "not slow" --numprocesses $(TEST_PROCESSES) --dist loadgroup

# torchtitan requires datasets below 4.8, and Megatron Python 3.12.
TRAINERS := torchtitan==0.3.0 megatron-core==0.19.2 torch==2.15.0 numpy==2.3.5 click==8.5.1
TRAINERS_PYTHON ?= 3.12
.PHONY: trainers
trainers: | $(UV) ## Build the environment of torchtitan and Megatron, whose tests are skipped without it
	$(UV) venv --quiet --clear --python $(TRAINERS_PYTHON) $(CACHE)/environments/trainers
	$(UV) pip install --quiet --python $(CACHE)/environments/trainers/bin/python $(TRAINERS)

.PHONY: fuzz
fuzz: ## Fuzz each parser for EACH_S=300 seconds; needs nightly Rust and cargo-fuzz
	fuzz/run.sh $(or $(EACH_S),300)

.PHONY: fuzz-tools
fuzz-tools: ## Install what fuzzing needs: nightly Rust and cargo-fuzz
	rustup toolchain install nightly --profile minimal
	cargo install --locked cargo-fuzz --version 0.13.2

.PHONY: fuzz-nightly
fuzz-nightly: ## Fuzz each parser for twenty minutes
	fuzz/run.sh 1200

.PHONY: peers
peers: prerequisites ## Build the environments of the tools that we measure against
	benchmarks/peers/build.sh $(PEERS)

# $(call bench,FILE,PEERS,ENTRIES): environments of the peers, a session of benchmarks/FILE.yaml, its page in docs.
# A session is named after the commit; one that was interrupted continues. ROUNDS=n overrides the number of rounds.
# ENTRIES='pattern' measures these entries again and leaves the others of the page as they are.
# QUICK=1 is a short trial: little data and one round, to see that everything runs; the page goes to benchmark_results.
SESSION = $(1)_$(shell git rev-parse --short HEAD)$(if $(QUICK),_quick)
define bench
	$(if $(2),benchmarks/peers/build.sh $(PEERS) $(2))
	SHARDMILL_PEERS=$(PEERS) SHARDMILL_BENCH_DATA=$(DATA)$(if $(QUICK),/quick) $(BIN)/python -m benchmarks.run \
		benchmarks/$(1).yaml --session $(SESSION) $(if $(ENTRIES),--replace --entries '$(ENTRIES)',--resume $(if $(3),--entries '$(3)')) \
		$(if $(or $(ROUNDS),$(QUICK)),--rounds $(or $(ROUNDS),1))
	$(BIN)/python -m benchmarks.report benchmarks/$(1).yaml benchmark_results/$(SESSION)/results.json \
		$(if $(QUICK),benchmark_results/$(SESSION)/page,docs/benchmarks/$(1))
endef

SUITES := interleaved loader arrayrecord checkpoint streaming remote tokens images

.PHONY: bench
bench: build-release $(VENV)/.ready ## All suites on this commit, their pages, the chart of ratios and the goals; continues where it was interrupted
	@lost=; for suite in $(SUITES); do $(MAKE) --no-print-directory bench-$$suite || lost="$$lost $$suite"; done; \
		test -z "$$lost" || { echo "these suites have entries that failed:$$lost; run the same command again to repeat those entries" >&2; exit 1; }
	$(if $(QUICK),,$(BIN)/python -m benchmarks.overview && $(BIN)/python -m benchmarks.goals)

ifdef QUICK
bench-safety: export SHARDMILL_BENCH_ROWS = 20000
bench-safety: export SHARDMILL_BENCH_FILES = 200
bench-balance: export SHARDMILL_BENCH_TEXT = 2
bench-balance: export SHARDMILL_BENCH_DOCUMENTS = 100000
bench-balance: export SHARDMILL_BENCH_WINDOWS = 1
bench-interleaved: export SHARDMILL_BENCH_SHARDS = 1
bench-loader: export SHARDMILL_BENCH_SHARE = 0.05
bench-arrayrecord: export SHARDMILL_BENCH_RECORDS = 4096
bench-arrayrecord: export SHARDMILL_BENCH_CALLS = 2000
bench-arrayrecord: export SHARDMILL_BENCH_SLOW_CALLS = 500
bench-tokens: export SHARDMILL_BENCH_TEXT = 2
bench-tokens: export SHARDMILL_BENCH_REPEATED = 0.004
bench-tokens: export SHARDMILL_BENCH_LARGE = 0.02
bench-tokens: export SHARDMILL_BENCH_LONG = 2
bench-images bench-sequences: export SHARDMILL_BENCH_IMAGES = 100
bench-sequences: export SHARDMILL_BENCH_PLANNED = 2000
bench-streaming: export SHARDMILL_BENCH_ROWS = 2000
bench-streaming: export SHARDMILL_BENCH_SLOW = 1000
bench-streaming: export SHARDMILL_BENCH_PLAN = 100000
bench-streaming: export SHARDMILL_BENCH_IMAGES = 20000000
bench-remote: export SHARDMILL_BENCH_SHARE = 0.05
bench-remote: export SHARDMILL_BENCH_RUNS = 1
bench-remote: export SHARDMILL_BENCH_FAULTS = 50
bench-remote: export SHARDMILL_BENCH_SHARDS = 1
endif

.PHONY: bench-gate
bench-gate: build-release $(VENV)/.ready ## Three ratios in a minute; fails if a change has lost one
	@$(BIN)/python -m benchmarks.gate

.PHONY: bench-safety
bench-safety: build-release $(VENV)/.ready ## What page checksums and many small files of ids cost; QUICK=1 is a short trial
	$(call bench,safety)

.PHONY: bench-balance
bench-balance: build-release $(VENV)/.ready ## What a balance of packs is worth, and what it costs; needs apt; QUICK=1 is a short trial
	$(call bench,balance,balance)

.PHONY: bench-interleaved
bench-interleaved: build-release $(VENV)/.ready ## The four paths compared with NeMo Curator; QUICK=1 is a short trial
	$(call bench,interleaved_io,nemo_curator)

.PHONY: bench-loader
bench-loader: build-release $(VENV)/.ready ## Tables into training batches, compared with its peers; QUICK=1 is a short trial
	$(call bench,loader,loader)

.PHONY: bench-arrayrecord
bench-arrayrecord: build-release $(VENV)/.ready ## ArrayRecord files, compared with array_record; QUICK=1 is a short trial
	$(call bench,arrayrecord,arrayrecord)

.PHONY: bench-checkpoint
bench-checkpoint: build-release $(VENV)/.ready ## Jobs that are partly done, compared with Ray Data; QUICK=1 is a short trial
	$(call bench,checkpoint,,$(if $(QUICK),hundredth__done_80))

.PHONY: bench-streaming
bench-streaming: build-release $(VENV)/.ready ## The streaming report, compared with MosaicML Streaming and, from the checkout CHINIDATASET, ChiniDataset; QUICK=1 is a short trial
	$(call bench,streaming,streaming loader,$(if $(CHINIDATASET),,(?<!chinidataset)$$))

.PHONY: bench-tokens
bench-tokens: build-release $(VENV)/.ready ## Text to tokens, compared with tokenizers, tiktoken, datatrove; needs apt; QUICK=1 is a short trial
	$(call bench,tokens,tokens)

.PHONY: bench-images
bench-images: build-release $(VENV)/.ready ## Images to pixels, compared with PIL, torchvision, OpenCV, SPDL; needs apt; QUICK=1 is a short trial
	$(call bench,images,images)

.PHONY: bench-sequences
bench-sequences: build-release $(VENV)/.ready ## Packs of a multimodal model, compared with Energon and a DataLoader; needs apt; QUICK=1 is a short trial
	$(call bench,sequences,energon)

.PHONY: bench-remote
bench-remote: build-release $(VENV)/.ready s3-server ## A store that is far away, compared with its peers; needs Go; QUICK=1 is a short trial
	$(call bench,remote,remote streaming nemo_curator)

.PHONY: clean
clean: ## Remove what was built in this checkout
	rm -rf $(VENV) $(NATIVE) build demo_output benchmark_results
