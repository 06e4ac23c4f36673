# thimble: `make serve` and `make test` do everything from a fresh checkout; see `make help`.
#
# CMake builds; this file only strings the steps together, so that one word does each job.

MODEL ?= models/nano-chat
PORT  ?= 8080
JOBS  := $(shell nproc 2>/dev/null || echo 2)
BIN   := build/release/bin/thimble

.DELETE_ON_ERROR:
.PHONY: help deps deps-test deps-dev deps-train build serve test check format tidy clean

help: ## list these targets
	@echo 'usage: make TARGET'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile

deps: ## install what building and serving need
	@scripts/deps.sh build

deps-test: ## add what only tests need: GoogleTest, libtorch, Node.js, Chromium, npm packages
	@scripts/deps.sh test

deps-dev: ## add what only development needs: clang and clang-tidy
	@scripts/deps.sh dev

deps-train: ## add what only `thimble train` needs: libtorch; then build again
	@scripts/deps.sh train
	@rm -f build/release/build.ninja build/dev/build.ninja

build: deps ## build the release binary, build/release/bin/thimble
	@$(MAKE) --no-print-directory $(BIN)

serve: build ## serve MODEL (default: models/nano-chat) on PORT (default: 8080)
	@exec $(BIN) serve --model $(MODEL) --port $(PORT)

# One configuration, fixed seeds; the last lines are ctest's own.
test: deps deps-test ## build everything and run all tests but the slow ones
	@$(MAKE) --no-print-directory build/dev/build.ninja
	@cmake --build --preset dev --parallel $(JOBS)
	@ctest --preset dev --parallel $(JOBS)

check: deps deps-test ## before each commit: formatting, style and the fast tests
	@scripts/format.sh --check
	@$(MAKE) --no-print-directory build/dev/build.ninja
	@dev/tidy
	@cmake --build --preset dev --parallel $(JOBS)
	@ctest --preset fast --parallel $(JOBS)

format: ## format every C++ file in place
	@scripts/format.sh

tidy: deps deps-test deps-dev ## clang-tidy over all sources (minutes; `make test` leaves it out)
	@$(MAKE) --no-print-directory build/dev/build.ninja
	@scripts/clang_tidy.sh $(JOBS)

clean: ## remove what was built (models/ stays)
	rm -rf build

build/%/build.ninja: CMakePresets.json
	@cmake --preset $*
	@touch $@

# Always asked: only ninja knows whether a source has changed.
.PHONY: $(BIN)
$(BIN): build/release/build.ninja
	@cmake --build --preset release --target thimble --parallel $(JOBS)
