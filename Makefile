# Every task of the project; `make help` lists them.
# Kept to POSIX sh and GNU Make 3.81, which is what macOS ships.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.SUFFIXES:
# The targets share one .venv and one target directory.
.NOTPARALLEL:

VENV := .venv
BIN := $(VENV)/bin
PYTHON := $(BIN)/python
STAMPS := $(VENV)/.histrs
PIP := $(PYTHON) -m pip --disable-pip-version-check --quiet

# The interpreters tried for a new .venv, the best first. To choose: make PYTHONS=python3.12 test
PYTHONS ?= python3.14 python3.13 python3.12 python3.11 python3

# How the extension is compiled. "test-release" takes a fraction of the time, and is somewhat slower.
EXTENSION_PROFILE ?= release
EXTENSION := $(STAMPS)/extension-$(EXTENSION_PROFILE)

# Arguments for the command behind a target: make demo ARGS="--help"
ARGS ?=

# An environment with the oldest versions of everything that pyproject.toml names.
OLDEST := .venv-oldest
# How long make fuzz searches, and the first seed; how many cases of each property of the crate.
MINUTES ?= 60
SEED ?= 0
PROPTEST_CASES ?= 2000
# Which part of the mutants make mutants runs; SAMPLE=20 draws so many of each Python module, and of the crate, from it.
PART ?= 1/1
SAMPLE ?=

# rustup's folder, for a shell older than the installation.
export PATH := $(PATH):$(HOME)/.cargo/bin
# The one Python that pyo3 builds for, whoever starts cargo.
export PYO3_PYTHON := $(CURDIR)/$(PYTHON)

# Folders too, so that a removed file counts as a change.
EXTENSION_SOURCES := pyproject.toml Cargo.toml $(wildcard Cargo.lock rust/*/Cargo.toml) \
    $(shell find rust/*/src 2>/dev/null)

CARGO_TEST := cargo test --profile test-release
# A process on each core.
PYTEST := $(PYTHON) -m pytest -n auto --dist worksteal --durations=15

# What rounding decides in: run once more under other kernels of BLAS.
BLAS_TESTS := $(wildcard tests/test_*solvers.py tests/test_gaussian_process*.py \
    tests/test_hyperparameters.py tests/test_online.py \
    tests/test_streaming_lasso.py tests/test_streaming_passes.py)

.PHONY: help demo test test-all test-rust test-python test-slow test-checked test-simd test-blas test-oldest \
    fuzz mutants lint features bench papers docs wheel clean \
    say-demo check-rust check-rust-tools check-unsafe

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
	    awk -F '|' '{ printf "make %-13s %s\n", $$1, $$2 }'

demo: check-rust say-demo $(STAMPS)/group-demo $(EXTENSION) ## our models beside the usual ones on real data; writes an HTML page
	$(PYTHON) -m demo $(ARGS)

say-demo:
	@if test ! -e $(EXTENSION); then \
	    echo "make demo: builds histrs first, which takes up to three minutes on two cores."; \
	fi

test: test-rust test-python ## every quick test once: Rust, Python, documentation, README

test-all: test test-slow test-checked test-simd test-blas test-oldest ## and the slow ones; and again: checked, instruction sets, BLAS, oldest versions

test-rust: check-rust ## unit, property and documentation tests of the crate; its examples
	$(CARGO_TEST) -p histrs --features proptest
	@for path in rust/histrs/examples/*.rs rust/histrs/examples/*/main.rs; do \
	    test -e "$$path" || continue; \
	    case "$$path" in \
	        */main.rs) name=$$(basename "$$(dirname "$$path")") ;; \
	        *) name=$$(basename "$$path" .rs) ;; \
	    esac; \
	    echo "cargo run --profile test-release -p histrs --example $$name"; \
	    cargo run --quiet --profile test-release -p histrs --example "$$name" || exit 1; \
	done

test-python: check-rust $(STAMPS)/group-test $(EXTENSION) ## pytest on every core: quick tests, docstrings, README
	$(PYTEST) -m "not slow" $(ARGS)

test-slow: check-rust $(STAMPS)/group-test $(EXTENSION) ## slow definitions, killed processes, real data
	$(PYTEST) -m slow tests $(ARGS)

test-checked: check-rust ## tests of the crate with overflow checks and debug assertions
	cargo test --profile test-checked -p histrs --tests

# The first set is the one that the other targets run. With the features of test-rust, nothing is
# compiled again.
test-simd: check-rust $(STAMPS)/group-test $(EXTENSION) ## crate and pytest on each further instruction set
	@for set in $$($(PYTHON) -c 'from histrs import _histrs; \
	    print(*_histrs.instruction_sets()[1:])'); do \
	    echo "HISTRS_SIMD=$$set $(CARGO_TEST) -p histrs --features proptest --tests"; \
	    HISTRS_SIMD=$$set $(CARGO_TEST) -p histrs --features proptest --tests || exit 1; \
	    echo "HISTRS_SIMD=$$set $(PYTEST) -m simd_paths"; \
	    HISTRS_SIMD=$$set $(PYTEST) -m simd_paths || exit 1; \
	done

