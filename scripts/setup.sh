#!/usr/bin/env bash
#===- setup.sh - Install the dependencies of building and testing fuse -----===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/setup.sh [--sanitizers]
#
# For Debian 12 and Ubuntu 24.04, as root or with sudo. Installs missing
# packages, and ends quickly if there are none. LLVM comes from the
# distribution, or from apt.llvm.org if the distribution does not have it.
# Python packages are installed in .venv in the repository. With --sanitizers it
# installs the runtime of clang's sanitizers as well.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=$root/.venv
llvm=22
packages=(
  build-essential
  ca-certificates
  ccache
  "clang-$llvm"
  cmake
  libgtest-dev
  libjemalloc-dev
  "libmlir-$llvm-dev"
  "lld-$llvm"
  "llvm-$llvm-dev"
  "llvm-$llvm-tools"
  "mlir-$llvm-tools"
  ninja-build
  nlohmann-json3-dev
  python3
  python3-dev
  python3-venv
)

# The tests look at report pages in this browser. Ubuntu only has it as a snap,
# so the tests are skipped there.
# shellcheck disable=SC1091
if [ "$(. /etc/os-release && printf '%s' "${ID:-}")" = debian ]; then
  packages+=(chromium)
fi

case ${1:-} in
'') ;;
--sanitizers) packages+=("libclang-rt-$llvm-dev") ;;
*)
  printf "error: unknown argument '%s', expected --sanitizers\n" "$1" >&2
  exit 2
  ;;
esac

say() { printf '== %s\n' "$*"; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    die "installing packages needs root: run as root or install sudo"
  elif [ -t 0 ]; then
    sudo "$@"
  else
    sudo -n "$@" || die "'sudo -n $*' failed; without a terminal sudo must" \
      "not ask for a password"
  fi
}

apt() {
  # Wait for another apt instead of failing, since unattended upgrades run on
  # fresh machines.
  as_root env DEBIAN_FRONTEND=noninteractive apt-get \
    -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -q "$@"
}

is_installed() {
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_candidate() {
  local candidate
  candidate=$(apt-cache policy "$1" 2>/dev/null |
    sed -n 's/^ *Candidate: //p')
  [ -n "$candidate" ] && [ "$candidate" != '(none)' ]
}

missing_packages() {
  local package
  for package in "${packages[@]}"; do
    is_installed "$package" || printf '%s\n' "$package"
  done
}

add_llvm_repository() {
  local codename key=/etc/apt/keyrings/apt.llvm.org.asc
  # shellcheck disable=SC1091
  codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
  [ -n "$codename" ] || die "/etc/os-release names no VERSION_CODENAME"
  say "Adding the packages of LLVM $llvm from apt.llvm.org for $codename"
  command -v curl >/dev/null || apt install -y --no-install-recommends \
    curl ca-certificates
  as_root mkdir -p /etc/apt/keyrings
  curl -fsSL --retry 3 https://apt.llvm.org/llvm-snapshot.gpg.key |
    as_root tee "$key" >/dev/null ||
    die "cannot fetch the key of apt.llvm.org; $(distribution) has no package" \
      "of LLVM $llvm itself"
  printf 'deb [signed-by=%s] https://apt.llvm.org/%s/ %s main\n' \
    "$key" "$codename" "llvm-toolchain-$codename-$llvm" |
    as_root tee "/etc/apt/sources.list.d/apt.llvm.org-$llvm.list" >/dev/null
  apt update || die "apt.llvm.org has no packages of LLVM $llvm for $codename"
}

distribution() {
  # shellcheck disable=SC1091
  (. /etc/os-release && printf '%s' "${PRETTY_NAME:-this system}")
}

install_packages() {
  local missing package
  mapfile -t missing < <(missing_packages)
  if [ "${#missing[@]}" -eq 0 ]; then
    say "System packages: all ${#packages[@]} are installed"
    return
  fi
  say "System packages: installing ${missing[*]}"
  apt update || die "apt-get update failed; see its message above"
  for package in "${missing[@]}"; do
    case $package in
    *"-$llvm"*) has_candidate "$package" || { add_llvm_repository; break; } ;;
    esac
  done
  for package in "${missing[@]}"; do
    has_candidate "$package" ||
      die "$(distribution) has no package '$package' in its apt sources"
  done
  apt install -y --no-install-recommends "${missing[@]}" ||
    die "apt-get could not install: ${missing[*]}"
}

check_llvm() {
  local version
  version=$("/usr/lib/llvm-$llvm/bin/llvm-config" --version)
  case $version in
  "$llvm".0.*) die "LLVM $version is too old; expected $llvm.1 or later" ;;
  esac
  say "LLVM $version"
}

# PyPI's torch for Linux depends on CUDA libraries of several gigabytes, which
# are of no use here. If the configured index would install them, PyTorch's
# index of CPU builds is added.
torch_index() {
  local report
  report=$("$venv/bin/pip" install --dry-run --quiet --ignore-installed \
    --disable-pip-version-check --report - \
    -r "$root/python/requirements.txt") ||
    die "pip cannot find the packages of python/requirements.txt"
  if printf '%s' "$report" | grep -q '"name": "nvidia-'; then
    printf '%s' '--extra-index-url=https://download.pytorch.org/whl/cpu'
  fi
}

install_python() {
  local wanted="$root/python/requirements.txt" stamp="$venv/.requirements"
  local index
  if [ -x "$venv/bin/python" ] && cmp -s "$wanted" "$stamp"; then
    say "Python packages: up to date in .venv"
    return
  fi
  say "Python packages: installing into .venv"
  if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
    rm -rf "$venv"
    python3 -m venv "$venv" || die "python3 could not create '$venv'"
  fi
  index=$(torch_index) || exit 1
  # shellcheck disable=SC2086
  "$venv/bin/pip" install --disable-pip-version-check $index -r "$wanted" ||
    die "pip could not install the packages of python/requirements.txt"
  "$venv/bin/python" -c 'import torch, transformers, safetensors, numpy' ||
    die "the installed Python packages do not load"
  cp "$wanted" "$stamp"
}

[ -r /etc/os-release ] && command -v apt-get >/dev/null ||
  die "expected a system with apt, such as Debian 12 or Ubuntu 24.04"
install_packages
check_llvm
install_python
