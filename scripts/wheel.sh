#!/usr/bin/env bash
#===- wheel.sh - Build the wheel from its sources --------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/wheel.sh [DIR]
#
# Compiles the libraries of the Python package from a source distribution, as
# pip does if nothing is prebuilt. Installs the wheel in a fresh environment and
# fuses a model there. This takes the time of a build, so the script is for
# releases. The tests check the same package with libraries that are already
# built (python/tests/test_package.py).
#
# DIR, build/wheel by default, gets the wheel, the build and the environment.
# PyTorch is that of .venv.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
out=$(realpath -m "${1:-$root/build/wheel}")
cd "$root"

say() { printf '\n== %s\n' "$*"; }

export CC=${CC:-clang-22} CXX=${CXX:-clang++-22}
if command -v ccache >/dev/null; then
  export CMAKE_C_COMPILER_LAUNCHER=ccache CMAKE_CXX_COMPILER_LAUNCHER=ccache
  export CCACHE_SLOPPINESS=pch_defines,time_macros
fi
unset PYTHONPATH FUSE_LIBRARY FUSE_PREBUILT

say "A source distribution of what git has"
rm -rf "$out/clone" "$out/dist" "$out/venv"
mkdir -p "$out/clone" "$out/dist"
git ls-files -z | tar --create --null --files-from=- |
  tar --extract --directory="$out/clone"
python=$root/.venv/bin/python
"$python" -m venv "$out/venv"
"$out/venv/bin/pip" install --quiet --disable-pip-version-check build
"$out/venv/bin/python" -m build --sdist -o "$out/dist" "$out/clone"

say "The wheel, compiled from it"
start=$SECONDS
"$out/venv/bin/pip" wheel --disable-pip-version-check --no-deps --verbose \
  --wheel-dir "$out/dist" --config-settings=build-dir="$out/cmake" \
  "$out"/dist/fuse_mlir-*.tar.gz
seconds=$((SECONDS - start))

say "A model, fused by what the wheel installed"
"$out/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
  "$out"/dist/fuse_mlir-*.whl
site=$("$out/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$python" -c 'import site; print("\n".join(site.getsitepackages()))' \
  >"$site/dependencies.pth"
cd "$out"
"$out/venv/bin/python" "$root/python/tests/package_check.py"

printf '\nPassed: %s, compiled in %d s\n' "$(basename "$out"/dist/*.whl)" \
  "$seconds"