# Not the one that OPENBLAS_CORETYPE names, or OpenBLAS chooses: test-python runs under it.
test-blas: check-rust $(STAMPS)/group-test $(EXTENSION) ## tests of solvers under each kernel of OpenBLAS
	@for kernel in native Haswell:avx2 SkylakeX:avx512vl; do \
	    name=$${kernel%:*}; \
	    if test "$$name" = "$${OPENBLAS_CORETYPE:-native}"; then continue; fi; \
	    if test "$$name" != native && ! grep -qw "$${kernel#*:}" /proc/cpuinfo 2>/dev/null; then \
	        echo "OpenBLAS $$name: not for this machine"; continue; \
	    fi; \
	    echo "OpenBLAS $$name: $(PYTEST) $(BLAS_TESTS)"; \
	    core=OPENBLAS_CORETYPE=$$name; test "$$name" != native || core=; \
	    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE $$core \
	        $(PYTEST) $(BLAS_TESTS) || exit 1; \
	done

# scikit-learn 1.6 asks for SCIPY_ARRAY_API where its own tests of estimators are imported, and checks
# less than later ones do: what is expected to fail there may pass.
test-oldest: check-rust $(STAMPS)/oldest $(EXTENSION) ## quick tests with the oldest versions in pyproject.toml
	SCIPY_ARRAY_API=1 $(OLDEST)/bin/python -m pytest -n auto --dist worksteal \
	    --hypothesis-profile=few -o xfail_strict=false -m "not slow" tests $(ARGS)

fuzz: check-rust $(STAMPS)/group-test $(EXTENSION) ## random programs for MINUTES, half of them in Rust; then a soak
	@end=$$(( $$(date +%s) + 30 * $(MINUTES) )); seed=$(SEED); \
	while test "$$(date +%s)" -lt "$$end"; do \
	    echo "PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(PROPTEST_CASES) $(CARGO_TEST) -p histrs --tests"; \
	    PROPTEST_RNG_SEED=$$seed PROPTEST_CASES=$(PROPTEST_CASES) \
	        $(CARGO_TEST) --quiet -p histrs --tests || exit 1; \
	    seed=$$((seed + 1)); \
	done
	$(PYTHON) -m tests.fuzz --minutes $$(( ($(MINUTES) + 1) / 2 )) --seed $(SEED) $(ARGS)
	$(PYTHON) -m tests.fuzz.soak

mutants: check-rust $(STAMPS)/group-mutants $(EXTENSION) ## change one thing at a time: does a test fail? PART=1/8, SAMPLE=20: less
	$(PYTHON) -m tests.mutants --part $(PART) $(if $(SAMPLE),--sample $(SAMPLE) --seed $(SEED)) $(ARGS)
	$(PYTHON) -m tests.mutants.rust --part $(PART) $(if $(SAMPLE),--sample $(SAMPLE) --seed $(SEED))

lint: check-rust-tools $(STAMPS)/group-lint $(EXTENSION) check-unsafe ## formatting, lints, types, stubs
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(PYTHON) -m mypy.stubtest --mypy-config-file pyproject.toml histrs._histrs

FEATURES := $(shell sed -n '/^\[features\]/,/^\[dependencies\]/s/^\([a-z0-9-]*\) = .*/\1/p' rust/histrs/Cargo.toml)

features: check-rust ## check each feature of the crate by itself, without warnings
	@for feature in "" $(FEATURES); do \
	    echo "cargo check -p histrs --no-default-features --features \"$$feature\""; \
	    RUSTFLAGS="-D warnings" cargo check --quiet -p histrs --no-default-features \
	        --features "$$feature" || exit 1; \
	done

bench: check-rust $(STAMPS)/group-bench $(EXTENSION) ## measure against the peers; writes docs/benchmarks.md
	$(PYTHON) -m benches $(ARGS)

papers: check-rust $(STAMPS)/group-$(if $(QUICK),test,bench) $(EXTENSION) ## repeat the papers' experiments; QUICK=1: only see that they run
	$(PYTHON) -m benches.papers $(ARGS)

docs: check-rust $(STAMPS)/group-docs $(EXTENSION) ## the manual, in docs/_build/html
	$(PYTHON) -m sphinx -E -W --keep-going -b html docs docs/_build/html

wheel: check-rust $(STAMPS)/group-build ## one wheel for every Python from 3.11 on, in dist/
	$(BIN)/maturin build --release --interpreter $(PYTHON) --out dist

.PHONY: third-party release-check

third-party: check-rust $(STAMPS)/venv ## licences and bill of materials of the crates in Cargo.lock
	$(PYTHON) -m release.third_party

