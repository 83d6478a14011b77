#!/usr/bin/env bash
#===- test.sh - Build fuse and run every test ------------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/test.sh
#
# Installs missing packages and builds the dev preset. Runs the lit suite, the
# type checks of the Python code, the site, the Python tests, the tests of the
# benchmarks, and the C++ unit tests. The last line is the sum over all of them;
# the exit status is nonzero if a test failed or a step did not run.
#
#===------------------------------------------------------------------------===#

set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
build=build/dev
results=$build/test-results
source scripts/counting.sh

run_lit() {
  local report=$results/lit.json
  rm -f "$report"
  /usr/lib/llvm-22/bin/lit -sv -o "$report" "$build/test"
  count_report lit $? "$report"
}

# Runs the same tests once more, with fuse-opt comparing its input with the
# printed and parsed one. They have been counted already, so only failures add
# to the sum.
run_roundtrip() {
  local report=$results/roundtrip.json before=$passed
  rm -f "$report"
  FUSE_CHECK_ROUNDTRIP=1 /usr/lib/llvm-22/bin/lit -sv -o "$report" \
    --filter-out=python "$build/test"
  count_report "round trip" $? "$report"
  passed=$before
}

# Type checks count as one test, whatever the number of errors.
run_types() {
  if .venv/bin/mypy --cache-dir "$build/mypy"; then
    count types 1 0
  else
    count types 0 1
  fi
}

# Format and lint of the Python code and spelling of all text count as one test.
run_style() {
  if .venv/bin/ruff format --check --quiet . && .venv/bin/ruff check . &&
    .venv/bin/codespell; then
    count style 1 0
  else
    count style 0 1
  fi
}

# The site with its generated references counts as one test. The Python tests
# look at its pages.
run_site() {
  local log=$results/site.txt
  # --quiet would drop the warnings that --strict counts.
  if FUSE_BIN="$root/$build/bin" NO_MKDOCS_2_WARNING=1 \
    .venv/bin/mkdocs build --strict 2>"$log"; then
    count site 1 0
  else
    grep -v '^INFO' "$log"
    count site 0 1
  fi
}

run_python() {
  local report=$results/python.txt
  rm -f "$report"
  (cd python && FUSE_BIN="$root/$build/bin" FUSE_TEST_PACKAGE=1 \
    FUSE_SITE="$root/build/site" \
    ../.venv/bin/python -m tests "../$report")
  count_python "$report"
}

run_benchmarks() {
  local report=$results/benchmarks.txt
  rm -f "$report"
  PYTHONPATH="$root/python:$root/benchmarks" FUSE_BIN="$root/$build/bin" \
    .venv/bin/python -m tests "$report" benchmarks/tests
  count_python "$report" benchmarks
}

run_gtest() {
  local binary name
  for binary in "$build"/bin/*Tests; do
    [ -x "$binary" ] || continue
    name=$(basename "$binary")
    rm -f "$results/$name.json"
    "$binary" --gtest_brief=1 --gtest_output="json:$results/$name.json"
    count_report "$name" $? "$results/$name.json"
  done
}

say "Setting up"
require scripts/setup.sh
say "Building"
require cmake --preset dev
require cmake --build "$build"
mkdir -p "$results"
say "lit"
run_lit
say "lit, with a round trip of every input"
run_roundtrip
say "Types of the Python code"
run_types
say "Style"
run_style
say "Documentation"
run_site
say "Python"
run_python
say "Benchmarks"
run_benchmarks
say "C++ unit tests"
run_gtest
say "Result"
finish
