#!/usr/bin/env bash
#===- coverage.sh - Measure the line coverage of the tests -----------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/coverage.sh [--python] [--report] [PERCENT]
#
# Builds the preset coverage and runs lit and the C++ unit tests, with --python
# also the Python tests. Counts the lines of dialects/, include/ and lib/ that
# ran. With --report it only reads the data of an earlier call. The table of all
# files is build/coverage/coverage.txt, and the lines themselves are in
# build/coverage/html. The last line is the share of all lines; the exit status
# is nonzero if it is below PERCENT (default 85) or a test failed.
#
#===------------------------------------------------------------------------===#

set -uo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cd "$root" || exit 1
build=build/coverage
llvm=/usr/lib/llvm-22/bin
python=false
run=true
percent=85
failed=0

for argument in "$@"; do
  case $argument in
  --python) python=true ;;
  --report) run=false ;;
  [0-9]*) percent=$argument ;;
  *)
    printf "error: unknown argument '%s', expected --python, --report or a " \
      "$argument" >&2
    printf 'percentage\n' >&2
    exit 2
    ;;
  esac
done

say() { printf '\n== %s\n' "$*"; }

require() {
  "$@" && return
  printf "error: '%s' failed\n" "$*" >&2
  exit 1
}

if $run; then
  say "Setting up"
  require scripts/setup.sh --sanitizers
  say "Building"
  require cmake --preset coverage
  require cmake --build $build
  rm -rf $build/profiles
  # Processes of one program share a few files.
  export LLVM_PROFILE_FILE=$root/$build/profiles/%4m.profraw
  say "lit"
  $llvm/lit -sv "$build/test" || failed=1
  say "C++ unit tests"
  for binary in "$build"/bin/*Tests; do
    "$binary" --gtest_brief=1 || failed=1
  done
  if $python; then
    say "Python"
    (cd python && FUSE_BIN="$root/$build/bin" ../.venv/bin/python -m tests \
      "../$build/python.txt") || failed=1
    PYTHONPATH="$root/python:$root/benchmarks" FUSE_BIN="$root/$build/bin" \
      .venv/bin/python -m tests "$build/benchmarks.txt" benchmarks/tests ||
      failed=1
  fi
fi

say "Result"
require $llvm/llvm-profdata merge -sparse --failure-mode=all \
  $build/profiles/*.profraw -o $build/coverage.profdata
objects=($build/bin/fuse-opt)
for file in $build/bin/* $build/lib/*.so; do
  # A program that no test starts has no counts.
  [ -f "$file" ] && [ -x "$file" ] && objects+=(-object "$file")
done
require $llvm/llvm-cov report "${objects[@]}" \
  -instr-profile $build/coverage.profdata dialects include lib \
  >$build/coverage.txt
require $llvm/llvm-cov show "${objects[@]}" -format html \
  -instr-profile $build/coverage.profdata -output-dir $build/html \
  dialects include lib
python3 - "$build/coverage.txt" "$percent" <<'END' || failed=1
import collections
import sys

lines = collections.defaultdict(lambda: [0, 0])
for row in open(sys.argv[1]):
    # The fields are the file, then count, missed and share of regions,
    # functions and lines.
    fields = row.split()
    if len(fields) < 10 or not fields[0].endswith((".cpp", ".h", ".inc")):
        continue
    if int(fields[7]) == 0:
        continue
    parts = fields[0].split("/")
    for name in ("/".join(parts[:2]), "all"):
        lines[name][0] += int(fields[7])
        lines[name][1] += int(fields[8])
for name, (count, missed) in sorted(lines.items()):
    if name != "all":
        print(f"{name:30} {count:7} lines, {100 * (1 - missed / count):5.1f} %")
count, missed = lines["all"]
share = 100 * (1 - missed / count) if count else 0
print(f"{count - missed} of {count} lines run: {share:.1f} %")
sys.exit(share < float(sys.argv[2]))
END
[ $failed -eq 0 ]