# What a machine can tell before a release; CI adds the other platforms, and publishes.
release-check: check-rust $(STAMPS)/group-release ## build wheel, sdist and crate, install and try them as users do
	$(PYTHON) -m release.versions
	$(PYTHON) -m release.extras
	$(PYTHON) -m release.third_party --check
	@if cargo deny --version >/dev/null 2>&1; then \
	    echo "cargo deny check licenses bans sources"; \
	    cargo deny --locked check --hide-inclusion-graph licenses bans sources || exit 1; \
	else \
	    echo "cargo deny was not found, only licences were checked: cargo install --locked cargo-deny"; \
	fi
	rm -rf dist
	$(BIN)/maturin build --release --locked --interpreter $(PYTHON) --out dist
	$(BIN)/maturin sdist --out dist
	$(PYTHON) -m release.artifacts dist
	$(BIN)/twine check --strict dist/*
	cargo publish --dry-run --locked $(if $(ARGS),$(ARGS)) -p histrs
	$(PYTHON) -m release.environments dist/*.whl dist/*.tar.gz

clean: ## remove what was built; .venv stays
	rm -rf target dist docs/_build docs/gallery docs/reference/generated docs/sg_execution_times.rst
	rm -rf .hypothesis .mypy_cache .pytest_cache .ruff_cache $(STAMPS)/extension-*
	rm -f python/histrs/_histrs*.so
	find python tests benches examples demo docs release -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- what the targets need ------------------------------------------------------------------

$(STAMPS)/venv:
	@python=; \
	for candidate in $(PYTHONS); do \
	    if "$$candidate" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then python=$$candidate; break; fi; \
	done; \
	if test -z "$$python"; then \
	    echo "error: histrs needs Python 3.11 or newer with its venv module; tried: $(PYTHONS)" >&2; \
	    echo "Get it from https://www.python.org or from your distribution" >&2; \
	    echo "(Debian, Ubuntu: apt install python3 python3-venv), or name one that you have:" >&2; \
	    echo "    make PYTHONS=/path/to/python3 $(MAKECMDGOALS)" >&2; \
	    exit 1; \
	fi; \
	echo "$(VENV): $$("$$python" --version), $$python"; \
	"$$python" -m venv $(VENV)
	@# The first pip that installs dependency groups.
	@$(PIP) install --upgrade 'pip>=25.1'
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/group-%: pyproject.toml $(STAMPS)/venv
	$(PIP) install --group $*
	@touch $@

# By the interpreter of .venv; its newer pip stays out of what is tested.
$(STAMPS)/oldest: pyproject.toml $(STAMPS)/venv $(EXTENSION)
	$(PIP) install uv
	rm -rf $(OLDEST) && $(PYTHON) -m venv --without-pip $(OLDEST)
	@# Compiled at once: old versions warn of their own source, where tests take warnings for errors.
	VIRTUAL_ENV="$(CURDIR)/$(OLDEST)" $(BIN)/uv pip install --compile-bytecode --resolution lowest-direct \
	    -r pyproject.toml --all-extras --group test
	@# maturin looks for uv itself.
	env -u CONDA_PREFIX PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV="$(CURDIR)/$(OLDEST)" \
	    $(BIN)/maturin develop --uv \
	    --profile $(EXTENSION_PROFILE)
	@touch $@

$(EXTENSION): $(EXTENSION_SOURCES) $(STAMPS)/group-build | check-rust
	env -u CONDA_PREFIX PIP_QUIET=1 VIRTUAL_ENV="$(CURDIR)/$(VENV)" $(BIN)/maturin develop \
	    --profile $(EXTENSION_PROFILE)
	@# There is one of it, however compiled.
	@rm -f $(STAMPS)/extension-* && touch $@

check-rust:
	@need=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	if ! have=$$(cargo --version 2>/dev/null); then \
	    echo "error: cargo was not found: histrs is built with Rust $$need or newer." >&2; \
	    echo "Get Rust from https://rustup.rs or, where it is new enough, from your distribution" >&2; \
	    echo "(Fedora: dnf install cargo; Debian, Ubuntu: apt install cargo), then run make again." >&2; \
	    exit 1; \
	fi; \
	have=$${have#cargo }; have=$${have%% *}; minor=$${have#1.}; \
	if test "$${minor%%.*}" -lt "$${need#1.}"; then \
	    echo "error: cargo $$have is too old: histrs is built with Rust $$need or newer." >&2; \
	    echo "Run rustup update, or get Rust from https://rustup.rs" >&2; \
	    exit 1; \
	fi

check-rust-tools: | check-rust
	@for tool in fmt clippy; do \
	    if ! cargo $$tool --version >/dev/null 2>&1; then \
	        echo "error: cargo $$tool was not found, and make lint needs it." >&2; \
	        echo "Run rustup component add rustfmt clippy, or install your distribution's" >&2; \
	        echo "packages (Fedora: rustfmt clippy; Debian, Ubuntu: rustfmt rust-clippy)." >&2; \
	        exit 1; \
	    fi; \
	done

# The word outside a line comment, anywhere but in simd/.
check-unsafe:
	@if grep -rnwE --include='*.rs' '^(([^/]|/[^/])*[^/[:alnum:]_])?unsafe' rust | \
	    grep -v '^rust/histrs/src/simd/'; then \
	    echo "error: unsafe is allowed only below rust/histrs/src/simd/" >&2; \
	    exit 1; \
	fi
