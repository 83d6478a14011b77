#!/usr/bin/env bash
#===- tidy.sh - Check the C++ sources with clang-tidy ----------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/tidy.sh [-c] [REVISION]
#
# Runs the checks of .clang-tidy on the C++ files that differ from REVISION
# (default: all files), with the compile commands of the dev preset. Fixes
# findings if possible; with -c changes nothing. Fails if findings remain. A
# whole run takes about 10 minutes on 2 cores, so it is not part of
# scripts/test.sh.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
runner=run-clang-tidy-22
options=(-fix -format)
if [[ ${1:-} == -c ]]; then
  options=()
  shift
fi
if (($# > 1)) || [[ ${1:-} == -* ]]; then
  printf "error: unknown arguments '%s'; expected [-c] [REVISION]\n" \
    "$*" >&2
  exit 2
fi
if ! command -v "$runner" >/dev/null; then
  printf "error: '%s' not found; it is in the package clang-tidy-22\n" \
    "$runner" >&2
  exit 1
fi
build=build/dev
if [[ ! -e $build/compile_commands.json ]]; then
  printf "error: '%s' not found; run cmake --preset dev and ninja first\n" \
    "$build/compile_commands.json" >&2
  exit 1
fi
if (($# == 1)); then
  mapfile -t files < <(git diff --name-only --diff-filter=d "$1" -- '*.cpp')
else
  mapfile -t files < <(git ls-files '*.cpp')
fi
if ((${#files[@]} == 0)); then
  echo "no C++ file differs from $1"
  exit 0
fi
# The runner expects regular expressions of absolute paths.
patterns=()
for file in "${files[@]}"; do
  patterns+=("/${file//./\\.}\$")
done
exec "$runner" -quiet -p "$build" -warnings-as-errors='*' "${options[@]}" \
  "${patterns[@]}"
