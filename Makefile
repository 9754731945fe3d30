# The commands of the project. Everything they make stays in .venv/, build/ and .cache/.
#   make demo     set up, build, train the example model with a report     make test      set up, build, run all tests
#   make build    set up, build, install into .venv                        make bench     run the benchmarks
#   make setup    system packages and .venv only                           make lint      formatting and static checks
#   make format   rewrite files in the project's format                    make clean     forget the build
#   make uninstall  leave nothing behind

JOBS ?= $(shell nproc)
PYTEST_ARGS ?= -n 2

export CCACHE_DIR ?= $(CURDIR)/.cache/ccache
export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export PIP_DISABLE_PIP_VERSION_CHECK = 1

FOLDERS := trace kernels device cache eager
CPP := $(shell find $(FOLDERS) tests bench -name '*.cc' -o -name '*.h')
SOURCES := $(CPP) pyproject.toml CMakeLists.txt $(shell find $(FOLDERS) tests bench \
  -name CMakeLists.txt -o -name '*.def' -o -name '*.inc' -o -name '*.in' -o -name '*.csv') \
  $(shell find python -name '*.py' -o -name '*.pyi')

.PHONY: setup build demo test bench clean uninstall format lint

setup: .venv/.ready

.venv/.ready: setup.sh
	PYTHON="$(PYTHON)" ./setup.sh
	@touch $@

build: build/.installed

# A real installation of a real wheel, so that packaging is tested by every build. The CMake tree is kept in build/,
# with tests and benchmarks in it; only what changed is compiled again.
build/.installed: .venv/.ready $(SOURCES)
	@echo "==> building into build/ and installing into .venv (the first time takes some minutes)"
	OPENNEURON_TESTS=ON OPENNEURON_BENCH=ON .venv/bin/python -m pip install --verbose --no-build-isolation --no-deps \
	  --config-settings=build-dir=build .
	@touch $@

demo: build
	.venv/bin/python -m openneuron run examples/char_transformer.py --check

test: build
	ctest --test-dir build --output-on-failure -j $(JOBS)
	.venv/bin/python -m pytest $(PYTEST_ARGS)

bench: build
	.venv/bin/python bench/run.py

format:
	clang-format -i $(CPP)
	.venv/bin/ruff check --fix --quiet
	.venv/bin/ruff format

# clang-tidy cannot read gcc's precompiled headers, so it gets a configuration without them; nothing is compiled.
build/lint/compile_commands.json: .venv/.ready CMakeLists.txt $(wildcard */CMakeLists.txt)
	cmake -G Ninja -S . -B build/lint -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DPython_EXECUTABLE=$(CURDIR)/.venv/bin/python

lint: build/lint/compile_commands.json
	@command -v clang-format clang-tidy > /dev/null || \
	  { echo "lint needs two more programs: sudo apt-get install -y clang-format clang-tidy" >&2; exit 1; }
	clang-format --dry-run -Werror $(CPP)
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	printf '%s\n' $(filter-out tests/% bench/%,$(filter %.cc,$(CPP))) | xargs -P $(JOBS) -n 1 clang-tidy -p build/lint --quiet

clean:
	rm -rf build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

uninstall: clean
	if [ -x .venv/bin/python ]; then .venv/bin/python -m pip uninstall -y openneuron; fi
	rm -rf .venv .cache
