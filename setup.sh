#!/usr/bin/env bash
# Prepares a machine for building: Debian packages, a Python of 3.11 or newer, the virtual environment .venv.
# Run by `make setup`. Installs what is missing, changes nothing that is there, and says what it cannot do.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

# "torch==<release>", stated once, as the package's dependency.
TORCH="$(sed -n 's/^dependencies = \["\(torch==[^"]*\)"\]$/\1/p' pyproject.toml)"
DEBIAN_PACKAGES=(cmake ninja-build ccache g++ libtbb-dev libabsl-dev libxxhash-dev libgtest-dev libbenchmark-dev)
PYTHON_PACKAGES=(numpy scipy pytest pytest-xdist expecttest hypothesis ruff scikit-build-core)

say() { printf '==> %s\n' "$*"; }
stop() { printf 'setup: %s\n' "$*" >&2; exit 1; }

find_python() {
  local candidate
  for candidate in ${PYTHON:-python3 python3.11 python3.12 python3.13}; do
    if command -v "$candidate" > /dev/null &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null; then
      command -v "$candidate"
      return
    fi
  done
  return 1
}

# Debian's Python leaves venv and headers to packages of their own.
python_lacks_parts() {
  ! "$1" -c 'import ensurepip, os, sysconfig
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h"))' 2> /dev/null
}

install_debian_packages() {
  local missing=() package python
  if ! command -v dpkg-query > /dev/null; then
    say "not a Debian machine: taking for granted ${DEBIAN_PACKAGES[*]} (or what they are called here)"
    return
  fi
  for package in "${DEBIAN_PACKAGES[@]}"; do
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" == installed ]] || missing+=("$package")
  done
  python="$(find_python)" || missing+=(python3 python3-venv python3-dev)
  if [[ -n "$python" ]] && python_lacks_parts "$python"; then
    missing+=(python3-venv python3-dev)
  fi
  [[ ${#missing[@]} -gt 0 ]] || return 0

  local become=()
  if [[ "$(id -u)" -ne 0 ]]; then
    if ! sudo -n true 2> /dev/null; then
      stop "these Debian packages are missing; type this, then run make again:
  sudo apt-get install -y ${missing[*]}"
    fi
    become=(sudo -n)
  fi
  say "installing Debian packages: ${missing[*]}"
  "${become[@]}" apt-get update
  "${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "${missing[@]}"
}

install_debian_packages
python="$(find_python)" || stop "Python 3.11 or newer is needed, and ${PYTHON:-python3} is \
$(${PYTHON:-python3} --version 2>&1 || true). Name another one with: make PYTHON=/path/to/python3"
if [[ -x .venv/bin/python ]] && ! .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  stop ".venv holds a Python older than 3.11; remove the folder and run make again"
fi
if [[ ! -x .venv/bin/python ]]; then
  say "making .venv with $python"
  "$python" -m venv .venv
fi
say "installing $TORCH and the tools for building and testing into .venv"
.venv/bin/python -m pip install --disable-pip-version-check "$TORCH" "${PYTHON_PACKAGES[@]}"
say "ready"
