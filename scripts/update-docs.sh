#!/usr/bin/env bash
#===- update-docs.sh - Update the reference in docs/generated --------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/update-docs.sh [-c]
#
# Generates the reference of dialects and passes from TableGen and copies it to
# docs/generated; with -c changes nothing and fails when a page is out of date.
#
#===------------------------------------------------------------------------===#

set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
check=false
case ${1:-} in
'') ;;
-c) check=true ;;
*)
  printf "error: unknown option '%s'; expected -c\n" "$1" >&2
  exit 2
  ;;
esac
build=build/dev
[ -f "$build/build.ninja" ] || cmake --preset dev >/dev/null
# Only the declarations are built, which takes seconds.
ninja -C "$build" --quiet mlir-doc
# Pages of components that are gone stay in the build directory; what a page
# is made from says which those are.
fresh=$(mktemp -d)
trap 'rm -rf "$fresh"' EXIT
ninja -C "$build" -t query mlir-doc >"$fresh/query"
mkdir "$fresh/pages"
for folder in Dialects Passes; do
  mkdir "$fresh/pages/$folder"
  for page in "$build/docs/$folder"/*.md; do
    target=$(basename "$page" .md)DocGen
    grep -qw "$target" "$fresh/query" && cp "$page" "$fresh/pages/$folder"
  done
done
if $check; then
  if ! diff -ru docs/generated "$fresh/pages"; then
    printf 'error: docs/generated is out of date; run scripts/update-docs.sh\n' \
      >&2
    exit 1
  fi
  exit 0
fi
rm -rf docs/generated
mkdir -p docs
cp -r "$fresh/pages" docs/generated
