#===- counting.sh - Count the results of test runners ----------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# For scripts that run several test runners, from the root of the repository:
#   source scripts/counting.sh
# `finish` ends the script with the sum in its last line; the exit status is
# nonzero when a test failed or none ran.
#
#===------------------------------------------------------------------------===#

# shellcheck shell=bash
passed=0
failed=0

say() { printf '\n== %s\n' "$*"; }

finish() {
  printf '%d passed, %d failed\n' "$passed" "$failed"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
  exit
}

# Without a build there is nothing to test, which counts as one failure.
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

# count_report NAME STATUS REPORT: adds the report of a runner that ended with
# STATUS. There is one more failure if the report is missing, or if no failed
# test explains the status: a crash, or leaks that are found after the last
# test.
count_report() {
  local good bad
  if ! read -r good bad < <(python3 scripts/count-report.py "$3"); then
    good=0 bad=1
  elif [ "$2" -ne 0 ] && [ "$bad" -eq 0 ]; then
    printf "error: %s ended with status %d\n" "$1" "$2" >&2
    bad=1
  fi
  count "$1" "$good" "$bad"
}

# count_python FILE [NAME]: the same for Python tests, which write numbers.
count_python() {
  local good bad name=${2:-python}
  if ! read -r good bad <"$1"; then
    printf "error: the tests of '%s' did not finish\n" "$name" >&2
    good=0 bad=1
  fi
  count "$name" "$good" "$bad"
}
