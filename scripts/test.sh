#!/usr/bin/env bash
#===- test.sh - Build fuse and run every test ------------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/test.sh
#
# Sets up what is missing, builds the dev preset, and runs the lit suite, the
# Python tests and the C++ unit tests. The last line is the sum over all of
# them; the exit status is nonzero when a test failed or a step did not run.
#
#===------------------------------------------------------------------------===#

set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
build=build/dev
results=$build/test-results
passed=0
failed=0

say() { printf '\n== %s\n' "$*"; }

finish() {
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# Without a build there is nothing to test: that counts as one failure.
require() {
  "$@" && return
  printf "error: '%s' failed\n" "$*" >&2
  failed=$((failed + 1))
  finish
}

# count NAME PASSED FAILED: adds the result of one runner.
count() {
  printf '%s: %d passed, %d failed\n' "$1" "$2" "$3"
  passed=$((passed + $2))
  failed=$((failed + $3))
}

# lit_counts FILE: passed and failed of a report of lit.
lit_counts() {
  .venv/bin/python - "$1" <<'END'
import json, sys
codes = [test["code"] for test in json.load(open(sys.argv[1]))["tests"]]
good = sum(code in ("PASS", "XFAIL", "FLAKYPASS") for code in codes)
quiet = sum(code in ("UNSUPPORTED", "SKIPPED", "EXCLUDED") for code in codes)
print(good, len(codes) - good - quiet)
END
}

run_lit() {
  local report=$results/lit.json good bad
  rm -f "$report"
  /usr/lib/llvm-22/bin/lit -sv -o "$report" "$build/test"
  if read -r good bad < <(lit_counts "$report"); then
    count lit "$good" "$bad"
  else
    printf 'error: lit wrote no report\n' >&2
    count lit 0 1
  fi
}

run_roundtrip() {
  local report=$results/roundtrip.json good bad
  rm -f "$report"
  FUSE_CHECK_ROUNDTRIP=1 /usr/lib/llvm-22/bin/lit -sv -o "$report" \
    --filter-out=python "$build/test"
  if read -r good bad < <(lit_counts "$report"); then
    printf 'round trip: %d passed, %d failed\n' "$good" "$bad"
  else
    bad=1
  fi
  failed=$((failed + bad))
}

run_python() {
  local report=$results/python.txt good bad
  rm -f "$report"
  (cd python && FUSE_BIN="$root/$build/bin" FUSE_TEST_PACKAGE=1 \
    ../.venv/bin/python -m tests "../$report")
  if read -r good bad <"$report"; then
    count python "$good" "$bad"
  else
    printf 'error: the Python tests did not finish\n' >&2
    count python 0 1
  fi
}

run_gtest() {
  local binary name good bad
  for binary in "$build"/bin/*Tests; do
    [ -x "$binary" ] || continue
    name=$(basename "$binary")
    rm -f "$results/$name.json"
    "$binary" --gtest_brief=1 --gtest_output="json:$results/$name.json"
    if read -r good bad < <(.venv/bin/python -c '
import json, sys
report = json.load(open(sys.argv[1]))
bad = report["failures"] + report["errors"]
print(report["tests"] - report.get("disabled", 0) - bad, bad)
' "$results/$name.json"); then
      count "$name" "$good" "$bad"
    else
      count "$name" 0 1
    fi
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
# The same tests once more, fuse-opt comparing its input with what it prints
# and parses. They are the same tests, so only failures add to the sum.
say "lit, with a round trip of every input"
run_roundtrip
say "Python"
run_python
say "C++ unit tests"
run_gtest
say "Result"
finish
