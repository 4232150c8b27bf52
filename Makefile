# What people and CI do with this repository; `make help` lists it. Each target is enough alone: it first prepares the
# machine (scripts/setup-gdal), which takes no time when that has been done.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup build demo test test-rust test-python lint format install clean

WITH := scripts/with-gdal
TARGET := $(or $(CARGO_TARGET_DIR),target)
PLUGIN := build/plugins/gdal_MDIMREFS.so
CXX_FILES = $(wildcard cpp/*.cpp cpp/*.hpp cpp/*.h)

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(firstword $(MAKEFILE_LIST)) | expand -t 14

setup: ## prepare the machine: GDAL >= 3.12, compilers, test tools
	@scripts/setup-gdal

build: setup ## build the release plugin, build/plugins/gdal_MDIMREFS.so
	$(WITH) cargo build --release
	@mkdir -p $(dir $(PLUGIN))
	@cmp -s $(TARGET)/release/libmdimrefs.so $(PLUGIN) || \
	    { cp $(TARGET)/release/libmdimrefs.so $(PLUGIN).new && mv $(PLUGIN).new $(PLUGIN); }

demo: build ## make ten days of data, read them as one array, draw a map
	$(WITH) scripts/demo

test: test-rust test-python ## run all tests

test-rust: setup ## run the tests in Rust, with and without GDAL
	$(WITH) cargo test
	$(WITH) cargo test --no-default-features

test-python: build ## run the tests through GDAL
	$(WITH) pytest autotest

lint: setup ## check formatting, and what compilers and linters say
	$(WITH) cargo fmt --check
	$(WITH) cargo clippy --all-targets -- -D warnings
	$(WITH) cargo clippy --all-targets --no-default-features -- -D warnings
	$(if $(CXX_FILES),$(WITH) clang-format --dry-run -Werror $(CXX_FILES))
	$(WITH) ruff check
	$(WITH) ruff format --check
	$(WITH) shellcheck -x scripts/demo scripts/enter-root scripts/env.sh scripts/setup-gdal scripts/with-gdal fuzz/run .ci/run

format: setup ## format all code
	$(WITH) cargo fmt
	$(if $(CXX_FILES),$(WITH) clang-format -i $(CXX_FILES))
	$(WITH) ruff format

install: setup ## put the plugin into GDAL's plugin folder, or PREFIX/lib/gdalplugins
	$(WITH) cmake -S cmake -B build/cmake \
	    $(if $(PREFIX),-DCMAKE_INSTALL_PREFIX=$(abspath $(PREFIX)) -DMDIMREFS_PLUGIN_DIR=lib/gdalplugins,-UMDIMREFS_PLUGIN_DIR)
	$(WITH) cmake --build build/cmake
	$(WITH) cmake --install build/cmake
	$(if $(PREFIX),,@$(WITH) sh -c '[ -z "$$MDIMREFS_INSIDE" ] || \
	    echo "(The GDAL that has it now is the private root'"'"'s, since this machine has none of its own: scripts/with-gdal.)"')

clean: ## remove what was built here; the private root stays (its folder can be removed by hand)
	rm -rf build $(if $(CARGO_TARGET_DIR),,target)
