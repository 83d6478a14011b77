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
# pip does if nothing is prebuilt. Checks that the wheel needs nothing but glibc
# and Python, and names the oldest platform in its tag. Installs it in a fresh
# environment, and fuses a model there without LLVM and compilers. This takes
# the time of a build, so the script is for releases. The tests check the same
# package with libraries that are already built (python/tests/test_package.py).
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
unset PYTHONPATH LD_LIBRARY_PATH FUSE_LIBRARY FUSE_PREBUILT

say "A source distribution of what git has"
rm -rf "$out/clone" "$out/dist" "$out/venv"
mkdir -p "$out/clone" "$out/dist"
git ls-files -z | tar --create --null --files-from=- |
  tar --extract --directory="$out/clone"
python=$root/.venv/bin/python
"$python" -m venv "$out/venv"
pip() { "$out/venv/bin/python" -m pip --disable-pip-version-check "$@"; }
pip install --quiet build wheel
"$out/venv/bin/python" -m build --sdist -o "$out/dist" "$out/clone"

say "The wheel, compiled from it"
start=$SECONDS
pip wheel --no-deps --verbose \
  --wheel-dir "$out/dist" --config-settings=build-dir="$out/cmake" \
  "$out"/dist/fuse_mlir-*.tar.gz
seconds=$((SECONDS - start))

say "Its platform"
tag=$("$python" scripts/check-wheel.py "$out"/dist/fuse_mlir-*.whl)
"$out/venv/bin/python" -m wheel tags --remove --platform-tag "$tag" \
  "$out"/dist/fuse_mlir-*.whl
wheel=$(echo "$out"/dist/fuse_mlir-*.whl)

say "A model, fused by what the wheel installed"
pip install --quiet --no-deps "$wheel"
site=$("$out/venv/bin/python" -c 'import site; print(site.getsitepackages()[0])')
"$python" -c 'import site; print("\n".join(site.getsitepackages()))' \
  >"$site/dependencies.pth"
# Without compilers and tools in PATH, and without LLVM where mounts are allowed.
llvm=$(sed -n 's/^LLVM_DIR:[A-Z]*=//p' "$out/cmake/CMakeCache.txt")
llvm=${llvm%/lib/cmake/llvm}
hide=(unshare --map-root-user --mount sh -c
  'mount -t tmpfs none "$1" && shift && exec "$@"' sh "$llvm")
if ! "${hide[@]}" true 2>/dev/null; then
  hide=()
  echo "LLVM cannot be hidden here; only what is loaded is checked"
fi
rm -rf "$out/home" && mkdir "$out/home"
cd "$out"
${hide[@]+"${hide[@]}"} env -i HOME="$out/home" PATH="$out/venv/bin" \
  "$out/venv/bin/python" "$root/python/tests/package_check.py" --standalone

printf '\nPassed: %s, %.1f MB, compiled in %d s\n' "$(basename "$wheel")" \
  "$(stat --format=%s "$wheel")e-6" "$seconds"
