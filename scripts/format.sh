#!/usr/bin/env bash
#===- format.sh - Format the C++ sources -----------------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/format.sh [-c]
#
# Formats every tracked C++ file; with -c changes nothing and fails when a
# file is not formatted.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
tool=clang-format-22
options=(-i)
case ${1:-} in
'') ;;
-c) options=(--dry-run -Werror) ;;
*)
  printf "error: unknown option '%s'; expected -c\n" "$1" >&2
  exit 2
  ;;
esac
if ! command -v "$tool" >/dev/null; then
  printf "error: '%s' not found; it is in the package %s\n" "$tool" "$tool" >&2
  exit 1
fi
git ls-files -z '*.c' '*.cpp' '*.h' | xargs -0r "$tool" "${options[@]}"
