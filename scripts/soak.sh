#!/usr/bin/env bash
#===- soak.sh - Random tests for any length of time ------------------------===#
#
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===------------------------------------------------------------------------===#
#
# usage: scripts/soak.sh [MINUTES] [SEED]
#
# Runs tests for which scripts/test.sh has no time: random modules with and
# without execution, damaged text, libFuzzer on all readers of external input,
# compile and destroy cycles, and mutants that tests must notice. MINUTES
# (default 30) are divided among the steps, and do not include the build. Random
# modules start at SEED (default: the time), which is printed to repeat them.
# Failing modules become small tests in build/regress. Findings of libFuzzer are
# in build/fuzz/findings. The last line is `N steps passed, N failed`.
#
#===------------------------------------------------------------------------===#

set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
minutes=${1:-30}
seed=${2:-$(date +%s)}
share=$((minutes * 60 / 20))
passed=0
failed=0

# step NAME COMMAND...: runs the command and counts the outcome.
step() {
  local name=$1 start=$SECONDS
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then
    passed=$((passed + 1))
    printf '%s: passed in %d s\n' "$name" $((SECONDS - start))
  else
    failed=$((failed + 1))
    printf '%s: FAILED: %s\n' "$name" "$*"
  fi
}

# fuzz TARGET: runs a program of fuzzers/ for its share of the time.
fuzz() {
  local corpus=build/fuzz/corpus/$1 words=()
  [ ! -f "fuzzers/$1.dict" ] || words=("-dict=fuzzers/$1.dict")
  mkdir -p "$corpus" build/fuzz/findings
  # Code of fuse poisons LLVM's arenas, and the libraries of LLVM, which have no
  # sanitizer, do not.
  local asan=detect_odr_violation=0:allow_user_poisoning=0
  ASAN_OPTIONS=$asan:allocator_may_return_null=1 \
    "build/fuzz/bin/fuzz-$1" -max_total_time="$share" -timeout=5 \
    -rss_limit_mb=2048 -verbosity=0 -print_final_stats=1 \
    -artifact_prefix="build/fuzz/findings/$1-" "${words[@]}" "$corpus"
}

printf 'random modules start at seed %s\n' "$seed"
export PATH=$PWD/build/dev/bin:$PATH
many=1000000000
step "build" cmake --build build/dev
step "random modules" fuse-fuzz --seed="$seed" --seconds="$share" --count=$many
step "random modules that run" fuse-fuzz --run --seed="$seed" \
  --seconds=$((3 * share)) --count=$many --regress=build/regress
step "random losses, experts, casts and transposes" fuse-fuzz --run \
  --stratum=functions --seed="$seed" --seconds="$share" --count=$many \
  --regress=build/regress
step "random views" fuse-fuzz --run --stratum=strided --seed="$seed" \
  --seconds="$share" --count=$many --regress=build/regress
step "sizes at boundaries" fuse-fuzz --run --stratum=boundary --seed="$seed" \
  --seconds=$((2 * share)) --count=$many --regress=build/regress
for stratum in models slots; do
  step "random $stratum" fuse-fuzz --stratum=$stratum --seed="$seed" \
    --seconds=$((share / 2)) --count=$many --regress=build/regress
done
step "damaged text" fuse-fuzz --mutate=test/Dialect/Fuse --seed="$seed" \
  --seconds="$share" --count=$many
step "passes in random orders" fuse-fuzz --orders=test,examples \
  --seed="$seed" --seconds="$share" --count=$many
step "passes on what is not made for them" scripts/passes.py --seed="$seed" \
  --seconds="$share" --count=$many
step "random PyTorch models" env PYTHONPATH=python .venv/bin/python \
  -m tests.random_models --seed "$seed" --seconds "$share" --count $many
# 10,000 cycles in half an hour. The check of growth begins at 100.
step "cycles" fuse-c-cycles-test $((100 + minutes * 330))
step "compile time per layer" env PYTHONPATH=benchmarks \
  python3 -m fuse_bench.suites.module_scaling \
  --fuse-opt build/dev/bin/fuse-opt --layers 1000,10000 --limit 2
step "configure fuzzers" cmake --preset fuzz
step "build fuzzers" cmake --build build/fuzz --target fuzzers
for target in artifact path ptx runtime slots text weights; do
  step "libFuzzer: $target" fuzz "$target"
done
step "mutants" scripts/mutants.py --fuzz $((minutes * 15)) \
  --output build/mutants.json
printf '%d steps passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
